"""Counts in the kernel's text: which slot, which phase, which step; spelled once, used by name."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFrame:
    """How a role's loop counts: laps start at 0 and the op that runs furthest ahead has shift 0.

    Attributes:
        least: the smallest shift; 0 where all ops of the loop run in the same step.
    """

    least: int

    @property
    def bound(self) -> str:
        """Return the number of laps."""
        return "steps" if not self.least else f"steps + {-self.least}"

    def guard(self, shift: int) -> str:
        """Return the condition under which an op of this shift runs; empty if it always does."""
        conditions: list[str] = []
        if shift < 0:
            conditions.append("step > 0" if shift == -1 else f"step >= {-shift}")
        if shift > self.least:
            conditions.append(f"step < {plus('steps', -shift)}")
        if len(conditions) == 2:
            return " & ".join(f"({condition})" for condition in conditions)
        return "".join(conditions)


def plus(text: str, number: int) -> str:
    """Return `text + number` without noise."""
    if not number:
        return text
    return f"{text} {'+' if number > 0 else '-'} {abs(number)}"


def step_is(shift: int, *, last: bool) -> str:
    """Return the condition for the first or last step of an op with this shift."""
    return f"step == {plus('steps', -1 - shift)}" if last else f"step == {-shift}"


_PHASE_NAMES = {0: "step_phase", -1: "previous_phase", 1: "next_phase"}


@dataclass(slots=True)
class Counters:
    """Definitions that a role's text needs, collected while its lines are spelled.

    Attributes:
        persistent: whether a CTA runs many tiles; otherwise counts start anew with the only one.
        shifts: value -> in how many different steps of its loop the role touches it.
        per_step: name(s) -> expression, for the top of the loop's body.
        per_tile: the same for the top of a tile.
    """

    persistent: bool
    shifts: dict[str, int]

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

    @property
    def _step(self) -> str:
        return "step_count + step" if self.persistent else "step"

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

    def tile_ring(self, what: str, depth: str) -> tuple[str, str]:
        """Return the names of slot and phase of a ring that tiles walk through."""
        count = "tile_count" if self.persistent else "0"
        self.per_tile[f"{what}_slot, {what}_phase"] = f"ring_slot({count}, {depth})"
        return f"{what}_slot", f"{what}_phase"


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text else text


def _shifted(what: str, shift: int) -> str:
    return what if not shift else f"{what}_{abs(shift)}_{'ago' if shift < 0 else 'ahead'}"
