"""Brute force: run a kernel's text in many orders and watch what happens. Shares nothing with the
prover but the parser of the text (`jfagen.readback.kernel_text` and what it returns).

The machine: roles run their actions in program order. An mbarrier has arrivals, pending bytes and
a count of completed phases, of which a wait sees only the parity. Matmuls of one role execute in
issue order, each some time after its issue, and arrive on their barriers then; loads land in any
order; bulk stores read their tile some time before the role's wait for them returns; cluster launch
control answers after the request, which waits until every role has taken the last answer.

Orders: everything at once; everything as late as possible; one role starved (one run for each, in
turn over the tile sequences); seeded random ones. Every run is watched for

* a hang: nobody can move and somebody is not done;
* a race: two accesses to the same cell, one of them a write, neither before the other in the order
  that program order, barriers, matmul order and the tile channel make (bitsets of events);
* a stale value: a read that finds another value than the sequential program would
  (`brute_meaning.py`), matmul operands and accumulators included;
* a phase that can be taken for another: a wait that saw completion n although completion n - 1 was
  not before it (it could have passed early), or although completion n + 1 does not come after it
  (it could have been lapped), an arrival that is not after all arrivals of the phase before, more
  arrivals than a phase counts, bytes that nobody expects, and parities of the tile channel.

What one run shows of races and phases holds for every order with the same order of events, which
is why a few different runs are convincing; a hang or a stale value is seen as it happens. Not
covered: fences, eight-warp roles, registers, and tiles dealt to several CTAs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from brute_code import Found, code_of
from brute_machine import AT_ONCE, LATE, RANDOM, Machine

from jfagen.readback.kernel_text import KernelText


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong: its kind, in words, and where it was seen."""

    kind: str
    words: str
    trips: tuple[int, ...]
    order: str

    def __str__(self) -> str:
        return f"{self.kind} with {self.trips} ({self.order}): {self.words}"


def examine(
    kernel: KernelText, vectors: Iterable[tuple[int, ...]], seed: int = 0
) -> Trouble | None:
    """Return the first trouble with tiles of these numbers of steps, or None."""
    for index, trips in enumerate(vectors):
        trace = kernel.trace(trips, full=bool(index % 3 == 2))
        order = "reading"
        try:
            code = code_of(trace, int(kernel.constants.get("GROUPS", 1)))
            starved = str(index % len(code.steps))
            for order in (AT_ONCE, LATE, starved, RANDOM):
                Machine(code, order, seed + index).run()
        except Found as found:
            return Trouble(found.kind, found.words, trips, order)
    return None
