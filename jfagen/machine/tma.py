"""TMA: descriptors, and the loads and stores that complete later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from .barriers import Slot
from .dtypes import FLOAT32, Array, DType, convert, to_held, to_stored
from .global_memory import GlobalStore, Pointer
from .machine import Machine
from .memory import Storage, View
from .report import MachineFault, Place
from .scheduler import Operation
from .tensor import Tensor, operand
from .values import Value

_ADDRESS_SPACE = 1 << 64


class Padding(StrEnum):
    """What a load gives for the elements of a box outside the tensor."""

    ZERO = "zero"
    NAN = "nan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The part of a tile inside the tensor: where in the tile and where in global memory."""

    tile: tuple[slice, ...]
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A tensor map: sizes and strides in elements, the box that one access moves."""

    machine: Machine
    memory: GlobalStore
    dtype: DType
    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block_shape: tuple[int, ...]
    padding: Padding = Padding.ZERO

    @property
    def bytes(self) -> int:
        """Return the bytes of a full box, which is what a load always counts."""
        return int(np.prod(self.block_shape)) * self.dtype.itemsize

    def box(self, coordinates: Sequence[int]) -> Box | None:
        """Return the part of the box at these coordinates that is inside, or nothing.

        Addresses wrap at 64 bits as in hardware; the ragged descriptors rely on it.

        Raises:
            MachineFault: the part lies outside the tensor's storage.
        """
        tile, sizes, address = [], [], 0
        for start, size, whole, stride in zip(
            coordinates, self.block_shape, self.shape, self.strides, strict=True
        ):
            low, high = max(0, -start), min(size, whole - start)
            if low >= high:
                return None
            tile.append(slice(low, high))
            sizes.append(high - low)
            address += (start + low) * stride * self.dtype.itemsize
        address = (address + self.base * self.dtype.itemsize) % _ADDRESS_SPACE
        if address >= _ADDRESS_SPACE // 2:
            address -= _ADDRESS_SPACE
        steps = [s if n > 1 else 0 for s, n in zip(self.strides, sizes, strict=True)]
        offset, rest = divmod(address, self.dtype.itemsize)
        last = offset + sum(step * (size - 1) for step, size in zip(steps, sizes, strict=True))
        count = self.memory.flat.size // self.dtype.itemsize
        if rest or offset < 0 or last >= count:
            raise MachineFault(
                "out-of-bounds",
                f"TMA at {list(coordinates)} touches elements {offset} to {last} of {count}",
            )
        return Box(tile=tuple(tile), offset=offset, shape=tuple(sizes), strides=tuple(steps))

    def window(self, flat: Array, box: Box) -> Array:
        """Return the elements of a box as a view of flat elements."""
        strides = tuple(step * flat.itemsize for step in box.strides)
        return np.lib.stride_tricks.as_strided(flat[box.offset :], box.shape, strides)

    def read(self, coordinates: Sequence[int]) -> Array:
        """Return the stored elements of a full box; those outside are as `padding` says."""
        result = np.zeros(self.block_shape, self.dtype.stored)
        if self.padding is Padding.NAN:
            result[...] = to_stored(np.full(1, np.nan, self.dtype.held), self.dtype)
        box = self.box(coordinates)
        if box is not None:
            result[box.tile] = self.window(self.memory.elements(self.dtype), box)
        return result

    def write(self, coordinates: Sequence[int], tile: Array, reduce: str, place: Place) -> None:
        """Store or reduce the elements of a tile that lie inside.

        Raises:
            MachineFault: a plain store hits an element that was stored before.
        """
        box = self.box(coordinates)
        if box is None:
            return
        target = self.window(self.memory.elements(self.dtype), box)
        values = tile.reshape(self.block_shape)[box.tile]
        if not reduce:
            marks = self.window(self.memory.writer_marks(self.dtype), box)
            self.memory.note_marks(marks, place)
            marks[...] = self.memory.add_place(place)
            target[...] = values
            return
        combine = {"add": np.add, "min": np.fmin, "max": np.fmax}.get(reduce)
        if combine is None:
            raise MachineFault("unknown-op", f"store_reduce {reduce} is not known")
        total = combine(to_held(target, self.dtype), to_held(values, self.dtype))
        target[...] = to_stored(convert(total, FLOAT32, self.dtype), self.dtype)

    def load(self, coordinates: Sequence[Value]) -> Tensor:
        """Return a box in registers."""
        return Tensor(to_held(self.read([int(c) for c in coordinates]), self.dtype), self.dtype)

    def store(self, coordinates: Sequence[Value], value: Value) -> None:
        """Store a box from registers, at once."""
        tile = operand(value, self.dtype)
        stored = to_stored(convert(tile.data, tile.dtype, self.dtype), self.dtype)
        self.write([int(c) for c in coordinates], stored, "", self.machine.place())


def make_descriptor(
    machine: Machine, pointer: Pointer, shape: Value, strides: Value, block: Value, padding: str
) -> Descriptor:
    """Return the descriptor of a tensor at an address.

    Raises:
        MachineFault: the padding is not known.
    """
    if padding not in set(Padding):
        raise MachineFault("tma", f"padding `{padding}` is none of {', '.join(Padding)}")
    return Descriptor(
        machine=machine,
        memory=pointer.store,
        dtype=pointer.element,
        base=int(pointer.offset),
        shape=tuple(int(size) for size in shape),
        strides=tuple(int(stride) for stride in strides),
        block_shape=tuple(int(size) for size in block),
        padding=Padding(padding),
    )


def _check(desc: Descriptor, view: View, offsets: Sequence[Value]) -> list[int]:
    if not isinstance(desc, Descriptor) or not isinstance(view, View):
        raise MachineFault("tma", "TMA needs a descriptor and one slot of a buffer")
    box, tile = ([n for n in shape if n != 1] for shape in (desc.block_shape, view.shape))
    if view.storage is not Storage.SMEM or box != tile or view.dtype is not desc.dtype:
        raise MachineFault(
            "tma",
            f"a box {list(desc.block_shape)} of {desc.dtype} does not fit `{view.label}`"
            f" {view.shape} of {view.dtype} in {view.storage}",
        )
    if len(offsets) != len(desc.block_shape):
        raise MachineFault("tma", f"{len(offsets)} coordinates for a box {list(desc.block_shape)}")
    return [int(offset) for offset in offsets]


def async_descriptor_load(
    machine: Machine,
    desc: Descriptor,
    result: View,
    offsets: Sequence[Value],
    barrier: Slot,
    pred: Value = None,
    cache_modifier: str = "",
    eviction_policy: str = "",
    multicast_targets: Sequence[Value] = (),
    two_ctas: bool = False,
) -> None:
    """Load a box into SMEM later; the barrier then gets the bytes of the full box.

    With `two_ctas` the leader's copy of the barrier gets them; with targets every listed CTA gets
    the data at the same place and its own copy of the barrier the bytes.

    Raises:
        MachineFault: box and buffer differ, or the cluster has no such CTA.
    """
    coordinates = _check(desc, result, offsets)
    if pred is not None and not pred:
        return
    targets = [(result, barrier)]
    if two_ctas:
        leader, _ = machine.pair()
        targets = [(result, machine.slot_of(barrier, leader.rank))]
    elif multicast_targets:
        peers = [machine.peer(int(rank)) for rank in multicast_targets]
        targets = [
            (result.in_memory(peer.memory), machine.slot_of(barrier, peer.rank)) for peer in peers
        ]

    def run(operation: Operation) -> None:
        after = machine.touch_all(operation, [(view, True, "TMA load") for view, _ in targets])
        tile = desc.read(coordinates)
        for view, slot in targets:
            view.array[...] = tile.reshape(view.array.shape)
            slot.complete_bytes(desc.bytes, after)

    machine.submit(run)
    machine.scheduler.pause()


def async_descriptor_store(
    machine: Machine,
    desc: Descriptor,
    source: View,
    offsets: Sequence[Value],
    eviction_policy: str = "",
    store_reduce: str = "",
) -> None:
    """Store a box from SMEM later; what lies outside the tensor is not written.

    Raises:
        MachineFault: box and buffer differ.
    """
    coordinates = _check(desc, source, offsets)
    role = machine.role
    # The compiler fences in the issuing role right before the store.
    machine.cta.order.fence(machine.cta.number, machine.role.name)

    def run(operation: Operation) -> None:
        operation.before = machine.touch_all(operation, [(source, False, "TMA store")])
        desc.write(coordinates, source.array, store_reduce, operation.place)

    role.store_groups.append(machine.submit(run))
    machine.scheduler.pause()


def async_descriptor_store_wait(machine: Machine, pendings: Value) -> None:
    """Wait until all but the last `pendings` stores of this role have read their SMEM."""
    machine.drain(machine.role.store_groups, int(pendings), "TMA stores")


def async_load(
    machine: Machine,
    src: Pointer,
    result: View,
    mask: Value = None,
    other: Value = None,
    cache_modifier: str = "",
    eviction_policy: str = "",
    is_volatile: bool = False,
    bulk: bool = False,
    bulk_size: Value = None,
    barrier: Slot | None = None,
) -> None:
    """Copy consecutive bytes into a 1-D SMEM buffer later; only the bulk form is known.

    Raises:
        MachineFault: not bulk, not aligned to 16 bytes, or outside the tensor.
    """
    if not bulk or barrier is None or mask is not None:
        raise MachineFault("unknown-op", "async_load without bulk=True and a barrier")
    slot = barrier
    size = result.array.nbytes if bulk_size is None else int(bulk_size)
    count, start = size // result.dtype.itemsize, int(src.offset)
    if size % 16 or start * src.element.itemsize % 16:
        raise MachineFault("alignment", f"a bulk copy of {size} bytes from element {start}")
    src.checked(np.array([start, start + count - 1]), "bulk copy")

    def run(operation: Operation) -> None:
        after = machine.touch_all(operation, [(result, True, "bulk copy")])
        result.array[:count] = src.store.elements(src.element)[start : start + count]
        slot.complete_bytes(size, after)

    machine.submit(run)
    machine.scheduler.pause()


TMA_OPS = {
    function.__name__: function
    for function in (
        *(async_descriptor_load, async_descriptor_store, async_descriptor_store_wait, async_load),
    )
}
