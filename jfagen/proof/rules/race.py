"""race: no two unordered accesses to the same memory, one of them a write.

What: columns and bytes are taken from the placement, so overlaps count whatever made them; order is
program order, MMAs of one role in turn, and barriers, closed transitively.

Why: a race is right on most launches.

Example: without the barrier `q_empty` the next tile's queries land while a matmul reads the last.

Fix: a schedule never needs one: barriers are derived. It shows a mistake in the compiler, or in a
text that was edited by hand.

Assumes: MMAs of one role complete in order and others are unordered to them; TMA completes in any
order; a wait acquires all that came before the arrivals of its phase.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ...algorithm import Mode
from ...diagnostics import Diagnostic, Label, Note
from ...passes.placement import Placement
from ...planning import Plan, Site, Touch
from ..realize import Realized, executes
from ..subject import Subject
from ..witness import trips_words

ID = "race"
PROVES = "no two unordered accesses to the same memory, one of them a write"


@dataclass(frozen=True, slots=True)
class _Use:
    """One access with its place in memory and its nodes in the order."""

    start: int
    stop: int
    begins: int
    ends: int
    writes: bool
    site: Site
    touch: Touch
    tile: int
    step: int


def check(subject: Subject) -> list[Diagnostic]:
    """Return one diagnostic for every pair of sites that race."""
    found: dict[tuple[Site, Site], Diagnostic] = {}
    for realized in subject.realized:
        if realized.closure is None:
            continue
        for first, second in _races(subject.plan, subject.placement, realized):
            key = (first.site, second.site)
            if key not in found and (second.site, first.site) not in found:
                found[key] = _diagnostic(subject.plan, first, second, realized)
    return list(found.values())


def _races(plan: Plan, placement: Placement, realized: Realized) -> list[tuple[_Use, _Use]]:
    closure = realized.closure
    assert closure is not None
    racing: list[tuple[_Use, _Use]] = []
    for uses in _by_memory(plan, placement, realized).values():
        uses.sort(key=lambda use: use.start)
        for index, first in enumerate(uses):
            for second in uses[index + 1 :]:
                if second.start >= first.stop:
                    break
                if not (first.writes or second.writes):
                    continue
                if not (
                    first.ends == second.begins
                    or closure.before[second.begins] >> first.ends & 1
                    or closure.before[first.begins] >> second.ends & 1
                ):
                    racing.append((first, second))
    return racing


def _by_memory(plan: Plan, placement: Placement, realized: Realized) -> dict[str, list[_Use]]:
    """Return the accesses of each memory, with absolute columns or bytes."""
    program = plan.program
    before: list[tuple[int, int]] = []
    tiles = steps = 0
    for trip in realized.unrolled.trips:
        before.append((tiles, steps))
        tiles, steps = tiles + (trip > 0), steps + trip
    found: dict[str, list[_Use]] = defaultdict(list)
    for site, tile, step in realized.unrolled.end:
        begins, ends = executes(plan, realized, site, tile, step)
        for touch in plan.touches[site]:
            buffer = program.buffer(touch.buffer)
            rate = program.uses_per_tile_step(buffer)
            count = before[tile][0]
            if rate:
                count = rate * (before[tile][1] + step) + touch.turn
            copy = max(touch.group, 0) * buffer.depth + count % buffer.depth
            root = placement.layout.extents[buffer.name].root
            base = placement.first[root] + copy * placement.layout.sizes[root]
            start, stop = placement.layout.slice_range(buffer, touch.slice)
            found[buffer.storage].append(
                _Use(
                    base + start,
                    base + stop,
                    begins,
                    ends,
                    touch.mode is not Mode.READ,
                    site,
                    touch,
                    tile,
                    step,
                )
            )
    return found


def _diagnostic(plan: Plan, first: _Use, second: _Use, realized: Realized) -> Diagnostic:
    one, other = plan.at(first.site), plan.at(second.site)
    verb = {True: "writes", False: "reads"}
    return Diagnostic(
        id="race",
        message=f"nothing orders `{one.use.op.name}` and `{other.use.op.name}` on "
        f"`{first.touch.buffer}`",
        label=Label(
            span=one.use.span, message=f"`{one.role.name}` {verb[first.writes]} {_where(first)}"
        ),
        notes=(
            Note(
                message=f"`{other.role.name}` {verb[second.writes]} {_where(second)}",
                label=Label(span=other.use.span),
            ),
            Note(message=f"seen with {trips_words(realized.unrolled.trips)}"),
        ),
    )


def _where(use: _Use) -> str:
    step = f", step {use.step}" if use.step >= 0 else ""
    return f"`{use.touch.buffer}` [{use.start}, {use.stop}) (tile {use.tile}{step})"
