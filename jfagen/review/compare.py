"""Two schedules held against each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .barrier_changes import barrier_changes
from .changes import Change, Comparison, Delta, Part
from .facts import Facts
from .kernel_lines import section_diffs
from .memory_changes import buffer_changes, place_changes
from .pairing import Pairing, pair
from .role_changes import role_changes


def compare(
    before: Facts,
    after: Facts,
    measured: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {}),
) -> Comparison:
    """Return what differs.

    Args:
        before: the facts of the first schedule.
        after: those of the second.
        measured: figure -> value of the two compiled kernels; empty if they were not compiled.
    """
    pairing = pair(before, after)
    changes = [
        *_settings(before, after, pairing),
        *role_changes(before, after, pairing),
        *buffer_changes(before, after, pairing),
        *place_changes(before, after, pairing),
        *barrier_changes(before, after, pairing),
    ]
    order = list(Part)
    return Comparison(
        before=before.title,
        after=after.title,
        kernels=(before.kernels, after.kernels),
        changes=tuple(sorted(changes, key=lambda change: order.index(change.part))),
        figures=_deltas(before.resources, after.resources),
        measured=_deltas(*measured),
        rules={
            rule: (before.verdicts.get(rule, "-"), after.verdicts.get(rule, "-"))
            for rule in {**before.verdicts, **after.verdicts}
        },
        sections=section_diffs(before.text, after.text, pairing),
    )


def _settings(before: Facts, after: Facts, pairing: Pairing) -> Iterator[Change]:
    if before.kernel != after.kernel:
        words = f"was called `{before.kernel}`"
        yield Change(part=Part.KERNEL, name=after.kernel, words=words)
    for part, new in after.settings.items():
        old = before.settings[part]
        for name in {**old, **new}:
            was, value = (said.get(name, "nothing") for said in (old, new))
            if pairing.translate(was) != value:
                yield Change(part=part, name=name, words=f"{was} -> {value}")


def _deltas(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[Delta, ...]:
    return tuple(
        Delta(name=name, before=before.get(name), after=after.get(name))
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    )
