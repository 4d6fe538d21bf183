"""Counts in the kernel's text: which slot, which phase, which step; spelled once, used by name."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..semantics.program import Buffer
from .names import depth_name


def plus(text: str, number: int) -> str:
    """Return `text + number` without noise."""
    if not number:
        return text
    return f"{text} {'+' if number > 0 else '-'} {abs(number)}"


_PHASE_NAMES = {0: "step_phase", -1: "previous_phase", 1: "next_phase"}


@dataclass(slots=True)
class Counters:
    """Definitions that a role's text needs, collected while its lines are spelled.

    A shift counts from the lap that is being spelled to the step of an op.

    Attributes:
        persistent: whether a CTA runs many tiles; otherwise counts start anew with the only one.
        shifts: value -> in how many different steps of its loop the role touches it.
        lap: how the lap is spelled.
        per_step: name(s) -> expression, for the top of the lap.
        per_tile: the same for the top of a tile.
    """

    persistent: bool
    shifts: dict[str, int]

    lap: str = "step"
    per_step: dict[str, str] = field(default_factory=dict)
    per_tile: dict[str, str] = field(default_factory=dict)

    def step_phase(self, shift: int) -> str:
        """Return the name of the phase of a barrier that is used once a step."""
        name = _PHASE_NAMES.get(shift) or f"phase_{abs(shift)}_{'ago' if shift < 0 else 'ahead'}"
        self.per_step[name] = f"{_bracketed(plus(self._step, shift))} & 1"
        return name

    def tile_phase(self) -> str:
        """Return the name of the phase of a barrier that is used once a tile."""
        if not self.persistent:
            return "0"
        self.per_tile["tile_phase"] = "tile_count & 1"
        return "tile_phase"

    def begin(self, lap: str) -> None:
        """Begin a part of the loop: definitions are collected anew."""
        self.lap = lap
        self.per_step = {}

    @property
    def _step(self) -> str:
        if not self.persistent:
            return self.lap
        return "step_count" if self.lap == "0" else f"step_count + {self.lap}"

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
        count = plus(self._step, shift)
        if rate > 1:
            count = plus(f"{rate} * {_bracketed(count)}", position)
        self.per_step[f"{what}_slot, {what}_phase"] = f"ring_slot({count}, {depth})"
        return f"{what}_slot", f"{what}_phase"

    def stage_slot(self, buffer: Buffer, shift: int) -> str:
        """Return the slot of slice `piece` in a ring of staging buffers."""
        if buffer.depth == 1:
            return ""
        depth = depth_name(buffer.name)
        if buffer.turns % buffer.depth == 0:
            return f"piece % {depth}"
        name = f"{buffer.name}_count"
        count = _bracketed(plus(self._step, shift))
        self.per_step[name] = f"{buffer.turns} * {count}" if buffer.turns > 1 else count
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
