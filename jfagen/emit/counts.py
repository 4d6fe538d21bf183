"""Counts in the kernel's text: which slot, which phase, which step; spelled once, used by name."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..semantics.program import Buffer
from .laps import Base, Lap, plus
from .names import depth_name

_PHASE_NAMES = {0: "step_phase", -1: "previous_phase", 1: "next_phase"}


@dataclass(slots=True)
class Counters:
    """Definitions that a role's text needs, collected while its lines are spelled.

    A shift counts from the lap that is being spelled to the step of an op.

    Attributes:
        persistent: whether a CTA runs many tiles; otherwise counts start anew with the only one.
        shifts: value -> in how many different steps of its loop the role touches it.
        lap: the part of the loop that is being spelled.
        per_step: name(s) -> expression, for the top of the lap.
        per_tile: the same for the top of a tile.
    """

    persistent: bool
    shifts: dict[str, int]

    lap: Lap = Lap(base=Base.LOOP)
    per_step: dict[str, str] = field(default_factory=dict)
    per_tile: dict[str, str] = field(default_factory=dict)

    def step_phase(self, shift: int) -> str:
        """Return the name of the phase of a barrier that is used once a step."""
        name = _PHASE_NAMES.get(shift) or f"phase_{abs(shift)}_{'ago' if shift < 0 else 'ahead'}"
        self.per_step[name] = f"{_bracketed(self._count(shift))} & 1"
        return name

    def tile_phase(self) -> str:
        """Return the name of the phase of a barrier that is used once a tile."""
        if not self.persistent:
            return "0"
        self.per_tile["tile_phase"] = "tile_count & 1"
        return "tile_phase"

    def begin_block(self) -> str:
        """Return the name of the block of rows with which this CTA begins a tile."""
        self.per_tile["begin"] = "tl.program_id(0) % steps"
        return "begin"

    def begin(self, lap: Lap) -> None:
        """Begin a part of the loop: definitions are collected anew."""
        self.lap = lap
        self.per_step = {}

    def _count(self, shift: int) -> str:
        """Return the number of a step, counted since the kernel began."""
        step = self.lap.step(shift)
        if not self.persistent:
            return step
        return (
            plus("step_count", int(step)) if step.lstrip("-").isdigit() else f"step_count + {step}"
        )

    def zero(self) -> str:
        """Return the name of a slot that is 0, which the toolchain cannot know.

        What it is added to is addressed anew in every lap: addresses that do not change would be
        kept in registers.
        """
        loops = self.lap.base is Base.LOOP
        count = f"({self._count(0)})" if loops else "step_count"
        self.per_step["only_slot"] = f"{count} >> 30  # 0, made anew in each lap"
        return "only_slot"

    def step_ring(
        self, what: str, shift: int, rate: int, position: int, depth: str
    ) -> tuple[str, str]:
        """Return the names of slot and phase of a ring that steps walk through.

        Args:
            what: names the count: a value, or a channel.
            shift: of the op in its loop.
            rate: uses per step.
            position: of this use among them.
            depth: the ring's depth, as text.
        """
        # A value that the role touches in one step only needs no word for it; a channel may.
        if self.shifts.get(what, 2) > 1:
            what = _shifted(what, shift)
        count = self._count(shift)
        if rate > 1:
            count = plus(f"{rate} * {_bracketed(count)}", position)
        self.per_step[f"{what}_slot, {what}_phase"] = f"ring_slot({count}, {depth})"
        return f"{what}_slot", f"{what}_phase"

    def stage_slot(self, buffer: Buffer, shift: int) -> str:
        """Return the slot of slice `piece` in a ring of staging buffers."""
        if buffer.depth == 1:
            return ""
        depth = depth_name(buffer.name)
        if buffer.turns == 1:
            self.per_step[f"{buffer.name}_slot, _"] = f"ring_slot({self._count(shift)}, {depth})"
            return f"{buffer.name}_slot"
        if buffer.turns % buffer.depth == 0:
            return f"piece % {depth}"
        name = f"{buffer.name}_count"
        count = _bracketed(self._count(shift))
        self.per_step[name] = f"{buffer.turns} * {count}"
        return f"({name} + piece) % {depth}"

    def tile_ring(self, what: str, depth: str) -> tuple[str, str]:
        """Return the names of slot and phase of a ring that tiles walk through."""
        count = "tile_count" if self.persistent else "0"
        self.per_tile[f"{what}_slot, {what}_phase"] = f"ring_slot({count}, {depth})"
        return f"{what}_slot", f"{what}_phase"


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text else text


def _shifted(what: str, shift: int) -> str:
    return what if not shift else f"{what}_{abs(shift)}_{'ago' if shift < 0 else 'ahead'}"
