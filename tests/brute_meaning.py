"""What the actions of a kernel's text touch and which values they should find there.

The second half of the brute force of `brute_force.py`, and like it on its own: overlap trees are
laid out here, and the meaning of attention is written down here. A value is known by who wrote it
(`("s", group, step)` are the scores of a group's step, steps counted over all tiles). Ops are told
apart by the arrays and tensors that they name and counted in program order: the third matmul of
group 1 into the accumulator is that of the third step, so it must find the third `p` and `v`.
The schedules under test therefore call their buffers q, s, p, alpha, row_sum, row_max, acc and out;
k and v may lie in any ring, they are known by the tensor that is loaded.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from jfagen.readback.trace import ActionKind, Trace

#: Columns of tensor memory are 32 bits wide.
COLUMN_BYTES = 4
NOTHING = None


@dataclass(slots=True)
class Touch:
    """Some accesses that one role or engine makes at once, in order.

    Each is (writes, cells, value, line): the value that is written, or that must be found.
    """

    accesses: list[tuple[bool, tuple[int, ...], object, int]] = field(default_factory=list)


class Cells:
    """Numbers the smallest pieces of memory that no two accesses cut differently."""

    def __init__(self, trace: Trace) -> None:
        self.tiles = trace.tiles
        self.base: dict[str, tuple[str, int]] = {}
        for space, tree in trace.overlaps.items():
            for array, offset in self._leaves(tree):
                self.base[array] = (space, offset)
        for array in trace.tiles:
            self.base.setdefault(array, (array, 0))
        self.cuts: dict[str, set[int]] = defaultdict(set)
        for actions in trace.actions.values():
            for action in actions:
                for region in (*action.reads, *action.writes):
                    self.cuts[self.base[region.array][0]] |= set(self._range(region))
        self.sorted = {root: sorted(cuts) for root, cuts in self.cuts.items()}
        self.numbers: dict[tuple[str, int, int], int] = {}
        self.known: dict[object, tuple[int, ...]] = {}

    def of(self, region) -> tuple[int, ...]:
        """Return the cells of a region of one tile."""
        if region not in self.known:
            root = self.base[region.array][0]
            start, stop = self._range(region)
            self.known[region] = tuple(
                self.numbers.setdefault((root, region.copy, cut), len(self.numbers))
                for cut in self.sorted[root]
                if start <= cut < stop
            )
        return self.known[region]

    def bytes(self, array: str) -> int:
        """Return what a load of a whole tile brings."""
        size = self.tiles[array].element_bytes
        for extent in self.tiles[array].shape:
            size *= extent
        return size

    def _range(self, region) -> tuple[int, int]:
        tiles, offset = self.tiles[region.array], self.base[region.array][1]
        if tiles.storage != "tmem":
            return offset, offset + self.bytes(region.array)
        first = region.start * tiles.element_bytes // COLUMN_BYTES
        last = -(-region.stop * tiles.element_bytes // COLUMN_BYTES)
        return offset + first, offset + max(last, first + 1)

    def _size(self, tree) -> int:
        if isinstance(tree, str):
            tiles = self.tiles[tree]
            if tiles.storage != "tmem":
                return self.bytes(tree)
            return max(1, tiles.shape[-1] * tiles.element_bytes // COLUMN_BYTES)
        kind, parts = tree
        sizes = [self._size(part) for part in parts]
        return max(sizes) if kind == "shared" else sum(sizes)

    def _leaves(self, tree, start: int = 0) -> list[tuple[str, int]]:
        """Return arrays and offsets: shared parts start together, distinct ones are aligned."""
        if isinstance(tree, str):
            return [(tree, start)]
        kind, parts = tree
        found: list[tuple[str, int]] = []
        for part in parts:
            size = self._size(part)
            at = start if kind == "shared" else -(-start // size) * size
            found += self._leaves(part, at)
            start = start if kind == "shared" else at + size
        return found


class Meaning:
    """Says which value every access of one role finds or leaves, from the sequential program."""

    def __init__(self, trace: Trace, groups: int, replica: int) -> None:
        self.tiles = trace.tiles
        self.groups, self.replica = groups, replica
        self.counts: dict[object, int] = defaultdict(int)
        self.tile_of: list[int] = []
        self.last: list[int] = []
        for steps in trace.trips:
            if steps:
                self.tile_of += [len(self.last)] * steps
                self.last.append(len(self.tile_of) - 1)
        self.later = [step for step in range(len(self.tile_of)) if not self.is_first(step)]
        self.pieces = len(
            {
                action.reads[0].start
                for actions in trace.actions.values()
                for action in actions
                if action.kind is ActionKind.MMA
                and not action.joined
                and action.writes[0].array == "acc_tiles"
            }
        )

    def is_first(self, step: int) -> bool:
        """Whether a step is the first of its tile."""
        return step == 0 or self.tile_of[step] != self.tile_of[step - 1]

    def group(self, region) -> int:
        """Return the group to which a copy of a tile belongs."""
        return region.copy // max(1, self.tiles[region.array].number // self.groups)

    def next(self, *key) -> int:
        """Return how often this was asked for."""
        self.counts[key] += 1
        return self.counts[key] - 1

    def load(self, action) -> object:
        """Return the value that a load brings."""
        region = action.writes[0]
        name = action.tensor.removesuffix("_desc")
        group = self.group(region) if name == "q" else 0
        return (name, group, self.next("load", name, group))

    def mma(self, action) -> tuple[list[object], object, object]:
        """Return what the operands are, what the accumulator holds before, and afterwards."""
        target = action.writes[0]
        group = self.group(target)
        if target.array == "s_tiles":
            step = self.next("qk", group)
            tile = self.tile_of[step] if step < len(self.tile_of) else -1
            return [("q", group, tile), ("k", 0, step)], NOTHING, ("s", group, step)
        left = action.reads[0]
        piece = left.start // (left.stop - left.start)
        step = self.next("pv", group, left.start)
        before: object = ("acc", group, step, "pv", piece - 1)
        if not piece:
            fresh = step < len(self.tile_of) and self.is_first(step)
            before = NOTHING if fresh else ("acc", group, step, "rescale")
        if action.accumulates is (before is NOTHING):
            before = ("never",)
        return [("p", group, step), ("v", 0, step)], before, ("acc", group, step, "pv", piece)

    def joined(self, action) -> list[object]:
        """Return what the operands in SMEM are of a matmul whose result lies in registers."""
        group = self.replica
        if len(action.reads) == 1:
            return [("v", 0, self.next("pv", group))]
        step = self.next("qk", group)
        tile = self.tile_of[step] if step < len(self.tile_of) else -1
        return [("q", group, tile), ("k", 0, step)]

    def read(self, action, following) -> object:
        """Return what the warps must find; `following` is the action after this one."""
        region = action.reads[0]
        group, name = self.group(region), region.array.removesuffix("_tiles")
        if name != "acc":
            return (name, group, self.next("read", name, group))
        number = self.next("read", self.rewrites(following), group, region.start)
        if self.rewrites(following):
            step = self.later[number] - 1 if number < len(self.later) else -9
        else:
            step = self.last[number] if number < len(self.last) else -9
        return ("acc", group, step, "pv", self.pieces - 1)

    @staticmethod
    def rewrites(following) -> bool:
        """Whether a read of the accumulator is that of a rescale."""
        return (
            following is not None
            and following.kind is ActionKind.WRITE
            and (following.writes[0].array == "acc_tiles")
        )

    def write(self, action) -> object:
        """Return what the warps leave."""
        region = action.writes[0]
        group, name = self.group(region), region.array.removesuffix("_tiles")
        if name == "acc":
            number = self.next("write", name, group, region.start)
            step = self.later[number] if number < len(self.later) else -9
            return ("acc", group, step, "rescale")
        if name == "out" and "acc_tiles" in self.tiles:
            return (name, group, self.counts["read", False, group, 0] - 1)
        return (name, group, self.next("write", name, group, region.start))

    def stored(self, action) -> object:
        """Return what a store to global memory must find."""
        region = action.reads[0]
        return ("out", self.group(region), self.next("store", self.group(region)))
