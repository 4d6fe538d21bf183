"""Where buffers lie relative to each other: the part of a placement that dependences need."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from ..semantics.program import Buffer, Program
from ..semantics.regions import Arrangement, Beside, Leaf, Over, leaves
from ..types import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """One copy of a buffer inside one copy of its root.

    Attributes:
        root: the outermost buffer of the tree in which it lies; its own name if it lies alone.
        start: first TMEM column or SMEM byte, counted from the root's first.
        stop: one past the last.
    """

    root: str
    start: int
    stop: int

    def overlaps(self, other: Extent) -> bool:
        """Return whether the two share memory."""
        return self.root == other.root and self.start < other.stop and other.start < self.stop


@dataclass(frozen=True, slots=True)
class Layout:
    """The extents of all buffers that are not registers.

    Attributes:
        trees: one arrangement for each root, in the order in which roots are placed.
        extents: buffer name -> its extent.
        sizes: root name -> columns or bytes of one copy.
    """

    trees: tuple[Arrangement, ...]
    extents: dict[str, Extent]
    sizes: dict[str, int]

    def overlapping(self) -> tuple[tuple[str, str], ...]:
        """Return the pairs of buffers that share memory, in the order in which they are placed."""
        return tuple(
            (one, other)
            for one, other in combinations(self.extents, 2)
            if self.extents[one].overlaps(self.extents[other])
        )

    def slice_range(self, buffer: Buffer, piece: int) -> tuple[int, int]:
        """Return the range of one column slice, or of all of them for -1."""
        extent = self.extents[buffer.name]
        if piece < 0:
            return extent.start, extent.stop
        width = (extent.stop - extent.start) // buffer.slices
        return extent.start + piece * width, extent.start + (piece + 1) * width


def size_in(buffer: Buffer) -> int:
    """Return the size of one copy in the unit of its memory: columns or bytes."""
    return buffer.columns if buffer.storage is Storage.TMEM else buffer.bytes


def make_layout(program: Program, trees: tuple[Arrangement, ...]) -> Layout:
    """Return the extents that follow from `trees`; buffers in no tree lie alone.

    Parts of `Over` start together; parts of `Beside` follow each other, each aligned to its own
    size, as `reuse_group` lays them out.
    """
    inside = {leaf.buffer for tree in trees for leaf in leaves(tree)}
    alone = tuple(
        Leaf(buffer=buffer.name, span=buffer.span)
        for buffer in program.buffers
        if buffer.storage is not Storage.REG and buffer.name not in inside
    )
    extents: dict[str, Extent] = {}
    sizes: dict[str, int] = {}
    forest = tuple(sorted(trees + alone, key=lambda tree: _declared(program, tree)))
    for tree in forest:
        root = leaves(tree)[0].buffer
        sizes[root] = _lay_out(program, tree, root, 0, extents)
    return Layout(trees=forest, extents=extents, sizes=sizes)


def _declared(program: Program, tree: Arrangement) -> int:
    names = [buffer.name for buffer in program.buffers]
    return min(names.index(leaf.buffer) for leaf in leaves(tree))


def _lay_out(
    program: Program, tree: Arrangement, root: str, start: int, extents: dict[str, Extent]
) -> int:
    if isinstance(tree, Leaf):
        stop = start + size_in(program.buffer(tree.buffer))
        extents[tree.buffer] = Extent(root=root, start=start, stop=stop)
        return stop
    if isinstance(tree, Over):
        return max(_lay_out(program, part, root, start, extents) for part in tree.parts)
    cursor = start
    for part in tree.parts:
        width = _width(program, part)
        cursor = -(-cursor // width) * width
        cursor = _lay_out(program, part, root, cursor, extents)
    return cursor


def _width(program: Program, tree: Arrangement) -> int:
    match tree:
        case Leaf():
            return size_in(program.buffer(tree.buffer))
        case Over():
            return max(_width(program, part) for part in tree.parts)
        case Beside():
            return sum(_width(program, part) for part in tree.parts)
