"""Checks of what is placed where: every op once, in a role that can run it, rings in order."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ..algorithm import Algorithm, Engine, Op, Space
from ..diagnostics import Label, Note, Span, below, moved, only_choice, quoted, write
from ..syntax import ast
from ..types import Storage
from .check_buffers import memories
from .context import Context
from .placed import Placed
from .program import Buffer, GroupRef, OpUse, Role

#: Warps that see all lanes of tensor memory.
LANE_WARPS = 4


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
        checks.registers()


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
        example = self._example(op)
        advice = f"place `{example}` in a role"
        if idle:
            advice += f": `{idle[0].name}` runs nothing yet"
        last = self.context.tree.program[-1:]
        ends_tile = op.space is Space.TILE and not is_before_steps(self.algorithm, op)
        if idle and last and ends_tile:
            group = example.removeprefix(op.name) if idle[0].indexed else ""
            block = f"{idle[0].name}{group} {{ {example} }}"
            advice = below(advice, last[0].span, block)
        self.context.reporter.report(
            "missing-op",
            f"no role runs `{op.name}`",
            self.context.tree.name.span,
            notes=notes,
            helps=(advice,),
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
        step = f"[{self._symbol()}]" if op.space is Space.STEP else ""
        return f"{op.name}{group}{step}"

    # -- what a role can run

    def engines(self, role: Role) -> None:
        """Ops of warps read tensor memory: four warps see all of its lanes."""
        parts = self.placed.parts[role.name]
        uses = [u for u in parts.before + parts.loop + parts.after if u.op.engine is Engine.WARPS]
        for use in uses:
            if use.op.keeps and use.group_ref is GroupRef.EVERY and len(use.groups) > 1:
                self._needs_replicas(use, role)
        for use in uses:
            if role.warps not in use.op.warps:
                self._warps(use, role)
                return

    def _warps(self, use: OpUse, role: Role) -> None:
        """Report a role with more or fewer warps than one of its ops can have."""
        note = Note(message=f"the role `{role.name}` runs it", label=Label(span=use.span))
        name, warps = use.op.name, self._warps_of(role)
        texts = [*map(str, use.op.warps)]
        legal = quoted(f"warps {count}" for count in texts)
        if role.warps > LANE_WARPS:
            message = f"`{name}` on {role.warps} warps"
            instead = only_choice(f"write {legal}", warps, texts)
            self.context.not_built(message, warps, instead, note)
            return
        self.context.reporter.report(
            "few-warps",
            f"`{name}` needs {LANE_WARPS} warps to see all rows, its role has {role.warps}",
            warps,
            notes=(note,),
            helps=(f"write {legal}, or place it in another role",),
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
        mask with them; that is built for one step ahead and one behind.
        """
        loop = self.placed.parts[role.name].loop
        masking = next((use for use in loop if use.op.masks), None)
        if masking is None:
            return
        matmuls = self.context.target.joins and any(use.op.engine is Engine.MMA for use in loop)
        last, name = masking.offset, masking.op.name
        reach = int(matmuls)
        other = next((use for use in loop if abs(use.offset - last) > reach), None)
        if other is not None and matmuls:
            steps = other.offset - last
            far = f"{abs(steps)} step{'s' if abs(steps) > 1 else ''}"
            near = other.at(self._symbol(), last + (reach if steps > 0 else -reach))
            self.context.not_built(
                f"`{other.op.name}` {far} {'ahead of' if steps > 0 else 'behind'} `{name}`",
                other.span,
                write(other.span, near),
                Note(message=f"`{name}` is in the same loop", label=Label(span=masking.span)),
            )
        elif other is not None:
            self.context.not_built(
                f"`{name}` in a loop with ops of other steps",
                masking.span,
                f"give the ops of `{role.name}` in the loop the same step",
                Note(message="of another step", label=Label(span=other.span)),
            )

    def _symbol(self) -> str:
        loops = [item for item in self.context.tree.program if isinstance(item, ast.Loop)]
        return loops[0].symbol.text if loops else "i"

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
                helps: tuple[str, ...] = (
                    f"place them in one role, or give `{value}` a buffer of its own",
                )
            elif use.offset != first.offset:
                message = f"{names} fill `{buffer.name}` for different steps"
                helps = (write(use.span, f"{use.span.text.split('[')[0]}{_last_index(first)}"),)
            elif loop.index(use) < loop.index(first):
                message = (
                    f"`{buffer.name}` holds `{buffer.holds[0]}` before `{value}`, but `{other}` "
                    f"stands before `{one}`"
                )
                words = f"place `{one}` before `{other}`"
                helps = (moved(words, first.whole, use.whole, before=True),)
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

    def registers(self) -> None:
        """A value in registers never crosses a role, nor the groups of one."""
        crossing: dict[int, list[tuple[str, list[OpUse]]]] = defaultdict(list)
        order = [op.name for op in self.algorithm.ops]
        for buffer in self.context.buffers.values():
            for value in buffer.holds if buffer.storage is Storage.REG else ():
                users = [
                    use
                    for op in order
                    for use in dict.fromkeys(self.placed.uses[op].values())
                    if any(access.value == value for access in use.op.accesses())
                ]
                if len({self.placed.role(use) for use in users}) > 1:
                    crossing[id(users[-1])].append((value, users))
                elif any(use.group_ref is GroupRef.EVERY and len(use.groups) > 1 for use in users):
                    self._all_groups(value, users[-1])
        for found in crossing.values():
            self._crosses(found)

    def _crosses(self, found: list[tuple[str, list[OpUse]]]) -> None:
        """Report values whose last use is one and the same, in another role than the rest."""
        last = found[0][1][-1]
        role = self.placed.role(last)
        others = [next(u for u in users if self.placed.role(u) != role) for _, users in found]
        firsts = list(dict.fromkeys(others))
        values = [value for value, _ in found]
        ops = quoted([use.op.name for use in (*firsts, last)], "and")
        are, run = _are(values), "run in two roles"
        self.context.reporter.report(
            "register-crosses",
            f"{quoted(values, 'and')} {are} in registers, but {ops} {run}",
            last.span,
            f"in `{role}`",
            notes=(
                *(self._declared(value) for value in values),
                *(
                    Note(
                        message=f"the other op is in `{self.placed.role(use)}`",
                        label=Label(span=use.span),
                    )
                    for use in firsts
                ),
            ),
            helps=(f"place {ops} in one role{self._or_elsewhere(values)}",),
        )

    def _all_groups(self, value: str, last: OpUse) -> None:
        self.context.reporter.report(
            "register-crosses",
            f"`{value}` is in registers, and `{self.placed.role(last)}` runs the groups one after "
            "the other",
            last.span,
            notes=(self._declared(value),),
            helps=(f"place its ops in a role over the groups{self._or_elsewhere([value])}",),
        )

    def _declared(self, value: str) -> Note:
        buffer = next(b for b in self.context.buffers.values() if value in b.holds)
        return Note(message=f"`{value}` is in registers", label=Label(span=buffer.span))

    def _or_elsewhere(self, values: list[str]) -> str:
        """Return what else helps where the target has another memory for the values."""
        legal = [memories(self.context, self.algorithm.value(value)) for value in values]
        others = frozenset.intersection(*legal) - {Storage.REG}
        which = quoted(values, "and")
        return f", or declare {which} as {quoted(sorted(others))}" if others else ""


def _are(values: list[str]) -> str:
    return "are" if len(values) > 1 else "is"


def _last_index(use: OpUse) -> str:
    """Return the last index of a use as it is written."""
    return f"[{use.span.text.rsplit('[', 1)[-1]}" if "[" in use.span.text else ""
