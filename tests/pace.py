"""How fast this machine is at the moment: bars in seconds are those of an idle one."""

from __future__ import annotations

from time import perf_counter

#: Seconds of a million laps on the machine of the README's figures, idle.
USUAL = 0.066


def slowness() -> float:
    """Return how many times slower Python runs now than it usually does there; at least 1."""
    laps = []
    for _ in range(5):
        start, total = perf_counter(), 0
        for number in range(1_000_000):
            total += number
        laps.append(perf_counter() - start)
    return max(1.0, min(laps) / USUAL)
