"""Parse tree -> surface nodes. Builds, and notes what was said twice; checks nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from lark import Token, Transformer_NonRecursive, Tree, v_args
from lark.tree import Meta

from ..diagnostics import Label, Note, Reporter, SourceFile, Span, drop
from . import ast

T = TypeVar("T")

#: Rules of the form `word value`, which `__default__` builds.
_SETTINGS = frozenset(
    {"algorithm", "target", "head_dim", "dtype", "q", "kv", "warps", "registers", "default"}
    | {"depth", "slices", "leader", "residency", "deal", "asked"}
)


def build(tree: Tree[Token], source: SourceFile, reporter: Reporter) -> ast.Schedule:
    """Return the schedule of a parse tree; settings that are given twice go to `reporter`."""
    return _Builder(source, reporter).transform(tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`warps 4` or an item that stands once: what is set, where, and to what."""

    key: str
    span: Span
    value: Any


@v_args(meta=True, inline=True)
class _Builder(Transformer_NonRecursive[Token, ast.Schedule]):
    """One method per rule of the grammar, bottom up; rules without one pass their only child on."""

    def __init__(self, source: SourceFile, reporter: Reporter) -> None:
        super().__init__()
        self.source = source
        self.reporter = reporter

    # -- helpers

    def _span(self, meta: Meta) -> Span:
        return self.source.span(meta.start_pos, meta.end_pos)

    def _name(self, token: Token) -> ast.Name:
        start, end = token.start_pos, token.end_pos
        assert start is not None and end is not None, "every token has a place"
        return ast.Name(text=str(token), span=self.source.span(start, end))

    def _names(self, children: Iterable[object]) -> tuple[ast.Name, ...]:
        return tuple(self._name(child) for child in children if isinstance(child, Token))

    def _setting(self, meta: Meta, key: str, value: object) -> Setting:
        return Setting(key=key, span=self._span(meta), value=value)

    def _once(self, settings: Iterable[Setting], where: str) -> dict[str, Any]:
        """Return settings by key; report every second one."""
        first: dict[str, Setting] = {}
        for setting in settings:
            earlier = first.setdefault(setting.key, setting)
            if earlier is not setting:
                self.reporter.report(
                    "said-twice",
                    f"`{setting.key}` is given twice {where}",
                    setting.span,
                    notes=[Note(message="first given here", label=Label(span=earlier.span))],
                    helps=[drop("keep one of the two", setting.span)],
                )
        return {key: setting.value for key, setting in first.items()}

    # -- leaves and counts

    def _only(self, meta: Meta, child: T) -> T:
        return child

    item = problem_setting = role_setting = buffer_setting = _only
    pair_setting = tiles_setting = step = _only

    def _word(self, meta: Meta, token: Token) -> ast.Name:
        return self._name(token)

    element = layout = mask_kind = case_field = replicas = target_name = _word
    turn_word = pair_word = buffer_type = memory = next_source = deal_kind = staggered = _word

    def __default__(self, data: str, children: list[Any], meta: Meta) -> Setting:
        if data not in _SETTINGS:
            raise TypeError(f"the rule `{data}` has no method here")
        value = self._name(child) if isinstance(child := children[0], Token) else child
        return self._setting(meta, data, value)

    def number(self, meta: Meta, token: Token) -> ast.Number:
        return ast.Number(value=int(token), span=self._span(meta))

    def numbers(self, meta: Meta, *values: ast.Number) -> tuple[ast.Number, ...]:
        return values

    def elements(self, meta: Meta, *values: ast.Name) -> tuple[ast.Name, ...]:
        return values

    layouts = elements

    def one_of(self, meta: Meta, values: tuple[ast.Name | ast.Number, ...]) -> ast.OneOf:
        return ast.OneOf(values=values, span=self._span(meta))

    def case(
        self, meta: Meta, number: ast.Number, field: ast.Name, value: ast.Name | ast.Number
    ) -> ast.Case:
        return ast.Case(number=number, field=field, value=value, span=self._span(meta))

    def cases(self, meta: Meta, default: ast.Number, *cases: ast.Case) -> ast.Cases:
        return ast.Cases(default=default, cases=cases, span=self._span(meta))

    def tune_range(
        self, meta: Meta, first: ast.Number, last: ast.Number, default: ast.Number
    ) -> ast.TuneRange:
        return ast.TuneRange(first=first, last=last, default=default, span=self._span(meta))

    def tune_set(self, meta: Meta, *numbers: ast.Number) -> ast.TuneSet:
        return ast.TuneSet(values=numbers[:-1], default=numbers[-1], span=self._span(meta))

    # -- algorithm, target, problem, tile

    def mask(self, meta: Meta, kind: ast.Name, size: ast.Number | None = None) -> Setting:
        span = self._span(meta)
        return self._setting(meta, "mask", ast.Mask(kind=kind, size=size, span=span))

    def problem(self, meta: Meta, *settings: Setting) -> Setting:
        said = self._once(settings, "in `problem`")
        node = ast.Problem(
            head_dim=said.get("head_dim"),
            dtype=said.get("dtype"),
            q=said.get("q"),
            kv=said.get("kv"),
            mask=said.get("mask"),
            span=self._span(meta),
        )
        return self._setting(meta, "problem", node)

    def groups(self, meta: Meta, count: ast.Number, symbol: Token) -> ast.Groups:
        return ast.Groups(count=count, symbol=self._name(symbol), span=self._span(meta))

    def tile_size(
        self, meta: Meta, symbol: Token, size: ast.Count, groups: ast.Groups | None = None
    ) -> ast.TileSize:
        name = self._name(symbol)
        return ast.TileSize(symbol=name, size=size, groups=groups, span=self._span(meta))

    def tile(self, meta: Meta, *sizes: ast.TileSize) -> Setting:
        return self._setting(meta, "tile", ast.Tile(sizes=sizes, span=self._span(meta)))

    # -- roles and buffers

    def role(self, meta: Meta, name: Token, *rest: ast.Name | Setting) -> ast.Role:
        said = self._once(_every(rest, Setting), f"in role `{name}`")
        return ast.Role(
            name=self._name(name),
            group=_first(rest, ast.Name),
            warps=said.get("warps"),
            registers=said.get("registers"),
            default=said.get("default"),
            span=self._span(meta),
        )

    def buffer_name(self, meta: Meta, name: Token, group: ast.Name | None = None) -> ast.BufferName:
        return ast.BufferName(name=self._name(name), group=group, span=self._span(meta))

    def share(self, meta: Meta, symbol: Token, parts: ast.Number) -> ast.Share:
        return ast.Share(symbol=self._name(symbol), parts=parts, span=self._span(meta))

    def dims(self, meta: Meta, *dims: Token | ast.Number | ast.Share) -> tuple[ast.Dim, ...]:
        return tuple(self._name(dim) if isinstance(dim, Token) else dim for dim in dims)

    def holds(self, meta: Meta, *values: Token) -> Setting:
        return self._setting(meta, "holds", self._names(values))

    def lives(self, meta: Meta, first: ast.Op, last: ast.Op) -> Setting:
        node = ast.Lives(first=first, last=last, span=self._span(meta))
        return self._setting(meta, "lives", node)

    def buffer(self, meta: Meta, memory: ast.Name, *rest: object) -> ast.Buffer:
        names = _every(rest, ast.BufferName)
        said = self._once(_every(rest, Setting), f"for buffer `{names[0].name}`")
        return ast.Buffer(
            memory=memory,
            names=names,
            element=_every(rest, ast.Name)[0],
            dims=_every(rest, tuple)[0],
            depth=said.get("depth"),
            slices=said.get("slices"),
            holds=said.get("holds", ()),
            lives=said.get("lives"),
            span=self._span(meta),
        )

    # -- placement

    def replica(self, meta: Meta, index: Token | ast.Number) -> ast.Index:
        return self.index(meta, index)

    def buffer_ref(self, meta: Meta, name: Token, index: ast.Index | None = None) -> ast.BufferRef:
        return ast.BufferRef(name=self._name(name), index=index, span=self._span(meta))

    def over(self, meta: Meta, *layers: ast.RegionTree) -> ast.Over:
        return ast.Over(layers=layers, span=self._span(meta))

    def beside(self, meta: Meta, *parts: ast.RegionTree) -> ast.Beside:
        return ast.Beside(parts=parts, span=self._span(meta))

    def region(self, meta: Meta, name: Token, *rest: ast.Name | ast.RegionTree) -> ast.Region:
        return ast.Region(
            name=self._name(name),
            group=_first(rest, ast.Name),
            tree=next(child for child in rest if not isinstance(child, ast.Name)),
            span=self._span(meta),
        )

    def apart(self, meta: Meta, *buffers: ast.BufferRef) -> ast.Apart:
        return ast.Apart(buffers=buffers, span=self._span(meta))

    def together(self, meta: Meta, *buffers: ast.BufferRef) -> ast.Together:
        return ast.Together(buffers=buffers, span=self._span(meta))

    # -- programs

    def offset(self, meta: Meta, sign: Token, number: Token) -> int:
        return int(f"{sign}{number}")

    def index(self, meta: Meta, base: Token | ast.Number, offset: int = 0) -> ast.Index:
        span = self._span(meta)
        if isinstance(base, ast.Number):
            return ast.Index(symbol=None, offset=base.value, span=span)
        return ast.Index(symbol=self._name(base), offset=offset, span=span)

    def op(self, meta: Meta, name: Token, *indices: ast.Index) -> ast.Op:
        return ast.Op(name=self._name(name), indices=indices, span=self._span(meta))

    def peel(self, meta: Meta, word: Token) -> ast.Peel:
        return ast.Peel(span=self._span(meta))

    def turn(self, meta: Meta, word: ast.Name, *steps: ast.Step) -> ast.Turn:
        return ast.Turn(word=word, steps=steps, span=self._span(meta))

    def staged(
        self,
        meta: Meta,
        op: ast.Op,
        width: ast.Count,
        through: Token,
        hold: ast.Count | None = None,
    ) -> ast.Staged:
        ring = self._name(through)
        return ast.Staged(op=op, width=width, through=ring, hold=hold, span=self._span(meta))

    def hold(self, meta: Meta, count: ast.Count) -> ast.Count:
        return count

    def block(self, meta: Meta, role: Token, *rest: ast.Index | ast.Step) -> ast.Block:
        steps = tuple(child for child in rest if not isinstance(child, ast.Index))
        return ast.Block(
            role=self._name(role),
            replica=_first(rest, ast.Index),
            steps=steps,
            span=self._span(meta),
        )

    def landing(self, meta: Meta, *ops: ast.Op) -> ast.Landing:
        return ast.Landing(ops=ops, span=self._span(meta))

    def settle(self, meta: Meta, op: ast.Op) -> ast.Settle:
        return ast.Settle(op=op, span=self._span(meta))

    def loop(self, meta: Meta, symbol: Token, over: Token, *rest: ast.Name | ast.Block) -> ast.Loop:
        return ast.Loop(
            symbol=self._name(symbol),
            over=self._name(over),
            staggered=_first(rest, ast.Name),
            blocks=_every(rest, ast.Block),
            span=self._span(meta),
        )

    # -- pair

    def loads(self, meta: Meta, *values: Token) -> tuple[ast.Name, ...]:
        return self._names(values)

    def exchange(
        self, meta: Meta, value: Token, dimension: Token, buffer: Token, relay: Token
    ) -> ast.Exchange:
        return ast.Exchange(
            value=self._name(value),
            dimension=self._name(dimension),
            buffer=self._name(buffer),
            relay=self._name(relay),
            span=self._span(meta),
        )

    def split(self, meta: Meta, *children: object) -> ast.Split:
        *ops, dimension = self._names(children)
        return ast.Split(
            ops=tuple(ops),
            dimension=dimension,
            loads=_first(children, tuple) or (),
            exchange=_first(children, ast.Exchange),
            span=self._span(meta),
        )

    def pair(self, meta: Meta, word: ast.Name, *settings: Setting | ast.Split) -> Setting:
        said = self._once(_every(settings, Setting), "in `pair`")
        node = ast.Pair(
            word=word,
            leader=said.get("leader"),
            splits=_every(settings, ast.Split),
            span=self._span(meta),
        )
        return self._setting(meta, "pair", node)

    # -- tiles

    def given(self, meta: Meta, kind: Token) -> ast.Order:
        return ast.Order(kind=self._name(kind), by=None, innermost=None, span=self._span(meta))

    def longest_first(self, meta: Meta, kind: Token, by: Token, length: Token) -> ast.Order:
        return ast.Order(
            kind=self._name(kind), by=self._name(length), innermost=None, span=self._span(meta)
        )

    def valid(self, meta: Meta, kind: Token, *words: Token) -> ast.Order:
        by = self._name(words[1]) if words[0] == "by" else None
        return ast.Order(
            kind=self._name(kind), by=by, innermost=self._name(words[-2]), span=self._span(meta)
        )

    def order(self, meta: Meta, order: ast.Order) -> Setting:
        return self._setting(meta, "order", order)

    def next(self, meta: Meta, source: ast.Name, *settings: Setting) -> Setting:
        said = self._once(settings, "after `next`")
        span = self._span(meta)
        node = ast.Next(source=source, deal=said.get("deal"), asked_by=said.get("asked"), span=span)
        return self._setting(meta, "next", node)

    def tiles(self, meta: Meta, *settings: Setting) -> Setting:
        said = self._once(settings, "in `tiles`")
        node = ast.Tiles(
            residency=said.get("residency"),
            order=said.get("order"),
            next=said.get("next"),
            span=self._span(meta),
        )
        return self._setting(meta, "tiles", node)

    # -- the whole

    def start(self, meta: Meta, name: Token, *items: object) -> ast.Schedule:
        said = self._once(_every(items, Setting), "in this kernel")
        return ast.Schedule(
            name=self._name(name),
            algorithm=said.get("algorithm"),
            target=said.get("target"),
            problem=said.get("problem"),
            tile=said.get("tile"),
            roles=_every(items, ast.Role),
            buffers=_every(items, ast.Buffer),
            regions=_every(items, ast.Region),
            apart=_every(items, ast.Apart),
            together=_every(items, ast.Together),
            program=tuple(i for i in items if isinstance(i, ast.Block | ast.Loop)),
            pair=said.get("pair"),
            tiles=said.get("tiles"),
            span=self._span(meta),
        )


def _every(children: Iterable[object], kind: type[T]) -> tuple[T, ...]:
    return tuple(child for child in children if isinstance(child, kind))


def _first(children: Iterable[object], kind: type[T]) -> T | None:
    return next((child for child in children if isinstance(child, kind)), None)
