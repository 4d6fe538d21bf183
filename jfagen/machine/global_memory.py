"""Global memory: torch tensors as flat bytes, pointers into them, and who wrote which element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .dtypes import TORCH_NAMES, Array, DType, convert, to_held, to_stored
from .report import MachineFault, Place
from .scalars import make_scalar
from .tensor import Tensor, operand
from .values import Value


class GlobalStore:
    """The bytes behind one torch storage, and for each element which store wrote it."""

    def __init__(self, flat: Array) -> None:
        self.flat = flat
        self._writers: dict[int, Array] = {}
        self._places: list[Place] = []

    def elements(self, dtype: DType) -> Array:
        """Return all elements of the storage in their stored form."""
        size = self.flat.size // dtype.itemsize * dtype.itemsize
        return self.flat[:size].view(dtype.stored)

    def note_write(self, where: Value, dtype: DType, place: Place) -> None:
        """Remember that elements were stored; `where` indexes the flat elements.

        Raises:
            MachineFault: an element was stored before.
        """
        marks = self.writer_marks(dtype)
        self.note_marks(marks[where], place)
        self._places.append(place)
        marks[where] = len(self._places)

    def writer_marks(self, dtype: DType) -> Array:
        """Return the array that holds for each element the number of the store that wrote it."""
        if dtype.itemsize not in self._writers:
            self._writers[dtype.itemsize] = np.zeros(self.flat.size // dtype.itemsize, np.int32)
        return self._writers[dtype.itemsize]

    def note_marks(self, marks: Array, place: Place) -> None:
        """Check that none of these elements was stored before.

        Raises:
            MachineFault: one was.
        """
        if not marks.any():
            return
        first = self._places[int(marks[marks != 0].flat[0]) - 1]
        raise MachineFault(
            "double-write",
            f"{int(np.count_nonzero(marks))} elements of a global tensor are stored a second time;"
            f" first by {first.text()}",
        )

    def add_place(self, place: Place) -> int:
        """Return a new number for a store."""
        self._places.append(place)
        return len(self._places)


@dataclass(frozen=True, slots=True)
class PointerType:
    """The type of an address."""

    element_ty: DType


class Pointer:
    """One address or a tensor of addresses; `offset` counts elements from the storage's start."""

    __slots__ = ("element", "offset", "store")

    def __init__(self, store: GlobalStore, element: DType, offset: Value) -> None:
        self.store = store
        self.element = element
        self.offset = offset

    @property
    def dtype(self) -> PointerType:
        """Return the type of the address."""
        return PointerType(self.element)

    @property
    def shape(self) -> list[int]:
        """Return the sizes of the tensor of addresses."""
        return list(np.shape(self.offset))

    def _moved(self, amount: Value, sign: int) -> Pointer:
        if isinstance(amount, Tensor):
            return Pointer(
                self.store, self.element, self.offset + sign * amount.data.astype(np.int64)
            )
        return Pointer(self.store, self.element, self.offset + sign * int(amount))

    def __add__(self, amount: Value) -> Pointer:
        return self._moved(amount, 1)

    __radd__ = __add__

    def __sub__(self, amount: Value) -> Pointer:
        return self._moved(amount, -1)

    def __getitem__(self, key: Value) -> Pointer:
        return Pointer(self.store, self.element, self.offset[key])

    def checked(self, offsets: Value, action: str) -> Value:
        """Return offsets after a bounds check.

        Raises:
            MachineFault: one lies outside the tensor's storage.
        """
        count = self.store.flat.size // self.element.itemsize
        low, high = (int(offsets.min()), int(offsets.max())) if np.ndim(offsets) else (offsets,) * 2
        if low < 0 or high >= count:
            raise MachineFault(
                "out-of-bounds", f"{action} of elements {low} to {high} of a tensor of {count}"
            )
        return offsets


def _mask_array(mask: Value, shape: tuple[int, ...]) -> Array:
    data = operand(mask, TORCH_NAMES["bool"]).data
    return np.broadcast_to(data, shape)


def load(pointer: Pointer, mask: Value = None, other: Value = None) -> Value:
    """Return the elements at the addresses; masked ones are `other`, or poison without it.

    Raises:
        MachineFault: an address that is not masked lies outside the tensor.
    """
    elements = pointer.store.elements(pointer.element)
    if not np.ndim(pointer.offset):
        if mask is not None and not mask:
            return make_scalar(0 if other is None else other, pointer.element)
        stored = elements[pointer.checked(pointer.offset, "load")]
        return make_scalar(to_held(np.asarray(stored), pointer.element).item(), pointer.element)
    if mask is None:
        offsets = pointer.checked(pointer.offset, "load")
        return Tensor(to_held(elements[offsets], pointer.element), pointer.element)
    keep = _mask_array(mask, np.broadcast_shapes(pointer.offset.shape, np.shape(mask.data)))
    offsets = np.broadcast_to(pointer.offset, keep.shape)
    poison = np.nan if pointer.element.is_float else -1
    fill = operand(poison if other is None else other, pointer.element)
    filled = convert(fill.data, fill.dtype, pointer.element)
    result = np.array(np.broadcast_to(filled, keep.shape), pointer.element.held)
    if keep.any():
        chosen = pointer.checked(offsets[keep], "load")
        result[keep] = to_held(elements[chosen], pointer.element)
    return Tensor(result, pointer.element)


def store(pointer: Pointer, value: Value, mask: Value, place: Place) -> None:
    """Store elements at the addresses.

    Raises:
        MachineFault: an address that is not masked lies outside the tensor, or was stored before.
    """
    given = operand(value, pointer.element)
    held = convert(given.data, given.dtype, pointer.element)
    shape = np.broadcast_shapes(np.shape(pointer.offset), held.shape)
    offsets = np.broadcast_to(np.asarray(pointer.offset), shape)
    values = np.broadcast_to(to_stored(held, pointer.element), shape)
    if mask is not None:
        keep = _mask_array(mask, shape)
        offsets, values = offsets[keep], values[keep]
    if not offsets.size:
        return
    offsets = pointer.checked(np.atleast_1d(offsets), "store")
    pointer.store.note_write(offsets, pointer.element, place)
    pointer.store.elements(pointer.element)[offsets] = np.atleast_1d(values)


class GlobalMemory:
    """All storages that a launch was given, each once."""

    def __init__(self) -> None:
        self._stores: dict[int, GlobalStore] = {}
        self._kept: list[Value] = []

    def store_of(self, tensor: Value) -> GlobalStore:
        """Return the storage behind a torch tensor."""
        import torch

        storage = tensor.untyped_storage()
        key = storage.data_ptr()
        if key not in self._stores or not key:
            flat = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
            self._stores[key] = GlobalStore(flat)
            self._kept.append(storage)
        return self._stores[key]

    def pointer(self, tensor: Value) -> Pointer:
        """Return the address of a torch tensor's first element."""
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in TORCH_NAMES:
            raise MachineFault("unknown-type", f"tensors of {tensor.dtype} are not known")
        return Pointer(self.store_of(tensor), TORCH_NAMES[name], int(tensor.storage_offset()))
