"""What a launch ordered: every access with what happened before it, every wait, every phase.

Two runs of two texts are compared by it. Accesses carry names that do not depend on the
interleaving: role, line, what, how often before.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations

from .barriers import Slot
from .happens import Space
from .memory import Region
from .report import Place

#: Role of which CTA, line, action, how often before, buffer.
Name = tuple[str, int, str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """One access, its number, and the numbers of what happened before it as bits."""

    name: Name
    space: Space
    region: Region
    write: bool
    number: int
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One wait that was let through when `completed` phases of a barrier were complete."""

    place: Place
    cta: int
    slot: Slot
    completed: int
    number: int
    before: int


@dataclass(slots=True)
class OrderLog:
    """The accesses and waits of one launch, and its barriers."""

    touches: list[Touch] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    _seen: Counter[tuple[str, int, str]] = field(default_factory=Counter)

    def turn(self, role: str, line: int, what: str) -> int:
        """Return how often the role did this at this line before."""
        self._seen[role, line, what] += 1
        return self._seen[role, line, what] - 1

    def ordered_pairs(self) -> frozenset[tuple[Name, Name]]:
        """Return all pairs of conflicting accesses of which the first happened before the second.

        Raises:
            ValueError: two accesses have one name, or a pair is not ordered.
        """
        if len({touch.name for touch in self.touches}) != len(self.touches):
            raise ValueError("two accesses have one name")
        pairs = set()
        for first, second in combinations(self.touches, 2):
            if first.space != second.space or first.number == second.number:
                continue
            if (first.write or second.write) and first.region.overlaps(second.region):
                if not second.before >> first.number & 1:
                    raise ValueError(f"nothing orders {first.name} and {second.name}")
                pairs.add((first.name, second.name))
        return frozenset(pairs)

    def loose_waits(self) -> list[Passage]:
        """Return the waits that another interleaving might let through too early or too late.

        A wait for a phase is exact if the phase before is complete before it starts, and the phase
        after cannot complete before it is through: parity tells no more than neighbours apart.
        """
        return [passage for passage in self.passages if not _is_exact(passage)]

    def loose_slots(self) -> list[Slot]:
        """Return the barriers with an arrival that might count to an earlier phase than its own.

        It does not happen after the completion of the phase before.
        """
        return [slot for slot in self.slots if not _counts_exactly(slot)]


def _counts_exactly(slot: Slot) -> bool:
    phases = slot.phases or []
    return not any(done and phases[done - 1].before & ~before for done, before in slot.arrivals)


def _is_exact(passage: Passage) -> bool:
    phases = passage.slot.phases or []
    completed = passage.completed
    if completed >= 2 and phases[completed - 2].before & ~passage.before:
        return False
    if completed >= len(phases):
        return True
    return bool(phases[completed].before >> passage.number & 1)


def difference(original: tuple[OrderLog, ...], changed: tuple[OrderLog, ...]) -> str:
    """Return what the changed text orders otherwise than the original one, or an empty text.

    Both have run to their end on the same inputs. Every pair of conflicting accesses is ordered in
    both, so equal sets mean that every interleaving computes the same, as long as each wait and
    each arrival meets its own phase; one that might not is named.
    """
    for before, after in zip(original, changed, strict=True):
        for slot in after.loose_slots():
            return f"an arrival at `{slot.name}[{slot.index}]` may count to an earlier phase"
        for passage in after.loose_waits():
            return (
                f"{passage.place.text()}: the wait for phase {passage.completed} of"
                f" `{passage.slot.name}[{passage.slot.index}]` is not exact"
            )
        lost = before.ordered_pairs() ^ after.ordered_pairs()
        if lost:
            first, second = min(lost)
            return f"{first} before {second} is ordered in one of both only"
    return ""
