"""Named barriers: roles of one CTA meet by the number of their threads, generation by generation.

Hardware only counts threads. An arrival that may come before the generation before it is complete
may complete that one in place of another role's: it is a fault whether or not it comes that early.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .barriers import Released
from .happens import Clocked, Order
from .report import MachineFault, Place

_RULE = "named-barrier"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Arrival:
    """The threads of one role that arrive; `number` is that of the event."""

    party: Clocked
    place: Place
    number: int
    threads: int
    waits: bool


@dataclass(slots=True, eq=False)
class NamedBarrier:
    """One hardware barrier of a CTA: who arrived in the generation under way and the one before."""

    number: int
    threads: int = 0
    arrived: int = 0
    generation: int = 0
    arriving: Released = field(default_factory=Released)
    current: list[Arrival] = field(default_factory=list)
    previous: list[Arrival] = field(default_factory=list)

    def arrive(self, arrival: Arrival, threads: int, order: Order) -> int:
        """Count an arrival at a barrier of `threads`; returns the generation that it belongs to.

        Those that wait acquire what happened before all arrivals once the last one is in.

        Raises:
            MachineFault: the number of threads differs from before, too many arrive, or nothing
                orders the arrival behind the generation before.
        """
        self._check_threads(arrival, threads)
        self._check_order(arrival, order)
        self.threads = threads
        self.arrived += arrival.threads
        self.arriving.before |= arrival.party.before | order.bit(arrival.number)
        self.current.append(arrival)
        mine = self.generation
        if self.arrived == threads:
            self._complete()
        return mine

    def _complete(self) -> None:
        for arrival in self.current:
            if arrival.waits:
                arrival.party.before |= self.arriving.before
        self.arriving = Released()
        self.previous, self.current = self.current, []
        self.arrived = 0
        self.generation += 1

    def _check_threads(self, arrival: Arrival, threads: int) -> None:
        if self.threads and threads != self.threads:
            raise MachineFault(
                _RULE,
                f"named barrier {self.number} is used with {self.threads} and {threads} threads",
            )
        total = self.arrived + arrival.threads
        for earlier in self.current:
            if earlier.party is arrival.party:
                raise MachineFault(
                    _RULE,
                    f"role `{arrival.place.role}` arrives at named barrier {self.number} again,"
                    f" which it reached at line {earlier.place.line} and which has {self.arrived}"
                    f" of {threads} threads",
                )
        if total > threads:
            raise MachineFault(
                _RULE, f"{total} threads arrive at named barrier {self.number} of {threads}"
            )

    def _check_order(self, arrival: Arrival, order: Order) -> None:
        for earlier in self.previous:
            if earlier.party is not arrival.party and not order.holds(
                earlier.number, arrival.party.before
            ):
                raise MachineFault(
                    _RULE,
                    f"the arrival at named barrier {self.number} may come before that of"
                    f" {earlier.place.where()}, which belongs to the generation before",
                )
