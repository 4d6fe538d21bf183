"""SMEM and TMEM of one CTA as real bytes, and the views that kernels index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from .dtypes import Array, DType, to_held, to_stored
from .report import MachineFault
from .values import Value

SMEM_BYTES = 232_448
TMEM_LANES = 128
TMEM_COLUMNS = 512
_MBARRIER_BYTES = 8
_SMEM_ALIGNMENT = 128


class Storage(StrEnum):
    """Where a buffer lies."""

    SMEM = "smem"
    TMEM = "tmem"


class Region:
    """`rows` runs of `width` bytes, `pitch` bytes apart, the first at byte `start`.

    In TMEM `rows` counts lanes from lane 0 and `start` the bytes inside a lane; `pitch` is 0.
    """

    __slots__ = ("pitch", "rows", "start", "stop", "width")

    def __init__(self, start: int, rows: int, pitch: int, width: int) -> None:
        self.start = start
        self.rows = rows
        self.pitch = pitch
        self.width = width
        self.stop = start + (rows - 1) * pitch + width

    def overlaps(self, other: Region) -> bool:
        """Tell whether both hold a common byte."""
        if self.start >= other.stop or other.start >= self.stop:
            return False
        if not self.pitch or (self.rows == 1 and other.rows == 1):
            return True
        if self.pitch == other.pitch and self.rows > 1 and other.rows > 1:
            return _overlap_same_pitch(self, other)
        if self.rows == 1 or other.rows == 1:
            run, strided = (self, other) if self.rows == 1 else (other, self)
            first = max(0, -((strided.start + strided.width - 1 - run.start) // strided.pitch))
            return first < strided.rows and strided.start + first * strided.pitch < run.stop
        runs = (Region(other.start + r * other.pitch, 1, 1, other.width) for r in range(other.rows))
        return any(self.overlaps(run) for run in runs)

    def covers(self, other: Region) -> bool:
        """Tell whether every byte of `other` is surely in here."""
        if not self.pitch or self.rows == 1:
            inside = self.start <= other.start and other.stop <= self.stop
            return inside and (bool(self.pitch) or self.rows >= other.rows)
        if other.rows > 1 and self.pitch != other.pitch:
            return False
        row, column = divmod(other.start - self.start, self.pitch)
        return 0 <= row and row + other.rows <= self.rows and column + other.width <= self.width


def _overlap_same_pitch(a: Region, b: Region) -> bool:
    row, column = divmod(b.start - a.start, a.pitch)
    for shift, offset in ((row, column), (row + 1, column - a.pitch)):
        rows_meet = -b.rows < shift < a.rows
        if rows_meet and offset < a.width and offset + b.width > 0:
            return True
    return False


@dataclass(slots=True, eq=False)
class View:
    """One slot of a buffer, or a part of it: its elements in memory and the bytes they take."""

    array: Array
    dtype: DType
    storage: Storage
    region: Region
    name: str
    label: str
    memory: Memory
    # A pair's accumulator of 64 rows a CTA: the right half of its columns lies in lanes 64 to 127.
    folded: bool = False

    @property
    def shape(self) -> list[int]:
        """Return the sizes of the view."""
        if self.folded:
            return [self.array.shape[0], 2 * self.array.shape[2]]
        return list(self.array.shape)

    def load(self) -> Array:
        """Return a register copy of the elements."""
        return to_held(self.array, self.dtype).reshape(self.shape)

    def store(self, held: Array) -> None:
        """Change the elements to register values of the view's type."""
        self.array[...] = to_stored(held, self.dtype).reshape(self.array.shape)

    def in_memory(self, other: Memory) -> View:
        """Return the same place in the memory of another CTA."""
        mine, theirs = (
            memory.smem if self.storage is Storage.SMEM else memory.tmem
            for memory in (self.memory, other)
        )
        offset = self.array.ctypes.data - mine.ctypes.data
        flat = theirs.reshape(-1).view(np.uint8)[offset:].view()
        typed = np.ndarray(
            self.array.shape, self.array.dtype, flat.data, strides=self.array.strides
        )
        return replace(self, array=typed, memory=other)

    def __getitem__(self, index: Value) -> View:
        raise MachineFault("index", f"`{self.name}` is one slot already")


