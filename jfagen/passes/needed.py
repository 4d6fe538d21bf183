"""Which dependences need a barrier: those that nothing else orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..algorithm import Space
from ..graph.closure import close, find_cycle
from ..planning import Plan, Site, Unrolled, unroll
from ..semantics.program import NextTile
from ..types import Storage
from .dependences import Clobber, Dependence, Dependences, find_dependences
from .layout import Layout

#: The steps of each tile, a layout -> the unrolled plan and the dependences of that layout.
Look = Callable[[tuple[int, ...], Layout], tuple[Unrolled, Dependences]]


@dataclass(slots=True)
class Family:
    """All instances of one dependence between two sites that need a barrier.

    Attributes:
        pairs: (buffer and value of the first access, buffer and value of the second).
        steps: step distances of instances inside one tile.
        tiles: tile distances of all instances.
    """

    first: Site
    second: Site
    pairs: dict[tuple[str, str, str, str], None] = field(default_factory=dict)
    steps: set[int] = field(default_factory=set)
    tiles: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Illegal:
    """A layout or an order of ops that the sequential program forbids.

    Attributes:
        unrolled: the events.
        cycle: their nodes, each before the next, the last before the first; empty with clobbers.
        dependences: those on the cycle.
        clobbers: reads whose value is overwritten whatever the order.
    """

    unrolled: Unrolled
    cycle: tuple[int, ...]
    dependences: tuple[Dependence, ...]
    clobbers: tuple[Clobber, ...]


def steady_steps(plan: Plan) -> int:
    """Return steps enough for every order of the endless loop: largest lag and depth, plus one."""
    offsets = [use.offset for rp in plan.program.role_programs for use in rp.loop]
    depths = [b.depth for b in plan.program.buffers if b.storage is not Storage.REG]
    return (max(offsets) - min(offsets)) + max(depths) + 1


def trip_counts(plan: Plan) -> tuple[tuple[int, ...], ...]:
    """Return the tile sequences that show every neighbourhood of tiles with steps."""
    many = steady_steps(plan)
    short = range(2, many)
    if plan.program.tiles.next is NextTile.NONE:
        return ((many,), (1,), *((steps,) for steps in short))
    alike = ((steps, steps) for steps in short)
    return ((many, many), (1, 1, 1), (1, many), (many, 1), *alike, *distant_tiles(plan))


def distant_tiles(plan: Plan) -> tuple[tuple[int, ...], ...]:
    """Return tiles that share a slot of a ring of tiles, with the shortest tiles in between.

    A ring of two tiles lets the first and the third meet: 1 to N steps in the one, in the other, or
    in both. Empty if no buffer holds several tiles.
    """
    value = plan.program.algorithm.value
    depths = (b.depth for b in plan.program.buffers if value(b.holds[0]).space is Space.TILE)
    ends = range(1, steady_steps(plan) + 1)
    return tuple(
        (first, *(1,) * (apart - 1), last)
        for apart in range(2, max(depths, default=1) + 1)
        for steps in ends
        for first, last in ((steps, 1), (1, steps), (steps, steps))
    )


def needed_families(
    plan: Plan,
    layout: Layout,
    sequences: tuple[tuple[int, ...], ...] = (),
    look: Look | None = None,
) -> tuple[Family, ...] | Illegal:
    """Return the dependences in the transitive reduction, or the cycle that makes it impossible.

    The transitive reduction of an acyclic graph is unique: what is in it must be signalled, and
    everything else follows.

    Args:
        plan: the plan.
        layout: where buffers lie relative to each other.
        sequences: tile sequences to look at; those of `trip_counts` if empty.
        look: how to find dependences, where several layouts of one plan are looked at.
    """
    families: dict[tuple[Site, Site], Family] = {}
    for trips in sequences or trip_counts(plan):
        unrolled, dependences = look(trips, layout) if look else _looked(plan, trips, layout)
        if dependences.clobbers:
            return Illegal(unrolled, (), (), dependences.clobbers)
        found = dependences.found
        edges = [*unrolled.order, *(dependence.edge for dependence in found)]
        closure = close(len(unrolled.events), edges)
        if closure is None:
            return _illegal(unrolled, found, edges)
        free = set(unrolled.order)
        for dependence in found:
            if dependence.edge not in free and not closure.is_implied(dependence.edge):
                _enter(families, dependence)
    return tuple(sorted(families.values(), key=lambda family: (family.first, family.second)))


def _looked(plan: Plan, trips: tuple[int, ...], layout: Layout) -> tuple[Unrolled, Dependences]:
    unrolled = unroll(plan, trips)
    return unrolled, find_dependences(plan, unrolled, layout)


def all_pairs(plan: Plan, layout: Layout) -> dict[tuple[Site, Site], Family]:
    """Return every dependence family of the plan, needed or not."""
    families: dict[tuple[Site, Site], Family] = {}
    unrolled = unroll(plan, trip_counts(plan)[0])
    for dependence in find_dependences(plan, unrolled, layout).found:
        _enter(families, dependence)
    return families


def _enter(families: dict[tuple[Site, Site], Family], dependence: Dependence) -> None:
    (first, tile, step), (second, later_tile, later_step) = dependence.first, dependence.second
    family = families.setdefault((first, second), Family(first, second))
    earlier, later = dependence.earlier, dependence.later
    family.pairs[earlier.buffer, earlier.value, later.buffer, later.value] = None
    family.tiles.add(later_tile - tile)
    if tile == later_tile:
        family.steps.add(later_step - step)


def _illegal(
    unrolled: Unrolled, found: tuple[Dependence, ...], edges: list[tuple[int, int]]
) -> Illegal:
    cycle = find_cycle(edges)
    around = set(zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    on_it: dict[tuple[Site, Site, str, str], Dependence] = {}
    for dependence in found:
        if dependence.edge in around:
            buffers = dependence.earlier.buffer, dependence.later.buffer
            on_it.setdefault((dependence.first[0], dependence.second[0], *buffers), dependence)
    return Illegal(unrolled, cycle, tuple(on_it.values()), ())
