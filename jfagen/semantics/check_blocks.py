"""Checks of role blocks: every op in exactly one role, with the right indices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from ..algorithm import Algorithm, Engine, Op, Space
from ..diagnostics import Label, Note, Span, did_you_mean, quoted
from ..syntax import ast
from ..types import Storage
from .context import Context
from .program import GroupRef, OpUse, Role, RoleProgram

#: How far ahead or behind an op may run.
MOST_OFFSET = 8


@dataclass(frozen=True, slots=True)
class _Place:
    """A block with what surrounds it: the loop's symbol, or None, and whether the loop is over."""

    block: ast.Block
    symbol: str | None
    after: bool


@dataclass(slots=True)
class _Parts:
    """The op uses of one role as they are found."""

    before: list[OpUse]
    loop: list[OpUse]
    after: list[OpUse]
    peel: bool = False


def check_blocks(context: Context) -> tuple[RoleProgram, ...]:
    """Resolve every block; roles come in order of declaration."""
    assert context.algorithm is not None
    checker = _Blocks(context, context.algorithm)
    for place in checker.places():
        checker.block(place)
    checker.check_placement()
    return checker.programs()


def loop_of(tree: ast.Schedule) -> ast.Loop | None:
    """Return the schedule's loop."""
    return next((item for item in tree.program if isinstance(item, ast.Loop)), None)


