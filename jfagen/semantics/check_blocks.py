"""Checks of role blocks: every op in a role, with the right indices, inside or outside the loop.

An op that was reported is remembered as lost, so that nobody reports it as missing too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..algorithm import Algorithm, Engine, Op, Space
from ..diagnostics import Label, Note, Span, near_match, quoted
from ..syntax import ast
from .check_placement import check_placement, is_before_steps
from .context import Context, first_word
from .placed import Parts, Placed
from .program import GroupRef, OpUse, Role, RoleProgram
from .staging import staged_use

#: How far ahead or behind an op may run.
MOST_OFFSET = 8


@dataclass(frozen=True, slots=True)
class _Place:
    """A block with what surrounds it: the loop's symbol, or None, and whether the loop is over."""

    block: ast.Block
    symbol: str | None
    after: bool


def check_blocks(context: Context) -> tuple[RoleProgram, ...]:
    """Resolve every block; roles come in order of declaration."""
    assert context.algorithm is not None
    walk = _Walk(context, context.algorithm)
    for place in walk.places():
        walk.block(place)
    check_placement(context, context.algorithm, walk.placed)
    return walk.programs()


def loop_of(tree: ast.Schedule) -> ast.Loop | None:
    """Return the schedule's loop."""
    return next((item for item in tree.program if isinstance(item, ast.Loop)), None)


def is_staggered(context: Context) -> bool:
    """Return whether the steps of a tile begin elsewhere in every CTA; report where they cannot."""
    loop, algorithm = loop_of(context.tree), context.algorithm
    if loop is None or loop.staggered is None or algorithm is None:
        return False
    if not algorithm.cyclic:
        context.reporter.report(
            "bad-loop",
            f"the steps of `{algorithm.name}` have a last one, so they cannot begin anywhere",
            loop.staggered.span,
            helps=("leave it out",),
        )
    return True


