"""Checks of role blocks: every op in a role, with the right indices, inside or outside the loop.

An op that was reported is remembered as lost, so that nobody reports it as missing too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..algorithm import Algorithm, Engine, Space
from ..diagnostics import Edit, Fix, Label, Note, Span, drop, put, quoted, write
from ..syntax import ast
from .check_placement import check_placement
from .context import Context, first_word
from .landing import landing
from .loops import loop_of
from .placed import Parts, Placed
from .program import Role, RoleProgram
from .resolve_op import OpResolver, Place
from .staging import staged_use


def check_blocks(context: Context) -> tuple[RoleProgram, ...]:
    """Resolve every block; roles come in order of declaration."""
    assert context.algorithm is not None
    walk = _Walk(context, context.algorithm)
    for place in walk.places():
        walk.block(place)
    check_placement(context, context.algorithm, walk.placed)
    return walk.programs()


@dataclass(slots=True)
class _Walk:
    """Walks the blocks in file order."""

    context: Context
    algorithm: Algorithm
    placed: Placed = field(init=False)
    resolver: OpResolver = field(init=False)
    groups: tuple[int, ...] = field(init=False)
    symbol: str | None = field(init=False)
    strange_roles: set[str] = field(default_factory=set)
    turn: int = -1
    turns: int = 0
    turning: dict[str, Span] = field(default_factory=dict)
    settling: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        tile = self.context.tile
        self.groups = tuple(range(tile.groups)) if tile else (0,)
        self.symbol = tile.group_symbol if tile else None
        self.placed = Placed(parts={name: Parts() for name in self.context.roles})
        self.resolver = OpResolver(
            self.context, self.algorithm, self.placed, self.groups, self.symbol
        )

    def places(self) -> Iterator[Place]:
        """Yield every block with its surroundings; report loops that cannot be."""
        loop = loop_of(self.context.tree)
        if loop is None:
            line = f"loop i over {self.algorithm.loop} {{ ... }}"
            self.context.reporter.report(
                "missing-loop",
                "the kernel has no loop",
                self.context.tree.name.span,
                helps=(f"add `{line}` around the blocks with the ops of a step",),
            )
        elif loop.over.text != self.algorithm.loop:
            walked = self.algorithm.loop
            self.context.reporter.report(
                "unknown-loop",
                f"the steps of a tile walk over `{walked}`, not `{loop.over.text}`",
                loop.over.span,
                helps=(
                    put(f"write `loop {loop.symbol.text} over {walked}`", loop.over.span, walked),
                ),
            )
        after = False
        for item in self.context.tree.program:
            if isinstance(item, ast.Block):
                yield Place(item, None, after)
            elif item is loop:
                after = True
                yield from (Place(block, item.symbol.text, False) for block in item.blocks)
            else:
                instead = "write its ops in the first loop"
                self.context.not_built("a second loop", first_word(item.span), instead)
                self.placed.lose(op.name.text for block in item.blocks for op in _ops(block.steps))

    def block(self, place: Place) -> None:
        """Resolve one block."""
        node = place.block
        role = self.context.roles.get(node.role.text)
        if role is None:
            if node.role.text not in self.strange_roles:
                self.context.unknown("unknown-role", "role", node.role, self.context.roles)
            self.strange_roles.add(node.role.text)
            self.placed.lose(op.name.text for op in _ops(node.steps))
            self.placed.busy |= set(self.context.roles)
            return
        self._check_replica(node, role)
        self._steps(node.steps, role, place)

    def _steps(self, steps: tuple[ast.Step, ...], role: Role, place: Place) -> None:
        for step in steps:
            match step:
                case ast.Peel():
                    self._peel(step, role, place)
                case ast.Turn():
                    self._turn(step, role, place)
                case ast.Staged():
                    self._place_op(step.op, role, place, step)
                case ast.Op():
                    self._place_op(step, role, place, None)
                case ast.Landing():
                    for op in step.ops:
                        self._place_op(op, role, place, None, lands_with=step.ops[0])
                case ast.Settle():
                    self._settle(step, role, place)
        if self.settling:
            self._settles_nothing(steps[-1], "nothing stands behind it")

    def _settle(self, node: ast.Settle, role: Role, place: Place) -> None:
        """Remember a wait for the op that follows; report one for what is not in flight."""
        name, word = node.op.name.text, first_word(node.span)
        ops = {op.name: op for op in self.algorithm.ops}
        if name not in ops:
            self.context.unknown("unknown-op", "op", node.op.name, ops)
            return
        if not self.context.target.joins:
            instead = drop("leave it out: barriers wait for matmuls", node.span)
            self.context.lacks("`wait`: a matmul signals its end", word, instead)
            return
        use = self.resolver.use(node.op, role, place, self.turn)
        if use is None:
            return
        issued = [(one.op.name, one.offset) for one in self.placed.parts[role.name].loop]
        if use.op.engine is not Engine.MMA:
            self._settles_nothing(node, f"`{name}` is no matmul")
        elif (name, use.offset) not in issued:
            self._settles_nothing(node, f"`{role.name}` has not issued `{node.op.span.text}` here")
        else:
            self.settling.append((name, use.offset))

    def _settles_nothing(self, node: ast.Step, why: str) -> None:
        self.settling.clear()
        self.context.reporter.report(
            "bad-wait",
            f"there is nothing to wait for: {why}",
            node.span,
            helps=("drop it, or write it between the matmul and the op that may only follow then",),
        )

    def _turn(self, node: ast.Turn, role: Role, place: Place) -> None:
        """Place the ops of one turn; report a turn that nobody could take."""
        word, instead = node.word.span, _without_turn(node)
        report = self.context.reporter.report
        if not self.context.target.turns:
            self.context.lacks("`turn`", word, instead)
        elif why := self._no_turn(role, place):
            message = f"nobody takes turns with `{role.name}` here: {why}"
            report("bad-turn", message, word, helps=(instead,))
        elif not list(_ops(node.steps)):
            report("bad-turn", "nothing stands in this turn", word, helps=(instead,))
        elif (first := next(iter(self.turning), role.name)) != role.name:
            note = Note(message=f"`{first}` does here", label=Label(span=self.turning[first]))
            message = f"only one role of a kernel can take turns, and `{role.name}` is a second one"
            report("bad-turn", message, word, notes=(note,), helps=(instead,))
        else:
            self.turning.setdefault(role.name, word)
        self.turn, self.turns = self.turns, self.turns + 1
        self._steps(node.steps, role, place)
        self.turn = -1

    def _no_turn(self, role: Role, place: Place) -> str:
        """Return why a turn makes no sense; empty if it does."""
        if role.replicas == 1 and self.context.groups_known:
            return "it has no replicas"
        if place.symbol is None:
            return "turns are taken step by step, in the loop"
        return "it stands inside another turn" if self.turn >= 0 else ""

    def _check_replica(self, node: ast.Block, role: Role) -> None:
        report = self.context.reporter.report
        if node.replica is None:
            if role.indexed and self.context.groups_known:
                report(
                    "missing-index",
                    f"the role `{role.name}` is one for every group",
                    node.role.span,
                    helps=(write(node.role.span, f"{role.name}[{self.symbol}]"),),
                )
        elif not role.indexed:
            report(
                "extra-index",
                f"the role `{role.name}` has no replicas",
                node.replica.span,
                helps=(write(node.role.span.to(node.replica.span), role.name),),
            )
        elif node.replica.symbol is None:
            said = node.role.span.to(node.replica.span)
            instead = write(said, f"{role.name}[{self.symbol}]")
            self.context.not_built("a block for one replica", node.replica.span, instead)
        else:
            self.context.group_symbol(node.replica.symbol)

    def _peel(self, step: ast.Peel, role: Role, place: Place) -> None:
        parts = self.placed.parts[role.name]
        if parts.peel:
            self.context.reporter.report(
                "said-twice",
                f"`peel` is given twice in role `{role.name}`",
                step.span,
                helps=(drop("keep one of the two", step.span),),
            )
            return
        parts.peel = True
        names = {op.name.text for op in _ops(place.block.steps)}
        masking = [op.name for op in self.algorithm.ops if op.masks]
        strange = names - {op.name for op in self.algorithm.ops}
        inside = place.symbol is not None or loop_of(self.context.tree) is None
        if inside and (strange or names & set(masking)):
            return
        self.context.reporter.report(
            "bad-peel",
            f"`peel` splits the loop that holds the mask, and `{role.name}` has none here",
            step.span,
            helps=(f"write it in the loop, in the block with {quoted(masking)}",),
        )

    def _place_op(
        self,
        node: ast.Op,
        role: Role,
        place: Place,
        staged: ast.Staged | None,
        lands_with: ast.Op | None = None,
    ) -> None:
        self.placed.busy.add(role.name)
        use = self.resolver.use(node, role, place, self.turn)
        if use is not None:
            whole = node if staged is None else staged
            alone = lands_with is None and not self.settling
            use = replace(use, settles=tuple(self.settling), whole=whole.span if alone else None)
            if lands_with is not None and lands_with is not node:
                loop = self.placed.parts[role.name].loop
                use = landing(self.context, use, lands_with, loop)
            self.settling.clear()
            use = staged_use(self.context, use, staged)
        if use is None:
            self.placed.lose([node.name.text])
        elif self.placed.enter(self.context, use, role, self.groups):
            parts = self.placed.parts[role.name]
            if use.op.space is Space.STEP:
                parts.loop.append(use)
            else:
                (parts.after if place.after else parts.before).append(use)

    def programs(self) -> tuple[RoleProgram, ...]:
        """Return the programs in order of declaration."""
        return tuple(
            RoleProgram(
                role=role,
                before=tuple(self.placed.parts[role.name].before),
                loop=tuple(self.placed.parts[role.name].loop),
                after=tuple(self.placed.parts[role.name].after),
                peel=self.placed.parts[role.name].peel,
            )
            for role in self.context.roles.values()
        )


def _without_turn(node: ast.Turn) -> Fix:
    """Return the advice to leave a turn out: its ops stay, if it has any."""
    words = "leave it out, with its brackets"
    if not node.steps:
        return drop(words, node.span)
    source, first, last = node.span.source, node.steps[0].span, node.steps[-1].span
    opening = source.span(node.span.start, first.start)
    closing = source.span(last.end, node.span.end)
    return Fix(words, Edit(opening, ""), Edit(closing, ""))


def _ops(steps: tuple[ast.Step, ...]) -> Iterator[ast.Op]:
    """Yield the ops of a block, those in `turn` and in slices too."""
    for step in steps:
        match step:
            case ast.Op():
                yield step
            case ast.Landing():
                yield from step.ops
            case ast.Staged():
                yield step.op
            case ast.Turn():
                yield from _ops(step.steps)
            case ast.Peel() | ast.Settle():
                pass
