"""Placement: pack TMEM into columns and SMEM into bytes.

A buffer may lie over another where the sequential program allows it. Among the arrangements that
need the fewest allocated columns, the one with the fewest barriers is taken; ties go to the order
of declaration. SMEM buffers share only what a region of the schedule says: sharing SMEM makes
roles wait for each other, which is for the schedule to choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from ..graph.intervals import first_fit
from ..planning import Plan
from ..semantics.program import Buffer, Program
from ..semantics.regions import Arrangement, Beside, Leaf, Over, leaves
from ..target import Target
from ..types import Storage
from .layout import Layout, make_layout
from .needed import Illegal, Look, needed_families, trip_counts
from .shared_look import SharedLook
from .sync import derive_sync


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where everything lies.

    Attributes:
        layout: extents inside each root.
        first: root name -> first TMEM column or SMEM byte of its first copy.
        columns: TMEM columns that are used.
        allocated: the same rounded up to what the hardware allocates.
        smem_bytes: bytes of all SMEM buffers, without barriers.
        chosen: trees that the packer added to those of the schedule.
    """

    layout: Layout
    first: dict[str, int]
    columns: int
    allocated: int
    smem_bytes: int
    chosen: tuple[Arrangement, ...]


def allocated_columns(target: Target, columns: int) -> int:
    """Return what the hardware allocates for `columns`: a power of two, or 0 for none."""
    if not columns:
        return 0
    return max(target.tmem_smallest, 1 << (columns - 1).bit_length())


def copies(program: Program, buffer: Buffer) -> int:
    """Return how many copies of a buffer there are: one for every group and slot."""
    return buffer.depth * (program.tile.groups if buffer.grouped else 1)


def place(plan: Plan) -> Placement:
    """Return the placement.

    What does not fit, or what a region of the schedule makes impossible, is returned all the same:
    the passes and rules that follow refuse it with the place in the schedule.
    """
    program = plan.program
    fixed = tuple(region.tree for region in program.regions)
    chosen = _pack_tmem(plan, fixed)
    layout = make_layout(program, fixed + chosen)
    return _number(program, layout, chosen)


def _columns(program: Program, layout: Layout) -> int:
    return sum(
        size * copies(program, program.buffer(root))
        for root, size in layout.sizes.items()
        if program.buffer(root).storage is Storage.TMEM
    )


def _number(program: Program, layout: Layout, chosen: tuple[Arrangement, ...]) -> Placement:
    totals = {Storage.TMEM: 0, Storage.SMEM: 0}
    first: dict[str, int] = {}
    for root, size in layout.sizes.items():
        buffer = program.buffer(root)
        first[root] = totals[buffer.storage]
        totals[buffer.storage] += size * copies(program, buffer)
    return Placement(
        layout=layout,
        first=first,
        columns=totals[Storage.TMEM],
        allocated=allocated_columns(program.target, totals[Storage.TMEM]),
        smem_bytes=totals[Storage.SMEM],
        chosen=chosen,
    )


def _pack_tmem(plan: Plan, fixed: tuple[Arrangement, ...]) -> tuple[Arrangement, ...]:
    """Return the trees that bring TMEM into the smallest allocation with the fewest barriers."""
    program = plan.program
    inside = {leaf.buffer for tree in fixed for leaf in leaves(tree)}
    free = [b for b in program.buffers if b.storage is Storage.TMEM and b.name not in inside]
    look = SharedLook(plan)
    if len(free) < 2:
        return ()
    if isinstance(needed_families(plan, make_layout(program, fixed), (), look), Illegal):
        return ()
    ranked: dict[tuple[int, int], list[tuple[Arrangement, ...]]] = {}
    for trees in _arrangements(plan, fixed, free, look):
        if not _are_together(program, make_layout(program, fixed + trees)):
            continue
        columns = _columns(program, make_layout(program, fixed + trees))
        allocated = allocated_columns(program.target, columns)
        over = columns if allocated > program.target.tmem_columns else 0
        ranked.setdefault((allocated, over), []).append(trees)
    for size in sorted(ranked):
        best: tuple[int, tuple[Arrangement, ...]] | None = None
        for trees in ranked[size]:
            barriers = _barriers(plan, make_layout(program, fixed + trees), look)
            if barriers is not None and (best is None or barriers < best[0]):
                best = (barriers, trees)
        if best is not None:
            return best[1]
    # What cannot share a place is laid over each other all the same: the rules say why not.
    return tuple(
        _tree(program, widest[0].buffer, [leaf.buffer for leaf in widest[1:]])
        for group in program.together
        if (widest := sorted(group, key=lambda leaf: -program.buffer(leaf.buffer).columns))
    )


