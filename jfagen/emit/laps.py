"""Laps of a role's loop: which parts it is spelled in, and which ops run in which of them.

Laps are called after the step of the op that masks, or where nothing masks after that of the op
that runs furthest ahead; a shift counts from there to the step of another op. A loop is spelled
whole, with a guard for every op that misses its first or last laps; or, where results of matmuls
stay in registers from lap to lap, with its first and last laps by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


def plus(text: str, number: int) -> str:
    """Return `text + number` without noise."""
    if not number:
        return text
    return f"{text} {'+' if number > 0 else '-'} {abs(number)}"


class Base(StrEnum):
    """From where a part of the text counts its laps."""

    START = "start"
    LOOP = "loop"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lap:
    """How one part of a loop counts.

    Attributes:
        base: whether it is a lap after the first step, one of a loop, or one after the last step.
        number: which one: 0 is that of the first step, or one past that of the last.
        least: the smallest shift; 0 where all ops of the loop run in the same step.
        most: the largest shift.
        start: the first lap of a loop.
        fewest: the fewest steps of a tile that comes here.
        single: whether only tiles of one step come here.
        guarded: whether ops that miss the first or last laps of a loop have a guard.
    """

    base: Base
    number: int = 0
    least: int = 0
    most: int = 0
    start: int = 0
    fewest: int = 1
    single: bool = False
    guarded: bool = False

    def step(self, shift: int) -> str:
        """Return how the step of an op is spelled."""
        match self.base:
            case Base.START:
                return str(self.number + shift)
            case Base.LOOP:
                return plus("step", shift)
            case Base.END:
                return plus("steps", self.number + shift)

    def guard(self, shift: int) -> str:
        """Return the condition under which an op runs; empty if it always does."""
        if not self.guarded:
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
        if self.single:
            return True
        match self.base:
            case Base.START:
                return self.number + shift == 0
            case Base.LOOP:
                return f"step == {-shift}" if -shift >= self.start else False
            case Base.END:
                return self._of_length(-(self.number + shift))

    def is_last(self, shift: int) -> str | bool:
        """Return when the step of an op is the last of its tile."""
        if self.single:
            return True
        match self.base:
            case Base.START:
                return self._of_length(self.number + shift + 1)
            case Base.LOOP:
                reaches = self.guarded or shift >= self.most
                return f"step == {plus('steps', -1 - shift)}" if reaches else False
            case Base.END:
                return self.number + shift == -1

    def _of_length(self, steps: int) -> str | bool:
        return f"steps == {steps}" if steps >= self.fewest else False
