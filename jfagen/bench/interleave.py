"""Take turns: every provider is timed in every round, so that clocks and heat are shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .records import Lap

_MOST_WARM_ROUNDS = 1_000
#: What is timed: it queues one call and returns its result.
Call = Callable[[], object]


class Clock(Protocol):
    """What times calls; on a GPU, `EventClock`."""

    def burst(self, lead: Call, calls: Sequence[Call]) -> tuple[Lap, ...]:
        """Run `lead` untimed, then the calls one after the other, and return a lap for each.

        The lead keeps the GPU busy while the host queues the first timed call.
        """


class OutOfMemory(Exception):
    """The device has too little memory for what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The laps of each provider, round by round, and why those that broke off did."""

    rounds: Mapping[str, tuple[tuple[Lap, ...], ...]]
    failed: Mapping[str, str]


def interleave(
    calls: Mapping[str, Sequence[Call]],
    clock: Clock,
    *,
    rounds: int,
    warm_up_ms: float = 300.0,
    is_out_of_memory: Callable[[Exception], bool] = lambda error: False,
) -> Turns:
    """Time all providers in turn, after as many untimed rounds as fill `warm_up_ms`.

    Args:
        calls: one call for each input set, by provider; a round times each of them once.
        clock: what times a provider's turn.
        rounds: timed rounds. Each begins with another provider than the one before.
        warm_up_ms: the least time on the device, of all providers together, before the first
            timed round; at least one round is run in any case.
        is_out_of_memory: whether an error of a call means that; it ends everything.

    Raises:
        OutOfMemory: a call ran out of memory.
    """
    order = list(calls)
    found: dict[str, list[tuple[Lap, ...]]] = {name: [] for name in order}
    failed: dict[str, str] = {}

    def turn(name: str) -> tuple[Lap, ...]:
        try:
            return clock.burst(calls[name][-1], calls[name])
        except Exception as error:
            if is_out_of_memory(error):
                raise OutOfMemory(name) from error
            failed[name] = first_line(error)
            return ()

    def running() -> list[str]:
        return [name for name in order if name not in failed]

    warm = 0.0
    for _ in range(_MOST_WARM_ROUNDS):
        laps = [lap for name in running() for lap in turn(name)]
        warm += sum(lap.device_ms for lap in laps)
        if warm >= warm_up_ms or not laps:
            break
    for number in range(rounds):
        first = number % len(order) if order else 0
        for name in [*order[first:], *order[:first]]:
            if name not in failed and (laps_of := turn(name)):
                found[name].append(laps_of)
    done = {name: tuple(laps) for name, laps in found.items() if name not in failed}
    return Turns(rounds=done, failed=failed)


def first_line(error: Exception) -> str:
    """Return the kind of an error and the first line of what it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