def _are_together(program: Program, layout: Layout) -> bool:
    """Whether every two buffers of a group that is to share columns do."""
    extents = layout.extents
    return all(
        extents[one.buffer].overlaps(extents[other.buffer])
        for group in program.together
        for one, other in combinations(group, 2)
    )


def _barriers(plan: Plan, layout: Layout, look: Look) -> int | None:
    families = needed_families(plan, layout, look=look)
    if isinstance(families, Illegal):
        return None
    return derive_sync(plan, layout, families).barriers


def _arrangements(
    plan: Plan, fixed: tuple[Arrangement, ...], free: list[Buffer], look: Look
) -> Iterator[tuple[Arrangement, ...]]:
    """Yield the ways to lay some of the free buffers over others, fewest overlaps first."""
    program = plan.program
    apart = {
        frozenset((one.buffer, other.buffer))
        for group in program.apart
        for one, other in combinations(group, 2)
    }
    hosts: dict[str, list[str]] = {}
    for guest in free:
        hosts[guest.name] = [
            host.name
            for host in free
            if host.name != guest.name
            and host.columns >= guest.columns
            and (host.columns > guest.columns or free.index(host) < free.index(guest))
            and (host.grouped, host.depth) == (guest.grouped, guest.depth)
            and (host.depth == 1 or _rhythm(program, host) == _rhythm(program, guest))
            and frozenset((host.name, guest.name)) not in apart
            and _legal_pair(plan, fixed, (host, guest), look)
        ]
    yield ()
    movable = [buffer.name for buffer in free if hosts[buffer.name]]
    for count in range(1, len(movable) + 1):
        for guests in combinations(movable, count):
            yield from _assign(program, guests, hosts, apart, {})


def _rhythm(program: Program, buffer: Buffer) -> tuple[int, int]:
    """Return how the slots of a buffer turn: rings that turn differently cannot share slots."""
    return program.uses_per_tile_step(buffer), len(buffer.holds)


def _assign(
    program: Program,
    guests: tuple[str, ...],
    hosts: dict[str, list[str]],
    apart: set[frozenset[str]],
    chosen: dict[str, list[str]],
) -> Iterator[tuple[Arrangement, ...]]:
    if not guests:
        yield tuple(_tree(program, host, inside) for host, inside in chosen.items())
        return
    guest, rest = guests[0], guests[1:]
    for host in hosts[guest]:
        if host in guests or any(host in inside for inside in chosen.values()):
            continue
        inside = [*chosen.get(host, []), guest]
        yield from _assign(program, rest, hosts, apart, {**chosen, host: inside})


def _tree(program: Program, host: str, guests: list[str]) -> Arrangement:
    """Return the host over shelves of guests; a shelf holds what fits side by side."""

    def leaf(name: str) -> Leaf:
        return Leaf(buffer=name, span=program.buffer(name).span)

    # The widest first: each part of a shelf is aligned to its own width.
    ordered = sorted(guests, key=lambda name: -program.buffer(name).columns)
    widths = [(name, program.buffer(name).columns) for name in ordered]
    shelves = first_fit(widths, program.buffer(host).columns)
    parts = [
        leaf(shelf[0]) if len(shelf) == 1 else Beside(parts=tuple(leaf(name) for name in shelf))
        for shelf in shelves
    ]
    return Over(parts=(leaf(host), *parts))


def _legal_pair(
    plan: Plan,
    fixed: tuple[Arrangement, ...],
    pair: tuple[Buffer, Buffer],
    look: Look,
) -> bool:
    host, guest = pair
    tree = _tree(plan.program, host.name, [guest.name])
    layout = make_layout(plan.program, (*fixed, tree))
    # One sequence sorts most pairs out; what is chosen is looked at with all of them.
    longest = trip_counts(plan)[:1]
    return not isinstance(needed_families(plan, layout, longest, look), Illegal)
