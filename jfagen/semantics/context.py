"""What the parts of the checker share: the reporter and what is known so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..algorithm import Algorithm, Value
from ..diagnostics import Label, Note, Reporter, Span, drop, meant, put, quoted, write
from ..syntax import ast
from ..target import SM_100A, Target
from .instances import Instance
from .program import Buffer, Role, TileShape

#: Warps that a role may have.
ROLE_WARPS = (1, 2, 4, 8, 16)


@dataclass(slots=True)
class Context:
    """The state of one check; every part adds what it has resolved.

    Attributes:
        tile: None where the number of groups is not known; then no index is checked.
        broken: a declaration of a buffer was refused, so that a name may be missing because of it.
        strange: symbols that were reported as no group index, each once.
        instance: which of the values that the problem offers are built this time.
    """

    reporter: Reporter
    tree: ast.Schedule
    instance: Instance
    algorithm: Algorithm | None = None
    target: Target = SM_100A
    tile: TileShape | None = None
    dims: dict[str, int] = field(default_factory=dict)
    roles: dict[str, Role] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    broken: bool = False
    strange: set[str] = field(default_factory=set)

    def unknown(self, id: str, kind: str, name: ast.Name, known: Iterable[str]) -> None:
        """Report a name that nothing has, with the near match."""
        known = list(known)
        helps = meant(name.span, known)
        if not helps and known:
            helps = (f"known here: {quoted(known, 'and')}",)
        self.reporter.report(id, f"there is no {kind} `{name.text}`", name.span, helps=helps)

    def not_built(self, what: str, span: Span, instead: str, *notes: Note) -> None:
        """Report what the language has and the compiler does not build yet, and what it builds."""
        self.reporter.report(
            "not-built", f"{what} is not built yet", span, notes=notes, helps=(instead,)
        )

    def lacks(self, what: str, span: Span, instead: str) -> None:
        """Report a word for something that the target does not have."""
        self.reporter.report(
            "target-lacks", f"`{self.target.name}` has no {what}", span, helps=(instead,)
        )

    def twice(self, kind: str, name: ast.Name, whole: Span | None, first: Span) -> None:
        """Report a second declaration; `whole` is all of it, if it stands by itself."""
        words = "drop one of the two" + ("" if kind == "size" else ", or rename it")
        self.reporter.report(
            "declared-twice",
            f"the {kind} `{name.text}` is declared twice",
            name.span,
            notes=(Note(message="first declared here", label=Label(span=first)),),
            helps=(drop(words, whole) if whole else words,),
        )

    def extent(self, dim: str) -> int:
        """Return the size of a dimension, or of one of its equal parts: `d/2`."""
        symbol, _, parts = dim.partition("/")
        return self.dims.get(symbol, 128) // int(parts or 1)

    def dims_of(self, value: Value) -> tuple[str, ...]:
        """Return the symbols of the shape that a buffer of a value has."""
        return value.dims_of(self.tile.groups if self.tile else 1)

    def number(self, count: ast.Count | None, default: int) -> int:
        """Return a plain number, that of the instance; tuning sets are not built yet."""
        if count is None:
            return default
        if isinstance(count, ast.TuneRange | ast.TuneSet):
            instead = write(count.span, str(count.default.value))
            self.not_built("`tune`", first_word(count.span), instead)
        return self.chosen(count).value

    def chosen(self, count: ast.Count) -> ast.Number:
        """Return the node of the number that a count says in this instance."""
        if isinstance(count, ast.Number):
            return count
        return self.instance.number(count) if isinstance(count, ast.Cases) else count.default

    def group_symbol(self, index: ast.Name | None) -> bool:
        """Return whether something is declared over the groups; report a symbol that is not theirs.

        A strange symbol was meant as that of the groups: taking it for them hides what follows.
        """
        if index is None:
            return False
        if self.tile is None or index.text == self.tile.group_symbol:
            return True
        if index.text in self.strange:
            return True
        self.strange.add(index.text)
        symbol = self.tile.group_symbol
        if symbol is None:
            self.reporter.report(
                "unknown-index",
                f"the tile has one group and no index `{index.text}`",
                index.span,
                notes=(Note(message="the tile", label=Label(span=self.tile.span)),),
                helps=(self._no_index(index.text, self.tile),),
            )
        else:
            self.reporter.report(
                "unknown-index",
                f"the groups are called `{symbol}`, not `{index.text}`",
                index.span,
                notes=(Note(message="the groups", label=Label(span=self.tile.span)),),
                helps=(put(f"write `[{symbol}]`", index.span, symbol),),
            )
        return True

    def _no_index(self, symbol: str, tile: TileShape) -> str:
        """Return what to do about an index where there is one group."""
        leave = f"leave `[{symbol}]` out everywhere"
        dim = self.algorithm.grouped_dim(self.target.name) if self.algorithm else "m"
        if dim is None:
            return leave
        size = {"m": tile.m, "n": tile.n}[dim]
        return f"write `{dim} {size} x 2 as {symbol}` for two groups, or {leave}"

    @property
    def groups_known(self) -> bool:
        """Whether indices can be checked: the tile is right, and its groups are not in doubt."""
        return self.tile is not None and (self.tile.group_symbol is not None or not self.strange)


def first_word(span: Span) -> Span:
    """Return the place of the word with which something begins."""
    text = span.text
    length = next((i for i, c in enumerate(text) if not (c.isalnum() or c == "_")), len(text))
    return span.source.span(span.start, span.start + length)
