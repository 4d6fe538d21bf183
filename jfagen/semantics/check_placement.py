"""Checks of what is placed where: every op once, in a role that can run it, rings in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..algorithm import Algorithm, Engine, Op, Space
from ..diagnostics import Label, Note, Span, quoted
from ..syntax import ast
from ..types import Storage
from .check_buffers import memories
from .context import Context
from .program import Buffer, GroupRef, OpUse, Role

#: Warps that see all lanes of tensor memory.
LANE_WARPS = 4


@dataclass(slots=True)
class Parts:
    """The op uses of one role as they are found."""

    before: list[OpUse] = field(default_factory=list)
    loop: list[OpUse] = field(default_factory=list)
    after: list[OpUse] = field(default_factory=list)
    peel: bool = False


@dataclass(slots=True)
class Placed:
    """Every op use that was resolved.

    Attributes:
        parts: role -> its uses.
        uses: op -> group, or -1 for an op without groups -> its use.
        role_of: id of a use -> role.
        lost: ops that stand somewhere, but were refused there.
        busy: roles that have a block with ops.
    """

    parts: dict[str, Parts]
    uses: dict[str, dict[int, OpUse]] = field(default_factory=lambda: defaultdict(dict))
    role_of: dict[int, str] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)

    def lose(self, ops: Iterable[str]) -> None:
        """Remember ops that were reported, or that follow from what was."""
        self.lost |= set(ops)

    def enter(self, context: Context, use: OpUse, role: Role, all_groups: tuple[int, ...]) -> bool:
        """Enter one use; report it and return False if its op is placed already."""
        placed = self.uses[use.op.name]
        twice = [group for group in use.groups or (-1,) if group in placed]
        if not twice:
            for group in use.groups or (-1,):
                placed[group] = use
            self.role_of[id(use)] = role.name
            return True
        which = f"`{use.op.name}`"
        if use.op.grouped and len(twice) < len(all_groups):
            which += f" of group {', '.join(map(str, twice))}"
        context.reporter.report(
            "placed-twice",
            f"{which} is placed twice",
            use.span,
            notes=(Note(message="first here", label=Label(span=placed[twice[0]].span)),),
            helps=("drop one of the two",),
        )
        return False

    def role(self, use: OpUse) -> str:
        """Return the role of a use."""
        return self.role_of[id(use)]


def check_placement(context: Context, algorithm: Algorithm, placed: Placed) -> None:
    """Report what is missing, what its role cannot run, ring orders and values in registers."""
    checks = _Checks(context, algorithm, placed)
    idle = [role for role in context.roles.values() if role.name not in placed.busy]
    some_missing = checks.missing(idle)
    for role in context.roles.values():
        if role in idle and not some_missing:
            context.reporter.report(
                "idle-role",
                f"the role `{role.name}` runs nothing",
                role.span,
                helps=("place an op in it, or drop the role",),
            )
        checks.engines(role)
        checks.sides(role)
        checks.masked_loop(role)
    if not context.reporter.has_errors():
        for buffer in context.buffers.values():
            checks.ring(buffer)
            checks.registers(buffer)


def is_before_steps(algorithm: Algorithm, op: Op) -> bool:
    """Whether an op that runs once a tile comes before the steps in the sequential program."""
    first_step = next(other for other in algorithm.ops if other.space is Space.STEP)
    return algorithm.ops.index(op) < algorithm.ops.index(first_step)


@dataclass(slots=True)
class _Checks:
    context: Context
    algorithm: Algorithm
    placed: Placed

    # -- ops that nobody runs

    def missing(self, idle: list[Role]) -> bool:
        """Report every op that no role runs, for all groups or for some; return if there was one.

        A role that runs nothing was meant for one of them.
        """
        if not self.context.groups_known:
            return False
        found = False
        tile = self.context.tile
        groups = tuple(range(tile.groups)) if tile else (0,)
        for op in self.algorithm.ops:
            wanted = groups if op.grouped else (-1,)
            uses = self.placed.uses[op.name]
            missing = [group for group in wanted if group not in uses]
            if not missing or op.name in self.placed.lost:
                continue
            found = True
            if len(missing) == len(wanted):
                self._no_role(op, idle)
            else:
                self._no_group(op, missing, next(iter(uses.values())))
        return found

    def _no_role(self, op: Op, idle: list[Role]) -> None:
        notes = [
            Note(
                message=f"`{self.placed.role(like)}` runs ops of the same kind",
                label=Label(span=like.span),
            )
            for like in self._like(op)
            if not idle
        ]
        self.context.reporter.report(
            "missing-op",
            f"no role runs `{op.name}`",
            self.context.tree.name.span,
            notes=notes,
            helps=(
                f"place `{self._example(op)}` in a role"
                + (f": `{idle[0].name}` runs nothing yet" if idle else ""),
            ),
        )

    def _no_group(self, op: Op, missing: list[int], other: OpUse) -> None:
        assert self.context.tile is not None
        written = other.span.text.replace(f"[{other.groups[0]}]", "[{}]", 1)
        self.context.reporter.report(
            "missing-op",
            f"no role runs `{op.name}` of group {', '.join(map(str, missing))}",
            other.span,
            f"group {', '.join(map(str, other.groups))} only",
            notes=(
                Note(
                    message=f"the tile has {self.context.tile.groups} groups",
                    label=Label(span=self.context.tile.span),
                ),
            ),
            helps=(f"place {quoted([written.format(g) for g in missing], 'and')} too",),
        )

    def _like(self, op: Op) -> list[OpUse]:
        """Return a use in whose role a missing op may stand, if there is one."""
        free = not op.takes and not op.keeps
        found = [
            use
            for other in self.algorithm.ops
            for use in self.placed.uses[other.name].values()
            if set(op.takes) & set(other.keeps) or (free and other.engine is op.engine)
        ]
        return found[-1:]

    def _example(self, op: Op) -> str:
        tile = self.context.tile
        group = f"[{tile.group_symbol}]" if op.grouped and tile and tile.groups > 1 else ""
        loops = [item for item in self.context.tree.program if isinstance(item, ast.Loop)]
        step = f"[{loops[0].symbol.text if loops else 'i'}]" if op.space is Space.STEP else ""
        return f"{op.name}{group}{step}"

    # -- what a role can run

    def engines(self, role: Role) -> None:
        """Ops of warps read tensor memory: four warps see all of its lanes."""
        parts = self.placed.parts[role.name]
        uses = [u for u in parts.before + parts.loop + parts.after if u.op.engine is Engine.WARPS]
        for use in uses:
            if use.op.keeps and use.group_ref is GroupRef.EVERY and len(use.groups) > 1:
                self._needs_replicas(use, role)
        if not uses or role.warps == LANE_WARPS:
            return
        note = Note(message=f"the role `{role.name}` runs it", label=Label(span=uses[0].span))
        name = uses[0].op.name
        warps = self._warps_of(role)
        if role.warps > LANE_WARPS:
            self.context.not_built(
                f"`{name}` on {role.warps} warps", warps, f"write `warps {LANE_WARPS}`", note
            )
            return
        self.context.reporter.report(
            "few-warps",
            f"`{name}` needs {LANE_WARPS} warps to see all rows, its role has {role.warps}",
            warps,
            notes=(note,),
            helps=(f"write `warps {LANE_WARPS}`, or place it in another role",),
        )

    def _warps_of(self, role: Role) -> Span:
        nodes = [node for node in self.context.tree.roles if node.name.text == role.name]
        return nodes[0].warps.span if nodes[0].warps else role.span

    def _needs_replicas(self, use: OpUse, role: Role) -> None:
        replicated = [r.name for r in self.context.roles.values() if r.replicas > 1]
        symbol = self.context.tile.group_symbol if self.context.tile else None
        self.context.reporter.report(
            "needs-replicas",
            f"`{use.op.name}` keeps registers from step to step for {len(use.groups)} groups, and "
            f"`{role.name}` is one role for all of them",
            use.span,
            helps=(
                f"place it in a role with a replica for each group, such as "
                f"`{replicated[0] if replicated else 'NAME'}[{symbol}]`",
            ),
        )

    def sides(self, role: Role) -> None:
        """Ops once a tile stand before the loop if the steps need them, else after it."""
        parts = self.placed.parts[role.name]
        if not parts.loop:
            return
        for use in parts.before + parts.after:
            early = is_before_steps(self.algorithm, use.op)
            if early is (use in parts.before):
                continue
            where = "before" if early else "after"
            reason = "the steps need what it brings" if early else "it needs what the steps leave"
            self.context.reporter.report(
                "wrong-place",
                f"`{use.op.name}` belongs {where} the loop of `{role.name}`: {reason}",
                use.span,
                notes=(
                    Note(
                        message=f"`{role.name}` runs the steps here",
                        label=Label(span=parts.loop[0].span),
                    ),
                ),
                helps=(f"move it to a block {where} the loop",),
            )

    def masked_loop(self, role: Role) -> None:
        """A loop with the mask runs all of its ops for the same step, unless matmuls lag behind.

        Where the role keeps matmuls in flight its first and last laps stand by themselves, and the
        mask with them; that is built for a lag of one step.
        """
        loop = self.placed.parts[role.name].loop
        masking = [use for use in loop if use.op.masks]
        matmuls = [use for use in loop if use.op.engine is Engine.MMA]
        if masking and matmuls and self.context.target.joins:
            ahead = masking[0].offset
            if all(ahead - 1 <= use.offset <= ahead for use in loop):
                return
        others = [use for use in loop if masking and use.offset != masking[0].offset]
        if others:
            self.context.not_built(
                f"`{masking[0].op.name}` in a loop with ops of other steps",
                masking[0].span,
                f"give the ops of `{role.name}` in the loop the same step",
                Note(message="of another step", label=Label(span=others[0].span)),
            )

    # -- rings and registers

    def ring(self, buffer: Buffer) -> None:
        """The values of a ring are written by one role, in the order in which they take turns."""
        writers = [self.algorithm.writers(value)[0] for value in buffer.holds]
        uses = [self.placed.uses[op.name][-1] for op in writers if not op.grouped]
        if len(uses) < 2:
            return
        first = uses[0]
        loop = self.placed.parts[self.placed.role(first)].loop
        names = quoted([op.name for op in writers], "and")
        for value, use in zip(buffer.holds[1:], uses[1:], strict=True):
            one, other = first.op.name, use.op.name
            if self.placed.role(use) != self.placed.role(first):
                message = f"{names} fill `{buffer.name}` from two roles"
                helps = (f"place them in one role, or give `{value}` a buffer of its own",)
            elif use.offset != first.offset:
                message = f"{names} fill `{buffer.name}` for different steps"
                helps = (f"write `{use.span.text.split('[')[0]}{_last_index(first)}`",)
            elif loop.index(use) < loop.index(first):
                message = (
                    f"`{buffer.name}` holds `{buffer.holds[0]}` before `{value}`, but `{other}` "
                    f"stands before `{one}`"
                )
                helps = (f"place `{one}` before `{other}`",)
            else:
                continue
            self.context.reporter.report(
                "ring-order",
                message,
                use.span,
                notes=(
                    Note(message=f"`{one}` is here", label=Label(span=first.span)),
                    Note(message="the order of turns", label=Label(span=self._held(buffer))),
                ),
                helps=helps,
            )

    def _held(self, buffer: Buffer) -> Span:
        """Return where a buffer says what it holds."""
        for node in self.context.tree.buffers:
            if node.holds and any(name.name.text == buffer.name for name in node.names):
                return node.holds[0].span.to(node.holds[-1].span)
        return buffer.span

    def registers(self, buffer: Buffer) -> None:
        """A value in registers never crosses a role, nor the groups of one."""
        if buffer.storage is not Storage.REG:
            return
        for value in buffer.holds:
            users = [
                use
                for uses in self.placed.uses.values()
                for use in dict.fromkeys(uses.values())
                if any(access.value == value for access in use.op.accesses())
            ]
            self._register_value(value, users, buffer)

    def _register_value(self, value: str, users: list[OpUse], buffer: Buffer) -> None:
        report = self.context.reporter.report
        order = [op.name for op in self.algorithm.ops]
        users.sort(key=lambda use: order.index(use.op.name))
        declared = Note(message=f"`{value}` is in registers", label=Label(span=buffer.span))
        roles = sorted({self.placed.role(use) for use in users})
        last = users[-1]
        if len(roles) > 1:
            first = next(u for u in users if self.placed.role(u) != self.placed.role(last))
            report(
                "register-crosses",
                f"`{value}` is in registers, but `{first.op.name}` and `{last.op.name}` run in two "
                "roles",
                last.span,
                f"in `{self.placed.role(last)}`",
                notes=(
                    declared,
                    Note(
                        message=f"the other op is in `{self.placed.role(first)}`",
                        label=Label(span=first.span),
                    ),
                ),
                helps=(
                    f"place {quoted([first.op.name, last.op.name], 'and')} in one role"
                    + self._or_elsewhere(value),
                ),
            )
        elif any(use.group_ref is GroupRef.EVERY and len(use.groups) > 1 for use in users):
            report(
                "register-crosses",
                f"`{value}` is in registers, and `{roles[0]}` runs the groups one after the other",
                last.span,
                notes=(declared,),
                helps=(f"place its ops in a role over the groups{self._or_elsewhere(value)}",),
            )

    def _or_elsewhere(self, value: str) -> str:
        """Return what else helps where the target has another memory for a value."""
        others = memories(self.context, self.algorithm.value(value)) - {Storage.REG}
        return f", or declare `{value}` as {quoted(sorted(others))}" if others else ""


def _last_index(use: OpUse) -> str:
    """Return the last index of a use as it is written."""
    return f"[{use.span.text.rsplit('[', 1)[-1]}" if "[" in use.span.text else ""
