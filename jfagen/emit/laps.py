"""Laps of a role's loop: which parts it is spelled in, and which ops run in which of them.

Laps count from 0; the op that runs furthest ahead has shift 0, the others lag behind. A loop is
spelled whole, with a guard for every op that misses its first or last laps; or, where results of
matmuls stay in registers from lap to lap, with its first and last lap by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .counts import plus


class Part(StrEnum):
    """What a part of the text covers."""

    WHOLE = "whole"
    FIRST = "first"
    MIDDLE = "middle"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lap:
    """How one part of a loop counts.

    Attributes:
        part: what it covers.
        least: the smallest shift; 0 where all ops of the loop run in the same step.
    """

    part: Part
    least: int

    @property
    def name(self) -> str:
        """Return how the lap is spelled."""
        return {Part.FIRST: "0", Part.LAST: plus("steps", -1 - self.least)}.get(self.part, "step")

    def step(self, shift: int) -> str:
        """Return how the step of an op is spelled."""
        if self.part is Part.LAST:
            return plus("steps", shift - 1 - self.least)
        return str(shift) if self.part is Part.FIRST else plus("step", shift)

    def guard(self, shift: int) -> str:
        """Return the condition under which an op runs; empty if it always does."""
        if self.part is not Part.WHOLE:
            return ""
        conditions: list[str] = []
        if shift < 0:
            conditions.append("step > 0" if shift == -1 else f"step >= {-shift}")
        if shift > self.least:
            conditions.append(f"step < {plus('steps', -shift)}")
        if len(conditions) == 2:
            return " & ".join(f"({condition})" for condition in conditions)
        return "".join(conditions)

    def is_first(self, shift: int) -> str | bool:
        """Return when the step of an op is the first of its tile: always, never, or a condition."""
        match self.part:
            case Part.WHOLE:
                return f"step == {-shift}"
            case Part.FIRST:
                return shift == 0
            case Part.MIDDLE:
                return f"step == {-shift}" if shift < 0 else False
            case Part.LAST:
                return f"steps == {1 + self.least - shift}"

    def is_last(self, shift: int) -> str | bool:
        """Return when the step of an op is the last of its tile."""
        match self.part:
            case Part.WHOLE:
                return f"step == {plus('steps', -1 - shift)}"
            case Part.FIRST:
                return f"steps == {1 + shift}"
            case Part.MIDDLE:
                return f"step == {plus('steps', -1 - shift)}" if shift >= 0 else False
            case Part.LAST:
                return shift == self.least
