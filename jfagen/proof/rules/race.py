"""race: accesses to the same memory, one of them a write, come in the algorithm's order.

What: columns and bytes are taken from the placement, so overlaps count whatever made them; order is
program order, MMAs of one role in turn, and barriers, closed transitively. Of two accesses the one
that comes first in the sequential program has to end before the other begins.

Why: a race is right on most launches; two accesses that are swapped are wrong on all.

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
from ...graph.closure import Closure
from ...passes.dependences import place_of, sequential_key
from ...passes.placement import Placement
from ...planning import Plan, Site, Touch
from ..realize import Realized, executes
from ..subject import Subject
from ..witness import trips_words

ID = "race"
PROVES = "accesses to the same memory, one of them a write, come in the algorithm's order"


@dataclass(frozen=True, slots=True)
class _Use:
    """One access: its place in memory, its nodes in the order, its place in the algorithm."""

    start: int
    stop: int
    begins: int
    ends: int
    writes: bool
    site: Site
    touch: Touch
    tile: int
    step: int
    place: tuple[int, ...]


def check(subject: Subject) -> list[Diagnostic]:
    """Return one diagnostic for every pair of sites that race, or that are swapped."""
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
                earlier, later = sorted((first, second), key=lambda use: use.place)
                if not _follows(closure, earlier, later):
                    racing.append((earlier, later))
    return racing


def _follows(closure: Closure, earlier: _Use, later: _Use) -> bool:
    """Whether one access has ended when the other begins."""
    return earlier.ends == later.begins or closure.ordered(earlier.ends, later.begins)


def _by_memory(plan: Plan, placement: Placement, realized: Realized) -> dict[str, list[_Use]]:
    """Return the accesses of each memory, with absolute columns or bytes."""
    program = plan.program
    places = sequential_key(program.algorithm)
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
                    place_of(plan, places, (site, tile, step)),
                )
            )
    return found


def _diagnostic(plan: Plan, first: _Use, second: _Use, realized: Realized) -> Diagnostic:
    assert realized.closure is not None
    one, other = plan.at(first.site), plan.at(second.site)
    names = f"`{one.use.op.name}` and `{other.use.op.name}`"
    swapped = _follows(realized.closure, second, first)
    what = f"{names} are swapped" if swapped else f"nothing orders {names}"
    verb = {True: "writes", False: "reads"}
    return Diagnostic(
        id="race",
        message=f"{what} on `{first.touch.buffer}`",
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