class Memory:
    """The SMEM and TMEM of one CTA; everything starts as NaN bits."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.smem = np.full(SMEM_BYTES, 0xFF, np.uint8)
        self.tmem = np.full((TMEM_LANES, TMEM_COLUMNS), 0xFFFFFFFF, np.uint32)
        self.roots: list[Root] = []
        self.smem_used = 0
        self.columns_used = 0
        self.barrier_bytes = 0

    def add_barriers(self, count: int, extra: int = 0) -> None:
        """Count the bytes of mbarriers and CLC responses."""
        self.barrier_bytes += count * _MBARRIER_BYTES + extra

    def place(self) -> None:
        """Give every allocation its place, in order of declaration.

        Raises:
            MachineFault: SMEM or TMEM is too small.
        """
        for root in self.roots:
            if root.base is not None:
                continue
            if root.storage is Storage.SMEM:
                start = -(-self.smem_used // _SMEM_ALIGNMENT) * _SMEM_ALIGNMENT
                root.base, self.smem_used = start, start + root.size
            else:
                root.base, self.columns_used = self.columns_used, self.columns_used + root.size
        if self.columns_used > TMEM_COLUMNS:
            raise MachineFault(
                "tmem-capacity", f"{self.columns_used} TMEM columns of {TMEM_COLUMNS} are needed"
            )
        total = self.smem_used + self.barrier_bytes
        if total > SMEM_BYTES:
            raise MachineFault("smem-capacity", f"{total} SMEM bytes of {SMEM_BYTES} are needed")

    def smem_view(self, start: int, shape: tuple[int, ...], dtype: DType) -> tuple[Array, Region]:
        """Return the elements of a row-major SMEM tile and the bytes that it takes."""
        size = int(np.prod(shape)) * dtype.itemsize
        array = self.smem[start : start + size].view(dtype.stored).reshape(shape)
        return array, Region(start, 1, size, size)

    def tmem_view(self, column: int, shape: tuple[int, ...], dtype: DType) -> tuple[Array, Region]:
        """Return the elements of a TMEM tile of (lanes, elements) and the bytes that it takes."""
        lanes, elements = shape
        width = tmem_columns(elements, dtype)
        array = self.tmem[:lanes, column : column + width].view(dtype.stored)[:, :elements]
        return array, Region(column * 4, lanes, 0, elements * dtype.itemsize)


def tmem_columns(elements: int, dtype: DType) -> int:
    """Return the 32-bit columns that a row of elements takes."""
    return -(-elements * dtype.itemsize // 4)


@dataclass(slots=True, eq=False)
class Root:
    """One backing allocation: bytes of SMEM or columns of TMEM, `base` once it is placed."""

    storage: Storage
    size: int
    base: int | None = None


@dataclass(slots=True, eq=False)
class Buffer:
    """An allocation of `num` equal tiles; indexing gives one slot."""

    memory: Memory
    root: Root
    name: str
    shape: tuple[int, ...]
    dtype: DType
    num: int
    storage: Storage
    # Where slot i starts in the root: width * (scale * i + offset + i % group) units.
    width: int
    scale: int = 1
    offset: int = 0
    group: int = 1
    folded: bool = False

    def start(self, index: int) -> int:
        """Return the first byte or column of a slot inside the root."""
        return self.width * (self.scale * index + self.offset + index % self.group)

    def grow_root(self) -> None:
        """Make the backing allocation large enough for the last slots."""
        end = (
            max(self.start(i) for i in range(max(0, self.num - self.group), self.num)) + self.width
        )
        if end > self.root.size:
            if self.root.base is not None:
                raise MachineFault("alias", f"`{self.name}` grows storage that is in use already")
            self.root.size = end

    def __getitem__(self, index: Value) -> View:
        slot = int(index)
        if not 0 <= slot < self.num:
            raise MachineFault("index", f"`{self.name}[{slot}]` has {self.num} slots")
        if self.root.base is None:
            self.memory.place()
        start = (self.root.base or 0) + self.start(slot)
        make = self.memory.smem_view if self.storage is Storage.SMEM else self.memory.tmem_view
        if self.folded:
            lanes, elements = self.shape
            array, region = make(start, (2 * lanes, elements // 2), self.dtype)
            array = array.reshape(2, lanes, elements // 2).transpose(1, 0, 2)
        else:
            array, region = make(start, self.shape, self.dtype)
        return View(
            array=array,
            dtype=self.dtype,
            storage=self.storage,
            region=region,
            name=self.name,
            label=f"{self.name}[{slot}]",
            memory=self.memory,
            folded=self.folded,
        )
