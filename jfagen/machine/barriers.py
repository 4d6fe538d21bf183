"""mbarriers: arrivals, transaction bytes, phases, and what a wait acquires."""

from __future__ import annotations

from dataclasses import dataclass, field

from .report import MachineFault
from .values import Value


@dataclass(slots=True, eq=False)
class Released:
    """The accesses that a completed phase makes visible to who waits for it."""

    before: int = 0


@dataclass(slots=True, eq=False)
class Slot:
    """One mbarrier. `pending` arrivals and `bytes_due` of the phase that is not complete yet.

    If that is kept, `phases` lists what each completed phase released, and `arrivals` for every
    arrival the number of phases completed before it and what happened before it.
    """

    name: str
    array: int
    index: int
    count: int
    per_thread: bool
    pending: int
    bytes_due: int = 0
    completed: int = 0
    arriving: Released = field(default_factory=Released)
    released: Released = field(default_factory=Released)
    phases: list[Released] | None = None
    arrivals: list[tuple[int, int]] = field(default_factory=list)

    def passes(self, parity: int) -> bool:
        """Tell whether the phase with that parity is the last completed one."""
        # A fresh mbarrier counts as phase 1 done, so the first empty-wait must not block.
        return (self.completed & 1) != parity

    def arrive(self, count: int, before: int) -> None:
        """Count arrivals of one phase.

        Raises:
            MachineFault: more arrivals than the phase has.
        """
        if count > self.pending:
            raise MachineFault(
                "over-arrival",
                f"`{self.name}[{self.index}]` takes {self.count} arrivals a phase,"
                f" {self.count - self.pending} are in and {count} more arrive",
            )
        self.pending -= count
        self._complete(before)

    def expect(self, size: int, before: int) -> None:
        """Count one arrival and the bytes that the phase has to wait for."""
        self.bytes_due += size
        self.arrive(1, before)

    def complete_bytes(self, size: int, before: int) -> None:
        """Count bytes that arrived."""
        self.bytes_due -= size
        self._complete(before)

    def _complete(self, before: int) -> None:
        self.arriving.before |= before
        if self.phases is not None:
            self.arrivals.append((self.completed, before))
        if self.pending == 0 and self.bytes_due == 0:
            self.completed += 1
            self.pending = self.count
            self.released = self.arriving
            self.arriving = Released()
            if self.phases is not None:
                self.phases.append(self.released)

    def detail(self) -> str:
        """Return what the current phase still lacks, for a deadlock report."""
        due = f", {self.bytes_due} bytes due" if self.bytes_due else ""
        return f" ({self.count - self.pending} of {self.count} arrivals in{due})"


@dataclass(slots=True, eq=False)
class Barriers:
    """An array of mbarriers."""

    name: str
    slots: list[Slot]

    def __getitem__(self, index: Value) -> Slot:
        number = int(index)
        if not 0 <= number < len(self.slots):
            raise MachineFault("index", f"`{self.name}[{number}]` has {len(self.slots)} slots")
        return self.slots[number]


def make_barriers(
    name: str, array: int, number: int, count: int, per_thread: bool = False
) -> Barriers:
    """Return fresh mbarriers of `count` arrivals a phase, the `array`-th of their CTA.

    Raises:
        MachineFault: the count is not positive.
    """
    if count < 1 or number < 1:
        raise MachineFault("barrier", f"`{name}` has {number} slots of {count} arrivals")
    slots = [
        Slot(name=name, array=array, index=i, count=count, per_thread=per_thread, pending=count)
        for i in range(number)
    ]
    return Barriers(name, slots)
