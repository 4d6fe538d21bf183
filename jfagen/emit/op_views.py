"""Ops as views: tiles, waits, signals and fences of one op use, ready for its macro."""

from __future__ import annotations

from ..algorithm import Mode, Space
from ..passes.channels import SyncPlan
from ..planning import Handed, Join, Move, Plan
from ..proof.register_tiles import is_short
from ..semantics.program import OpUse, Program
from ..types import Storage
from .counts import Counters
from .names import columns_name, depth_name, held_name, register_name, slices_name, tiles_name
from .parts import LoopPart
from .sync_lines import OpPlace, OpSync, SyncSpeller, flat_index, merged
from .view import OpView, StagingView


class OpViews:
    """Builds the views of all ops of one kernel."""

    def __init__(self, plan: Plan, sync: SyncPlan) -> None:
        """Remember the plan and its channels."""
        self.plan = plan
        self.program: Program = plan.program
        self.speller = SyncSpeller(plan, sync)
        self.short_roles = frozenset(
            rp.role.name for rp in self.program.role_programs if is_short(self.program, rp)
        )

    def view(self, move: Move, part: LoopPart | None, group: str, counters: Counters) -> OpView:
        """Return an op with everything that its macro spells.

        Args:
            move: the op and what it waits for.
            part: the part of the loop that it stands in; None outside.
            group: how its group is spelled.
            counters: collects the definitions that its lines need.
        """
        use = move.use
        lap, shift = (part.lap, part.shift(move.step)) if part is not None else (None, 0)
        step = lap.step(shift) if lap is not None else "0"
        values = dict.fromkeys(access.value for access in use.op.accesses())
        buffers = {value: self.program.holder(value) for value in values}
        sync = self._sync(move, part, group, counters)
        return OpView(
            name=use.op.name,
            group=group,
            step=step,
            block=self._block(step, counters),
            mask=part.mask if part is not None and use.op.masks else None,
            idle=lap is not None and lap.is_first(shift) is True and _waits(use),
            tile={
                value: self._tile(use, value, group, shift, counters)
                for value, buffer in buffers.items()
                if buffer.storage is not Storage.REG
            },
            tiles={
                access.value: tuple(
                    self._tile(use, access.value, str(one), shift, counters)
                    for one in range(self.program.tile.groups)
                )
                for access in use.op.accesses()
                if access.every_group
            },
            slices={value: slices_name(buffer.name) for value, buffer in buffers.items()},
            registers=frozenset(
                value for value, buffer in buffers.items() if buffer.storage is Storage.REG
            ),
            sync=sync,
            staging=_staging(self.program, use),
            lingers=self.program.lingers(use),
        )

    def _sync(self, move: Move, part: LoopPart | None, group: str, counters: Counters) -> OpSync:
        """Return the waits, signals and fences of an op: its own, and those that stand at it."""
        use = move.use
        lap, shift = (part.lap, part.shift(move.step)) if part is not None else (None, 0)
        place = OpPlace(use=use, lap=lap, shift=shift, group=group, counters=counters)
        sync = self.speller.of(place)
        if self.program.joins(use.op):
            for point in sync.points:
                point.after.clear()
        if move.withheld >= 0:
            sync.points[move.withheld].fenced = False
            sync.points[move.withheld].after.clear()
        if move.hands is not None:
            assert part is not None
            sync.hands = True
            sync.ends += self._handed(move.hands, part, group, counters)
        for join in move.joins:
            assert part is not None
            behind = join.point == len(sync.points)
            lines = sync.ends if behind else sync.points[join.point].joins
            lines += self._join(join, part, group, counters)
        for drain in move.drains:
            wait = f"tlx.async_descriptor_store_wait({drain.pending})"
            sync.points[drain.point].drains.append(wait)
        return sync

    def _join(self, join: Join, part: LoopPart, group: str, counters: Counters) -> list[str]:
        """Return the wait for a matmul, and the signals that its end allows."""
        place = OpPlace(
            use=join.use,
            lap=part.lap,
            shift=part.shift(join.step),
            group=group,
            counters=counters,
        )
        result = next(a.value for a in join.use.op.accesses() if a.mode is not Mode.READ)
        signals = [line for point in self.speller.of(place).points for line in point.after]
        variable = register_name(self.program, result)
        wait = f"{variable} = tlx.async_dot_wait({join.pending}, {variable})"
        return [wait, *merged(signals)]

    def _handed(self, handed: Handed, part: LoopPart, group: str, counters: Counters) -> list[str]:
        """Return the signals of a tile that is handed on behind another op."""
        place = OpPlace(
            use=handed.use,
            lap=part.lap,
            shift=part.shift(handed.step),
            group=group,
            counters=counters,
        )
        return merged(self.speller.of(place).points[handed.point].after)

    def _block(self, step: str, counters: Counters) -> str:
        """Return the number of the rows of a step: CTAs that are staggered begin elsewhere."""
        return (
            f"query_block({step}, {counters.begin_block()}, steps)"
            if self.program.staggered
            else step
        )

    def _tile(self, use: OpUse, value: str, group: str, shift: int, counters: Counters) -> str:
        buffer = self.program.holder(value)
        depth = depth_name(buffer.name)
        slot = ""
        if self.program.algorithm.value(value).staging:
            slot = counters.stage_slot(buffer, shift)
        elif buffer.depth > 1:
            if self.program.algorithm.value(value).space is Space.TILE:
                slot, _ = counters.tile_ring(value, depth)
            else:
                rate, position = len(buffer.holds), buffer.holds.index(value)
                slot, _ = counters.step_ring(value, shift, rate, position, depth)
        elif self._is_made_anew(use, value):
            slot, depth = counters.zero(), "1"
        grouped = buffer.grouped and self.program.tile.groups > 1
        terms = [(group if grouped else "", "GROUPS"), (slot, depth)]
        return f"{tiles_name(buffer.name)}[{flat_index([term for term in terms if term[0]])}]"

    def _is_made_anew(self, use: OpUse, value: str) -> bool:
        """Whether a tile is addressed anew in every lap, where its role is short of registers."""
        lasting = self.program.algorithm.value(value).space is Space.TILE
        return (
            lasting
            and use.op.space is Space.STEP
            and self.program.joins(use.op)
            and self._role(use) in self.short_roles
        )

    def _role(self, use: OpUse) -> str:
        return self.plan.placed[use.op.name, (use.groups or (-1,))[0]].role.name


def _waits(use: OpUse) -> bool:
    """Whether an op does not touch all of its data in the first step of a tile."""
    return any(access.first_step > 0 for access in use.op.accesses())


def _staging(program: Program, use: OpUse) -> StagingView | None:
    """Return how an op in slices is spelled."""
    if use.staging is None:
        return None
    buffer = use.staging.buffer
    source = program.holder(use.op.points[0].accesses[0].value)
    return StagingView(
        slices=slices_name(source.name),
        columns=columns_name(buffer),
        held=held_name(buffer),
        depth=depth_name(buffer),
        hold=use.staging.hold,
        prompt=use.staging.prompt,
    )