class _Blocks:
    """Walks the blocks in file order."""

    def __init__(self, context: Context, algorithm: Algorithm) -> None:
        self.context = context
        self.algorithm = algorithm
        self.parts: dict[str, _Parts] = {name: _Parts([], [], []) for name in context.roles}
        self.placed: dict[str, dict[int, OpUse]] = defaultdict(dict)
        self.role_of: dict[int, str] = {}
        tile = context.tile
        self.groups = tuple(range(tile.groups)) if tile else (0,)
        self.symbol = tile.group_symbol if tile else None

    def places(self) -> Iterator[_Place]:
        """Yield every block with its surroundings; report loops that cannot be."""
        seen: ast.Loop | None = None
        for item in self.context.tree.program:
            if isinstance(item, ast.Block):
                yield _Place(item, None, seen is not None)
                continue
            if seen is not None:
                self.context.not_built("a second loop", item.symbol.span, "use one loop")
                continue
            seen = item
            if item.over.text != self.algorithm.loop:
                self.context.unknown("loop dimension", item.over, [self.algorithm.loop])
            for block in item.blocks:
                yield _Place(block, item.symbol.text, False)
        if seen is None:
            self.context.reporter.report(
                "missing-loop",
                "the kernel has no loop",
                self.context.tree.name.span,
                helps=(f"add `loop i over {self.algorithm.loop} {{ ... }}`",),
            )

    def block(self, place: _Place) -> None:
        """Resolve one block."""
        node = place.block
        role = self.context.roles.get(node.role.text)
        if role is None:
            self.context.unknown("role", node.role, self.context.roles)
            return
        self._check_replica(node, role)
        parts = self.parts[role.name]
        for step in node.steps:
            match step:
                case ast.Peel():
                    self._peel(step, role, parts, place)
                case ast.Turn():
                    self.context.not_built("`turn`", step.word.span)
                case ast.Staged():
                    self.context.not_built("a staged op", step.op.span)
                case ast.Op():
                    use = self._op(step, role, place)
                    if use is None:
                        continue
                    if use.op.space is Space.STEP:
                        parts.loop.append(use)
                    else:
                        (parts.after if place.after else parts.before).append(use)

    def _check_replica(self, node: ast.Block, role: Role) -> None:
        if node.replica is None:
            if role.indexed:
                self.context.reporter.report(
                    "missing-index",
                    f"the role `{role.name}` is one for every group",
                    node.role.span,
                    helps=(f"write `{role.name}[{self.symbol}]`",),
                )
            return
        if not role.indexed:
            self.context.reporter.report(
                "extra-index", f"the role `{role.name}` has no replicas", node.replica.span
            )
        elif node.replica.symbol is None or node.replica.symbol.text != self.symbol:
            self.context.not_built("a block for one replica", node.replica.span)

    def _peel(self, step: ast.Peel, role: Role, parts: _Parts, place: _Place) -> None:
        parts.peel = True
        ops = [s.name.text for s in place.block.steps if isinstance(s, ast.Op)]
        known = {op.name: op for op in self.algorithm.ops}
        if place.symbol is None or not any(known[op].masks for op in ops if op in known):
            masking = quoted(op.name for op in self.algorithm.ops if op.masks)
            self.context.reporter.report(
                "bad-peel",
                f"`peel` splits the loop that holds the mask, and `{role.name}` has none here",
                step.span,
                helps=(f"write it in the block of {masking}",),
            )

    def _op(self, node: ast.Op, role: Role, place: _Place) -> OpUse | None:
        names = [op.name for op in self.algorithm.ops]
        if node.name.text not in names:
            self.context.reporter.report(
                "unknown-op",
                f"`{self.algorithm.name}` has no op `{node.name.text}`",
                node.name.span,
                helps=did_you_mean(node.name.text, names) or (f"its ops: {quoted(names, 'and')}",),
            )
            return None
        op = self.algorithm.op(node.name.text)
        if (op.space is Space.STEP) != (place.symbol is not None):
            where = "inside the loop" if op.space is Space.STEP else "outside the loop"
            self.context.reporter.report(
                "wrong-place", f"`{op.name}` runs once a {op.space} and stands {where}", node.name.span
            )
            return None
        indices = list(node.indices)
        offset = self._offset(op, indices, place)
        reference = self._group(op, node, indices, role)
        for index in indices:
            self.context.reporter.report(
                "extra-index", f"`{op.name}` has no such index", index.span
            )
        if offset is None or reference is None:
            return None
        group_ref, groups = reference
        use = OpUse(op=op, group_ref=group_ref, groups=groups, offset=offset, span=node.span)
        self._enter(use, role)
        self._check_engine(use, role)
        return use

    def _offset(self, op: Op, indices: list[ast.Index], place: _Place) -> int | None:
        """Take the loop index, the last one, off the list and return its offset."""
        if op.space is Space.TILE:
            return 0
        if not indices or indices[-1].symbol is None or indices[-1].symbol.text != place.symbol:
            self.context.reporter.report(
                "missing-index",
                f"`{op.name}` runs once a step: its last index is the loop's",
                indices[-1].span if indices else place.block.role.span,
                helps=(f"write `[{place.symbol}]`, or `[{place.symbol}-1]` for the step before",),
            )
            indices.clear()
            return None
        index = indices.pop()
        if abs(index.offset) > MOST_OFFSET:
            self.context.reporter.report(
                "bad-offset",
                f"`{op.name}` runs {abs(index.offset)} steps apart, at most {MOST_OFFSET} are built",
                index.span,
            )
        return index.offset

    def _group(
        self, op: Op, node: ast.Op, indices: list[ast.Index], role: Role
    ) -> tuple[GroupRef, tuple[int, ...]] | None:
        """Take the group index off the list and return what it means."""
        if not op.grouped:
            return GroupRef.NONE, ()
        if not indices:
            if len(self.groups) == 1:
                return GroupRef.EVERY, self.groups
            self.context.reporter.report(
                "missing-index",
                f"`{op.name}` runs for every group: its first index is the group",
                node.name.span,
                helps=(f"write `{op.name}[{self.symbol}]`, or a number",),
            )
            return None
        index = indices.pop(0)
        if index.symbol is None:
            if index.offset not in self.groups:
                self.context.reporter.report(
                    "bad-group",
                    f"there is no group {index.offset}, only 0 to {len(self.groups) - 1}",
                    index.span,
                )
                return None
            if role.replicas > 1:
                self.context.not_built("one group's op in a role over the groups", index.span)
                return None
            return GroupRef.ONE, (index.offset,)
        if not self.context.group_symbol(index.symbol) or index.offset:
            return None
        return (GroupRef.REPLICA if role.replicas > 1 else GroupRef.EVERY), self.groups

    def _enter(self, use: OpUse, role: Role) -> None:
        for group in use.groups or (-1,):
            first = self.placed[use.op.name].get(group)
            if first is not None:
                which = f"`{use.op.name}` of group {group}" if group >= 0 else f"`{use.op.name}`"
                self.context.reporter.report(
                    "placed-twice",
                    f"{which} is placed twice",
                    use.span,
                    notes=(Note(message="first here", label=Label(span=first.span)),),
                )
            self.placed[use.op.name].setdefault(group, use)
            self.role_of[id(use)] = role.name

    def _check_engine(self, use: OpUse, role: Role) -> None:
        """Ops of warps read tensor memory: four warps see all of its lanes."""
        if use.op.engine is not Engine.WARPS:
            return
        if role.warps > 4:
            self.context.not_built(f"`{use.op.name}` on {role.warps} warps", use.span, "use 4 warps")
        elif role.warps < 4:
            self.context.reporter.report(
                "bad-warps",
                f"`{use.op.name}` needs 4 warps, `{role.name}` has {role.warps}",
                use.span,
                helps=("place it in a role with 4 warps",),
                notes=(Note(message="the role", label=Label(span=role.span)),),
            )
        if use.op.keeps and use.group_ref is GroupRef.EVERY and len(use.groups) > 1:
            self.context.reporter.report(
                "bad-registers",
                f"`{use.op.name}` keeps registers from step to step for each of {len(use.groups)} "
                f"groups, and `{role.name}` is one role for all",
                use.span,
                helps=(f"place it in a role over the groups: `role {role.name}[{self.symbol}]`",),
            )

    def check_placement(self) -> None:
        """Report ops that are missing, ring orders, values in registers, and loops to peel."""
        report = self.context.reporter.report
        for op in self.algorithm.ops:
            wanted = self.groups if op.grouped else (-1,)
            missing = [group for group in wanted if group not in self.placed[op.name]]
            if missing == list(wanted):
                report(
                    "missing-op",
                    f"no role runs `{op.name}`",
                    self._end(),
                    helps=(f"place `{self._example(op)}` in a role", *self._suggest(op)),
                )
            elif missing:
                listed = ", ".join(map(str, missing))
                report("missing-op", f"no role runs `{op.name}` of group {listed}", self._end())
        for role in self.context.roles.values():
            parts = self.parts[role.name]
            if not (parts.before or parts.loop or parts.after):
                report("idle-role", f"the role `{role.name}` runs nothing", role.span)
            self._check_loop(role, parts)
        if not self.context.reporter.has_errors():
            self._check_rings()
            self._check_registers()

    def _end(self) -> Span:
        return self.context.tree.name.span

    def _example(self, op: Op) -> str:
        group = f"[{self.symbol}]" if op.grouped and len(self.groups) > 1 else ""
        loop = loop_of(self.context.tree)
        step = f"[{loop.symbol.text if loop else 'i'}]" if op.space is Space.STEP else ""
        return f"{op.name}{group}{step}"

    def _suggest(self, op: Op) -> tuple[str, ...]:
        like = [
            self.role_of[id(use)]
            for name, uses in self.placed.items()
            for use in uses.values()
            if self.algorithm.op(name).engine is op.engine
        ]
        return (f"`{like[0]}` runs ops of the same kind",) if like else ()

    def _check_loop(self, role: Role, parts: _Parts) -> None:
        masking = [use for use in parts.loop if use.op.masks]
        offsets = {use.offset for use in parts.loop}
        if masking and len(offsets) > 1:
            self.context.not_built(
                f"`{masking[0].op.name}` in a loop with ops of other steps",
                masking[0].span,
                f"give all ops of `{role.name}` the same step",
            )

    def _check_rings(self) -> None:
        for buffer in self.context.buffers.values():
            if len(buffer.holds) < 2:
                continue
            writers = [self.algorithm.writers(value)[0] for value in buffer.holds]
            uses = [self.placed[op.name][-1] for op in writers]
            roles = {self.role_of[id(use)] for use in uses}
            loop = self.parts[next(iter(roles))].loop
            order = [use for use in loop if use in uses]
            if len(roles) > 1 or len({use.offset for use in uses}) > 1 or order != uses:
                self.context.reporter.report(
                    "ring-order",
                    f"the values of `{buffer.name}` take turns in the order "
                    f"{quoted(buffer.holds, 'and')}, its loads do not",
                    uses[-1].span,
                    helps=(
                        f"place {quoted([op.name for op in writers], 'and')} in one role, in this "
                        "order and for the same step",
                    ),
                    notes=(Note(message="declared here", label=Label(span=buffer.span)),),
                )

    def _check_registers(self) -> None:
        for buffer in self.context.buffers.values():
            if buffer.storage is not Storage.REG:
                continue
            for value in buffer.holds:
                users = [
                    use
                    for uses in self.placed.values()
                    for use in uses.values()
                    if any(access.value == value for access in use.op.accesses())
                ]
                self._check_register_value(value, users, buffer.span)

    def _check_register_value(self, value: str, users: list[OpUse], span: Span) -> None:
        roles = sorted({self.role_of[id(use)] for use in users})
        note = (Note(message="lives in registers", label=Label(span=span)),)
        if len(roles) > 1:
            self.context.reporter.report(
                "register-crosses",
                f"`{value}` is in registers and used by {quoted(roles, 'and')}",
                users[-1].span,
                notes=note,
                helps=(f"place its ops in one role, or declare `{value}` as `tmem`",),
            )
        elif any(use.group_ref is GroupRef.EVERY and len(use.groups) > 1 for use in users):
            self.context.reporter.report(
                "register-crosses",
                f"`{value}` is in registers, and `{roles[0]}` runs the groups one after the other",
                users[-1].span,
                notes=note,
                helps=("place its ops in a role over the groups",),
            )

    def programs(self) -> tuple[RoleProgram, ...]:
        """Return the programs in order of declaration."""
        return tuple(
            RoleProgram(
                role=role,
                before=tuple(self.parts[role.name].before),
                loop=tuple(self.parts[role.name].loop),
                after=tuple(self.parts[role.name].after),
                peel=self.parts[role.name].peel,
            )
            for role in self.context.roles.values()
        )
