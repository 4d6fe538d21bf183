"""Two schedules held against each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .barrier_changes import barrier_changes
from .changes import Change, Comparison, Delta, Part
from .facts import ASKER, Facts
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
        *_order(before, after, pairing),
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
        measured=_deltas(_of_roles(measured[0], pairing), measured[1]),
        rules={
            rule: (before.verdicts.get(rule, "-"), after.verdicts.get(rule, "-"))
            for rule in {**before.verdicts, **after.verdicts}
        },
        sections=section_diffs(before.text, after.text, pairing),
        renamed=pairing.renamed,
    )


def _settings(before: Facts, after: Facts, pairing: Pairing) -> Iterator[Change]:
    if before.kernel != after.kernel:
        words = f"was called `{before.kernel}`"
        yield Change(part=Part.KERNEL, name=after.kernel, words=words)
    for part, new in after.settings.items():
        old = before.settings[part]
        for name in {**old, **new}:
            was, value = (said.get(name, "nothing") for said in (old, new))
            if _translated(part, name, was, pairing) != value:
                yield Change(part=part, name=name, words=f"{was} -> {value}")


def _translated(part: Part, name: str, words: str, pairing: Pairing) -> str:
    """Return what the first schedule says, in the names of the second."""
    if part is Part.PLACES:
        return pairing.buffers_in(words)
    return pairing.roles.get(words, words) if name == ASKER else words


def _order(before: Facts, after: Facts, pairing: Pairing) -> Iterator[Change]:
    """Yield what is declared in another order; allocations and tables follow it."""
    for part, pairs, old, new in (
        (Part.ROLES, pairing.roles, before.roles, after.roles),
        (Part.BUFFERS, pairing.buffers, before.buffers, after.buffers),
    ):
        mine = [pairs[one.name] for one in old if one.name in pairs]
        theirs = [one.name for one in new if one.name in mine]
        if mine != theirs:
            words = f"declared in another order: {', '.join(theirs)}"
            yield Change(part=part, name=f"all {part}", words=words)


def _of_roles(measured: Mapping[str, int], pairing: Pairing) -> dict[str, int]:
    """Return figures of the first kernel, those of roles under the names of the second."""
    found = {}
    for name, value in measured.items():
        role, comma, rest = name.partition(",")
        found[f"{pairing.roles.get(role, role)}{comma}{rest}"] = value
    return found


def _deltas(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[Delta, ...]:
    return tuple(
        Delta(name=name, before=before.get(name), after=after.get(name))
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    )