@dataclass(slots=True)
class _Walk:
    """Walks the blocks in file order."""

    context: Context
    algorithm: Algorithm
    placed: Placed = field(init=False)
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

    def places(self) -> Iterator[_Place]:
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
                helps=(f"write `loop {loop.symbol.text} over {walked}`",),
            )
        after = False
        for item in self.context.tree.program:
            if isinstance(item, ast.Block):
                yield _Place(item, None, after)
            elif item is loop:
                after = True
                yield from (_Place(block, item.symbol.text, False) for block in item.blocks)
            else:
                instead = "write its ops in the first loop"
                self.context.not_built("a second loop", first_word(item.span), instead)
                self.placed.lose(op.name.text for block in item.blocks for op in _ops(block.steps))

    def block(self, place: _Place) -> None:
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

    def _steps(self, steps: tuple[ast.Step, ...], role: Role, place: _Place) -> None:
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

    def _settle(self, node: ast.Settle, role: Role, place: _Place) -> None:
        """Remember a wait for the op that follows; report one for what is not in flight."""
        name, word = node.op.name.text, first_word(node.span)
        ops = {op.name: op for op in self.algorithm.ops}
        if name not in ops:
            self.context.unknown("unknown-op", "op", node.op.name, ops)
            return
        if not self.context.target.joins:
            instead = "leave it out: barriers wait for matmuls"
            self.context.lacks("`wait`: a matmul signals its end", word, instead)
            return
        use = self._op(node.op, role, place)
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

    def _turn(self, node: ast.Turn, role: Role, place: _Place) -> None:
        """Place the ops of one turn; report a turn that nobody could take."""
        word, instead = node.word.span, "leave it out, with its brackets"
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

    def _no_turn(self, role: Role, place: _Place) -> str:
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
                    helps=(f"write `{role.name}[{self.symbol}]`",),
                )
        elif not role.indexed:
            report(
                "extra-index",
                f"the role `{role.name}` has no replicas",
                node.replica.span,
                helps=(f"write `{role.name}`",),
            )
        elif node.replica.symbol is None:
            instead = f"write `{role.name}[{self.symbol}]`"
            self.context.not_built("a block for one replica", node.replica.span, instead)
        else:
            self.context.group_symbol(node.replica.symbol)

    def _peel(self, step: ast.Peel, role: Role, place: _Place) -> None:
        parts = self.placed.parts[role.name]
        if parts.peel:
            self.context.reporter.report(
                "said-twice",
                f"`peel` is given twice in role `{role.name}`",
                step.span,
                helps=("keep one of the two",),
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
        place: _Place,
        staged: ast.Staged | None,
        lands_with: ast.Op | None = None,
    ) -> None:
        self.placed.busy.add(role.name)
        use = self._op(node, role, place)
        if use is not None:
            use = replace(use, settles=tuple(self.settling))
            if lands_with is not None and lands_with is not node:
                use = self._landing(use, lands_with, role)
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

    def _landing(self, use: OpUse, first: ast.Op, role: Role) -> OpUse:
        """Return a load that lands on the barrier of another one; report what cannot."""
        loop, name = self.placed.parts[role.name].loop, first.name.text
        leader = next((one for one in reversed(loop) if one.op.name == name), None)
        if leader is None:
            return use
        loads = {one.op.engine for one in (use, leader)} == {Engine.LOAD}
        slots = [self._slots(one.op) for one in (use, leader)]
        if not loads:
            why = f"`{(use if use.op.engine is not Engine.LOAD else leader).op.name}` is no load"
        elif use.offset != leader.offset:
            why = "they load for different steps"
        elif slots[0] != slots[1]:
            why = f"their rings have {slots[0]} and {slots[1]} slots"
        else:
            return replace(use, lands_with=name)
        self.context.reporter.report(
            "bad-with",
            f"`{use.op.name}` cannot land on the barrier of `{name}`: {why}",
            use.span,
            helps=(f"give them rings of one depth and the same step, or place `{use.span.text}` alone",),
        )
        return use

    def _slots(self, op: Op) -> int:
        """Return the slots of the ring that an op fills; 0 if none is declared."""
        values = {access.value for access in op.accesses()}
        buffers = self.context.buffers.values()
        return next((b.depth for b in buffers if values & set(b.holds)), 0)

    def _op(self, node: ast.Op, role: Role, place: _Place) -> OpUse | None:
        names = [op.name for op in self.algorithm.ops]
        if node.name.text not in names:
            self.context.unknown("unknown-op", "op", node.name, names)
            match = near_match(node.name.text, names)
            self.placed.lose([match] if match else names)
            return None
        op = self.algorithm.op(node.name.text)
        if not self._is_in_place(op, node, place):
            return None
        indices = list(node.indices)
        offset = self._offset(op, node, indices, place)
        if offset is None or (op.grouped and not self.context.groups_known):
            return None
        reference = self._group(op, node, indices, role)
        if reference is None:
            return None
        for index in indices:
            plain = node.span.text.replace(index.span.text, "", 1)
            self.context.reporter.report(
                "extra-index",
                f"`{op.name}` has no such index",
                index.span,
                helps=(f"write `{plain}`",),
            )
        group_ref, groups = reference
        return OpUse(
            op=op,
            group_ref=group_ref,
            groups=groups,
            offset=offset,
            span=node.span,
            turn=self.turn,
        )

    def _is_in_place(self, op: Op, node: ast.Op, place: _Place) -> bool:
        """Whether an op stands on the right side of the loop's brackets; report it if not."""
        inside = place.symbol is not None
        if (op.space is Space.STEP) == inside:
            return True
        loop = loop_of(self.context.tree)
        if loop is not None:
            where = self._side(op)
            self.context.reporter.report(
                "wrong-place",
                f"`{op.name}` runs once a {op.space}, so it belongs {where} the loop",
                node.name.span,
                notes=(Note(message="the loop", label=Label(span=first_word(loop.span))),),
                helps=(f"move it to a block of `{place.block.role.text}` {where} the loop",),
            )
        return False

    def _side(self, op: Op) -> str:
        """Return on which side of the loop's brackets an op belongs."""
        if op.space is Space.STEP:
            return "inside"
        return "before" if is_before_steps(self.algorithm, op) else "after"

    def _offset(self, op: Op, node: ast.Op, indices: list[ast.Index], place: _Place) -> int | None:
        """Take the loop index, the last one, off the list and return its offset."""
        if op.space is Space.TILE:
            return 0
        last = indices[-1] if indices else None
        if last is None or last.symbol is None or last.symbol.text in (self.symbol, place.symbol):
            if last is None or last.symbol is None or last.symbol.text != place.symbol:
                self.context.reporter.report(
                    "missing-index",
                    f"`{op.name}` runs once a step: its last index is that of the loop",
                    node.span,
                    helps=(f"write `{node.span.text}[{place.symbol}]`",),
                )
                return None
        else:
            self.context.reporter.report(
                "unknown-index",
                f"the loop counts `{place.symbol}`, not `{last.symbol.text}`",
                last.span,
                helps=(f"write `[{place.symbol}]`",),
            )
            return None
        indices.pop()
        if abs(last.offset) > MOST_OFFSET:
            side = "ahead of" if last.offset > 0 else "behind"
            self.context.reporter.report(
                "bad-offset",
                f"`{op.name}` runs {abs(last.offset)} steps {side} the loop, at most {MOST_OFFSET} "
                "are built",
                last.span,
                helps=("let it run closer, and the ops that wait for it too",),
            )
        return last.offset

    def _group(
        self, op: Op, node: ast.Op, indices: list[ast.Index], role: Role
    ) -> tuple[GroupRef, tuple[int, ...]] | None:
        """Take the group index off the list and return what it means."""
        if not op.grouped:
            if role.replicas > 1:
                self.context.reporter.report(
                    "run-twice",
                    f"`{op.name}` is for all groups, but each of the {role.replicas} replicas of "
                    f"`{role.name}` would run it",
                    node.name.span,
                    notes=(Note(message="the role", label=Label(span=role.span)),),
                    helps=("place it in a role without replicas",),
                )
                return None
            return GroupRef.NONE, ()
        if not indices:
            if len(self.groups) == 1:
                return GroupRef.EVERY, self.groups
            whole = node.span.text.replace(op.name, f"{op.name}[{self.symbol}]", 1)
            self.context.reporter.report(
                "missing-index",
                f"`{op.name}` runs for every group: its first index is the group",
                node.span,
                helps=(f"write `{whole}`",),
            )
            return None
        index = indices.pop(0)
        if index.symbol is None:
            return self._one_group(index, role)
        self.context.group_symbol(index.symbol)
        if index.offset:
            self.context.reporter.report(
                "bad-group",
                "a group has no offset",
                index.span,
                helps=(f"write `[{self.symbol}]`, or the number of one group",),
            )
            return None
        return (GroupRef.REPLICA if role.replicas > 1 else GroupRef.EVERY), self.groups

    def _one_group(self, index: ast.Index, role: Role) -> tuple[GroupRef, tuple[int, ...]] | None:
        if index.offset not in self.groups:
            self.context.reporter.report(
                "bad-group",
                f"there is no group {index.offset}, the last one is {self.groups[-1]}",
                index.span,
                helps=(f"write {quoted(f'[{group}]' for group in self.groups)}",),
            )
            return None
        if role.replicas > 1:
            instead = f"write `[{self.symbol}]`: each replica runs its own group"
            self.context.not_built("one group in a role over the groups", index.span, instead)
            return None
        return GroupRef.ONE, (index.offset,)

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
