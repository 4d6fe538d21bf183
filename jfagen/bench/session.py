"""Measure one case: make its inputs, check every provider, time those that are right in turn."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from .check import Checked, Pair, compare, reference, sample_pairs
from .inputs import Inputs, Tensor, make_inputs, sets_that_take_turns
from .interleave import Clock, OutOfMemory, first_line, interleave
from .providers import Prepared, Provider
from .records import Case, Measurement, Status

Say = Callable[[str], None]


class DeviceLost(Exception):
    """The device answers no more: an illegal access of a kernel, for example, ends its context."""


@dataclass(frozen=True, kw_only=True)
class Stand:
    """Where it is measured.

    Attributes:
        device: as torch names it.
        clock: what times calls.
        l2_bytes: the size of the L2.
        capability: the compute capability, None on a CPU.
        free_bytes: tells how much memory is free now.
        release: gives freed memory back and waits for the device; raises if the device is lost.
        rounds: timed rounds.
        warm_up_ms: see `interleave`.
    """

    device: str
    clock: Clock
    l2_bytes: int
    capability: tuple[int, int] | None
    free_bytes: Callable[[], int]
    release: Callable[[], None]
    rounds: int
    warm_up_ms: float = 300.0


def measure(case: Case, providers: Sequence[Provider], stand: Stand, say: Say) -> list[Measurement]:
    """Return what was found of each provider on one case, in the order given.

    Raises:
        DeviceLost: a kernel broke the device's context.
    """
    found: dict[str, Measurement] = {}
    candidates = []
    for provider in providers:
        reason = provider.unfit(case, stand.capability)
        if reason is None:
            candidates.append(provider)
        else:
            found[provider.name] = _without(case, provider, Status.UNFIT, reason)
    sets = sets_that_take_turns(case, l2_bytes=stand.l2_bytes, free_bytes=stand.free_bytes())
    while candidates:
        try:
            found |= _measure(case, candidates, sets, stand, say)
            break
        except (OutOfMemory, torch.OutOfMemoryError) as error:
            reason = first_line(error)
        _release(stand)
        if sets == 1:
            left = [one for one in candidates if one.name not in found]
            found |= {one.name: _without(case, one, Status.NO_MEMORY, reason) for one in left}
            break
        sets = sets // 2
        say(f"too little memory: {sets} input sets take turns")
    _release(stand)
    return [found[provider.name] for provider in providers]


def _measure(
    case: Case, candidates: Sequence[Provider], sets: int, stand: Stand, say: Say
) -> dict[str, Measurement]:
    say("making inputs")
    inputs = [make_inputs(case, number, stand.device) for number in range(sets)]
    pairs = sample_pairs(case)
    subject = _Subject(case=case, pairs=pairs, expected=reference(inputs[0], pairs))
    found: dict[str, Measurement] = {}
    ready: dict[str, tuple[Prepared, ...]] = {}
    checked: dict[str, Checked] = {}
    for provider in candidates:
        say(f"checking {provider.name}")
        outcome = _ready(provider, inputs, subject, stand)
        if isinstance(outcome, Measurement):
            found[provider.name] = outcome
        else:
            ready[provider.name], checked[provider.name] = outcome
    say(f"timing {', '.join(ready) or 'nobody'}")
    turns = interleave(
        {name: [one.call for one in prepared] for name, prepared in ready.items()},
        stand.clock,
        rounds=stand.rounds,
        warm_up_ms=stand.warm_up_ms,
        is_out_of_memory=lambda error: isinstance(error, torch.OutOfMemoryError),
    )
    for provider in candidates:
        name = provider.name
        if name in turns.failed:
            found[name] = _without(case, provider, Status.FAILED, turns.failed[name])
            _release(stand)
        elif name in ready:
            again = _again(provider, ready[name][0], checked[name], subject, stand)
            found[name] = (
                again
                if isinstance(again, Measurement)
                else Measurement(
                    case=case,
                    provider=name,
                    status=Status.MEASURED,
                    error=again.error,
                    tolerance=again.tolerance,
                    rounds=turns.rounds[name],
                    sets=sets,
                )
            )
    return found


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """What results are held against: the case, the sample, and its reference."""

    case: Case
    pairs: tuple[Pair, ...]
    expected: tuple[tuple[Tensor, ...], ...]

    def check(self, prepared: Prepared) -> Checked:
        """Return how far one call of the first input set is off."""
        return compare(prepared.results(prepared.call()), self.expected, self.case, self.pairs)


def _ready(
    provider: Provider, inputs: Sequence[Inputs], subject: _Subject, stand: Stand
) -> tuple[tuple[Prepared, ...], Checked] | Measurement:
    """Return the prepared input sets and the check of the first; or why it is not timed."""
    try:
        prepared = tuple(provider.prepare(one) for one in inputs)
        checked = subject.check(prepared[0])
    except torch.OutOfMemoryError as error:
        if len(inputs) > 1:
            raise
        return _without(subject.case, provider, Status.NO_MEMORY, first_line(error))
    except Exception as error:  # whatever somebody else's library raises
        reason = first_line(error)
        _release(stand)
        return _without(subject.case, provider, Status.FAILED, reason)
    if not checked.right:
        return _wrong(subject.case, provider, checked)
    return prepared, checked


def _again(
    provider: Provider, prepared: Prepared, before: Checked, subject: _Subject, stand: Stand
) -> Checked | Measurement:
    """Check once more after the timing: a race may only show when the device is busy."""
    try:
        checked = subject.check(prepared)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # see above
        reason = first_line(error)
        _release(stand)
        return _without(subject.case, provider, Status.FAILED, reason)
    if not checked.right:
        return _wrong(subject.case, provider, checked, "after the timing: ")
    return max(before, checked, key=lambda one: one.error)


def _wrong(case: Case, provider: Provider, checked: Checked, when: str = "") -> Measurement:
    return Measurement(
        case=case,
        provider=provider.name,
        status=Status.WRONG,
        reason=f"{when}{checked.where} is off by {checked.error:.2g}",
        error=checked.error,
        tolerance=checked.tolerance,
    )


def _without(case: Case, provider: Provider, status: Status, reason: str) -> Measurement:
    return Measurement(case=case, provider=provider.name, status=status, reason=reason)


def _release(stand: Stand) -> None:
    gc.collect()
    try:
        stand.release()
    except Exception as error:
        raise DeviceLost(first_line(error)) from error
