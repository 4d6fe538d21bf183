"""Dependences: what the sequential program orders because two accesses touch the same memory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ..algorithm import Algorithm, Engine, Mode, Space
from ..planning import Plan, Site, Touch, Unrolled
from .layout import Layout

Cell = tuple[str, int, int, int]
Instance = tuple[Site, int, int]


@dataclass(frozen=True, slots=True)
class Dependence:
    """One pair of accesses that must keep the order of the sequential program.

    Attributes:
        first: (site, tile, step) of the earlier access.
        second: the same of the later one.
        earlier: what the first touches.
        later: what the second touches.
        edge: nodes of the unrolled graph: end of the first, start of the second.
    """

    first: Instance
    second: Instance
    earlier: Touch
    later: Touch
    edge: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Clobber:
    """A read that would not find its value, even in the sequential program.

    Attributes:
        reader: (site, tile, step) of the read.
        touch: what it wants.
        found: what wrote that memory last; None if nothing did.
    """

    reader: Instance
    touch: Touch
    found: Touch | None


@dataclass(frozen=True, slots=True)
class Dependences:
    """The dependences of an unrolled plan, and the reads that no order can make right."""

    found: tuple[Dependence, ...]
    clobbers: tuple[Clobber, ...]


class Cells:
    """Splits memory into cells so that two accesses conflict exactly if they share one."""

    def __init__(self, plan: Plan, layout: Layout) -> None:
        """Cut every root at every buffer's and slice's border."""
        self.program = plan.program
        cuts: dict[str, set[int]] = defaultdict(set)
        buffers = {buffer.name: buffer for buffer in plan.program.buffers}
        ranges: dict[tuple[str, int], tuple[str, int, int]] = {}
        for name, extent in layout.extents.items():
            pieces = range(-1, buffers[name].slices if buffers[name].slices > 1 else 0)
            for piece in pieces:
                start, stop = layout.slice_range(buffers[name], piece)
                ranges[name, piece] = (extent.root, start, stop)
                cuts[extent.root] |= {start, stop}
        self.atoms = {
            key: tuple((root, cut) for cut in sorted(cuts[root]) if start <= cut < stop)
            for key, (root, start, stop) in ranges.items()
        }
        self.buffers = buffers
        self.rates = {name: plan.program.uses_per_tile_step(b) for name, b in buffers.items()}

    def use_number(self, touch: Touch, tiles: int, steps: int) -> int:
        """Return which use of its buffer an access belongs to, counted since the kernel began.

        Args:
            touch: the access.
            tiles: tiles with steps that came before.
            steps: steps that came before, in all tiles.
        """
        rate = self.rates[touch.buffer]
        if not rate:
            return tiles
        return rate * steps + touch.turn

    def of(self, touch: Touch, use: int) -> tuple[Cell, ...]:
        """Return the cells of an access that belongs to use number `use` of its buffer."""
        slot = use % self.buffers[touch.buffer].depth
        return tuple(
            (root, touch.group, slot, cut) for root, cut in self.atoms[touch.buffer, touch.slice]
        )


def sequential_key(algorithm: Algorithm) -> dict[str, tuple[int, int]]:
    """Return for every op its place in the sequential program: phase of the tile, index."""
    ops = algorithm.ops
    first_step = next(i for i, op in enumerate(ops) if op.space is Space.STEP)
    return {
        op.name: (1 if op.space is Space.STEP else 0 if index < first_step else 2, index)
        for index, op in enumerate(ops)
    }


def place_of(plan: Plan, places: dict[str, tuple[int, int]], instance: Instance) -> tuple[int, ...]:
    """Return where an execution stands in the sequential program, as a key for sorting.

    Args:
        plan: the plan.
        places: `sequential_key` of its algorithm.
        instance: site, tile and step.
    """
    site, tile, step = instance
    phase, index = places[site.op]
    return (tile, phase, step, index, site.group, plan.place(site))


def in_sequence(plan: Plan, unrolled: Unrolled) -> tuple[Instance, ...]:
    """Return every execution in the order of the sequential program."""
    places = sequential_key(plan.program.algorithm)
    return tuple(sorted(unrolled.end, key=lambda one: place_of(plan, places, one)))


def find_dependences(plan: Plan, unrolled: Unrolled, layout: Layout) -> Dependences:
    """Return the dependences of an unrolled plan; all others follow from them by transitivity."""
    return dependences_on(frozenset(layout.extents), plan, unrolled, layout)


def dependences_on(
    buffers: frozenset[str],
    plan: Plan,
    unrolled: Unrolled,
    layout: Layout,
    sequence: tuple[Instance, ...] = (),
) -> Dependences:
    """Return the dependences between accesses to some buffers.

    Args:
        buffers: all that share memory with one of them, too.
        plan: the plan.
        unrolled: its events.
        layout: where buffers lie relative to each other.
        sequence: what `in_sequence` gives, where it is known.
    """
    scan = _Scan(plan, unrolled, layout)
    for instance in sequence or in_sequence(plan, unrolled):
        for touch in plan.touches[instance[0]]:
            if touch.buffer in buffers:
                scan.touch(instance, touch)
    return Dependences(found=tuple(scan.found.values()), clobbers=tuple(scan.clobbers.values()))


@dataclass(frozen=True, slots=True)
class _Written:
    """The last write of a cell: by whom, of what, for which use."""

    instance: Instance
    touch: Touch
    use: int


class _Scan:
    """Walks the sequential program and remembers who wrote and read each cell last."""

    def __init__(self, plan: Plan, unrolled: Unrolled, layout: Layout) -> None:
        self.plan = plan
        self.unrolled = unrolled
        self.cells = Cells(plan, layout)
        self.tiles_before, self.steps_before = _counts_before(unrolled.trips)
        self.found: dict[tuple[int, int, str, str], Dependence] = {}
        self.clobbers: dict[tuple[Site, str, str], Clobber] = {}
        self.written: dict[Cell, _Written] = {}
        self.read: dict[Cell, list[tuple[Instance, Touch]]] = defaultdict(list)

    def touch(self, instance: Instance, touch: Touch) -> None:
        """Enter one access."""
        _, tile, step = instance
        tiles, steps = self.tiles_before[tile], self.steps_before[tile] + max(step, 0)
        use = self.cells.use_number(touch, tiles, steps)
        reads = touch.mode is Mode.READ or (touch.mode is Mode.UPDATE and step >= touch.first_read)
        for cell in self.cells.of(touch, use):
            written = self.written.get(cell)
            if reads and (written is None or not _same(written, touch, use)):
                found = None if written is None else written.touch
                key = (instance[0], touch.value, written.touch.value if written else "")
                self.clobbers.setdefault(key, Clobber(instance, touch, found))
            if written is not None:
                self._depend(written.instance, written.touch, instance, touch)
            if touch.mode is Mode.READ:
                self.read[cell].append((instance, touch))
                continue
            for first, earlier in self.read.pop(cell, ()):
                self._depend(first, earlier, instance, touch)
            self.written[cell] = _Written(instance, touch, use)

    def _depend(self, first: Instance, earlier: Touch, second: Instance, later: Touch) -> None:
        edge = _edge(self.plan, self.unrolled, first, second)
        key = (*edge, earlier.buffer, later.buffer)
        if key not in self.found:
            self.found[key] = Dependence(first, second, earlier, later, edge)


def _same(written: _Written, touch: Touch, use: int) -> bool:
    return written.touch.value == touch.value and written.use == use


def _counts_before(trips: tuple[int, ...]) -> tuple[list[int], list[int]]:
    tiles, steps = [0], [0]
    for count in trips:
        tiles.append(tiles[-1] + (count > 0))
        steps.append(steps[-1] + count)
    return tiles, steps


def _edge(plan: Plan, unrolled: Unrolled, first: Instance, second: Instance) -> tuple[int, int]:
    """Return the nodes to order; two MMAs of one role are ordered as they execute."""
    start, end = unrolled.end[first], unrolled.start[second]
    if plan.engine(first[0]) is Engine.MMA and plan.engine(second[0]) is Engine.MMA:
        if unrolled.events[start].actor == unrolled.events[end].actor:
            end = unrolled.end[second]
    return start, end
