"""Happens-before of one cluster: which accesses are ordered, exactly.

Every access has a number. What happened before a point of the run is a Python integer with one bit
for each access. Numbers below `base` are ordered before everything and have no bit any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from .memory import Region, Storage
from .report import Access, MachineStop, Race

_COMPACT_EVERY = 1024

# The SMEM or TMEM of one CTA, by the CTA's number.
Space = tuple[int, Storage]


class Clocked(Protocol):
    """Whatever carries a set of accesses that happened before it."""

    before: int


@dataclass(slots=True, eq=False)
class _Record:
    """One earlier access that a later one may still meet."""

    region: Region
    write: bool
    number: int
    access: Callable[[], Access]
    role: str
    generic: bool
    fenced: bool = False


def unfenced_read(old: _Record, storage: Storage, *, write: bool, generic: bool) -> bool:
    """Tell whether TMA or MMA reads SMEM that registers wrote without a proxy fence."""
    stored = old.write and old.generic and not old.fenced
    return stored and storage is Storage.SMEM and not write and not generic


@dataclass(slots=True)
class Order:
    """The numbering of accesses and the records of those that still matter."""

    base: int = 0
    next_number: int = 0
    records: dict[Space, list[_Record]] = field(default_factory=lambda: defaultdict(list))

    def new_event(self) -> int:
        """Return the number of a new access."""
        number = self.next_number
        self.next_number += 1
        return number

    def bit(self, number: int) -> int:
        """Return the set that holds just one access."""
        return 1 << (number - self.base)

    def holds(self, number: int, before: int) -> bool:
        """Tell whether an event is in a set."""
        shift = number - self.base
        return shift < 0 or bool((before >> shift) & 1)

    def record(
        self,
        *,
        space: Space,
        region: Region,
        write: bool,
        number: int,
        before: int,
        access: Callable[[], Access],
        role: str,
        generic: bool,
    ) -> list[Access]:
        """Check one access against all earlier ones and keep it.

        `generic` tells register loads and stores from TMA and MMA. Returns the generic stores,
        not fenced, that an asynchronous access now reads.

        Raises:
            MachineStop: a conflicting earlier access is not ordered before this one.
        """
        kept = []
        unfenced = []
        start, stop = region.start, region.stop
        for old in self.records[space]:
            other = old.region
            apart = other.start >= stop or start >= other.stop
            if apart or old.number == number or not other.overlaps(region):
                kept.append(old)
                continue
            shift = old.number - self.base
            ordered = shift < 0 or (before >> shift) & 1
            if (write or old.write) and not ordered:
                raise MachineStop(Race(first=old.access(), second=access()))
            if unfenced_read(old, space[1], write=write, generic=generic):
                unfenced.append(old.access())
                old.fenced = True
            # A later access that conflicts with `old` also conflicts with what covers it.
            if not (ordered and (write or not old.write) and region.covers(old.region)):
                kept.append(old)
        kept.append(_Record(region, write, number, access, role, generic))
        self.records[space] = kept
        return unfenced

    def fence(self, cta: int, role: str) -> None:
        """Mark the earlier SMEM stores of a role as visible to TMA and MMA."""
        for record in self.records[(cta, Storage.SMEM)]:
            if record.generic and record.role == role:
                record.fenced = True

    def needs_compaction(self) -> bool:
        """Tell whether the sets have grown long."""
        return self.next_number - self.base > _COMPACT_EVERY

    def compact(self, actors: Iterable[Clocked], sets: Iterable[Clocked]) -> None:
        """Drop the bits of accesses that everything still to come is ordered after.

        `actors` are the roles and operations that will access memory; `sets` are other sets to keep
        in step, of barriers for example.
        """
        actors = list(actors)
        common = (1 << (self.next_number - self.base)) - 1
        for actor in actors:
            common &= actor.before
        drop = ((common + 1) & ~common).bit_length() - 1
        if drop <= 0:
            return
        for holder in (*actors, *sets):
            holder.before >>= drop
        self.base += drop
