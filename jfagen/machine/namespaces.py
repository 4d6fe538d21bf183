"""The names that device code sees: `tl`, `tlx`, `triton` and the builtins, bound to one launch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from .alias import GroupType
from .buffer_ops import BUFFER_OPS
from .clc import CLC_OPS
from .dtypes import INT1, LANGUAGE_NAMES, to_held, to_stored
from .global_memory import Pointer, load, store
from .language import LANGUAGE, MATH, cdiv, counted, largest, smallest
from .machine import Machine
from .memory import Storage
from .mma import MMA_OPS
from .remote import REMOTE_OPS
from .report import MachineFault
from .roles import ROLE_OPS
from .scalars import Int32, Int64, as_dtype
from .sync_ops import SYNC_OPS
from .tensor import operand
from .timeline import SHOWN, logged
from .tma import TMA_OPS, Descriptor, make_descriptor
from .values import Value
from .wgmma import WGMMA_OPS


class Namespace:
    """A module as device code sees it; a name that it lacks is a fault."""

    def __init__(self, name: str, members: dict[str, Value]) -> None:
        self.__dict__.update(members)
        self._namespace_name = name

    def __getattr__(self, name: str) -> Value:
        raise MachineFault("unknown-op", f"`{self._namespace_name}.{name}` is not known")


def dtype_of(machine: Machine, v: Value) -> Value:
    """Return the element type of a tensor, a pointer, a buffer or a descriptor."""
    return as_dtype(v.element if isinstance(v, Pointer) else v.dtype)


def size_of(machine: Machine, dtype: Value) -> int:
    """Return the bytes of one element."""
    return as_dtype(dtype).itemsize


def cluster_cta_rank(machine: Machine) -> Value:
    """Return the number of the CTA in its cluster."""
    return Int32(machine.cta.rank)


def cluster_size_1d(machine: Machine) -> Value:
    """Return the CTAs of a cluster."""
    return Int32(machine.cluster_size)


def clock64(machine: Machine) -> Value:
    """Return a number that grows: the scheduler's steps."""
    return Int64(machine.scheduler.steps)


def prefetch(machine: Machine, *_: Value, **__: Value) -> None:
    """Do nothing: a hint."""


def async_descriptor_prefetch_tensor(machine: Machine, *_: Value, **__: Value) -> None:
    """Do nothing: a hint."""


_OTHER_OPS = {
    function.__name__: function
    for function in (
        *(dtype_of, size_of, cluster_cta_rank, cluster_size_1d, clock64),
        *(prefetch, async_descriptor_prefetch_tensor),
    )
}
TLX_OPS: dict[str, Callable[..., Value]] = {
    **BUFFER_OPS,
    **SYNC_OPS,
    **TMA_OPS,
    **MMA_OPS,
    **WGMMA_OPS,
    **CLC_OPS,
    **ROLE_OPS,
    **REMOTE_OPS,
    **_OTHER_OPS,
}
TLX_CALLS = frozenset(TLX_OPS)

_STORAGE_KIND = Namespace("tlx.storage_kind", {"smem": Storage.SMEM, "tmem": Storage.TMEM})
_GROUP_TYPE = Namespace(
    "tlx.reuse_group_type", {"shared": GroupType.SHARED, "distinct": GroupType.DISTINCT}
)


def _coordinates(machine: Machine) -> tuple[int, int, int]:
    number, (width, height, _) = machine.cta.number, machine.grid
    return number % width, number // width % height, number // (width * height)


def _program_id(machine: Machine, axis: Value) -> Value:
    return Int32(_coordinates(machine)[int(axis)])


def _num_programs(machine: Machine, axis: Value) -> Value:
    return Int32(machine.grid[int(axis)])


def _load(
    machine: Machine, pointer: Pointer, mask: Value = None, other: Value = None, **_: Value
) -> Value:
    return load(pointer, mask, other)


def _store(
    machine: Machine, pointer: Pointer, value: Value, mask: Value = None, **_: Value
) -> None:
    store(pointer, value, mask, machine.place())


def _atomic_add(
    machine: Machine, pointer: Pointer, val: Value, mask: Value = None, **_: Value
) -> Value:
    old = load(pointer, mask, 0)
    dtype, shape = pointer.element, np.shape(pointer.offset)
    keep = np.broadcast_to(operand(True if mask is None else mask, INT1).data, shape)
    offsets = np.atleast_1d(pointer.offset)[np.atleast_1d(keep)]
    values = np.atleast_1d(np.broadcast_to(operand(val, dtype).data, shape))[np.atleast_1d(keep)]
    elements = pointer.store.elements(dtype)
    # All at once where no element is hit twice: one by one is slow for a whole tile.
    if np.unique(offsets).size == offsets.size:
        elements[offsets] = to_stored(to_held(elements[offsets], dtype) + values, dtype)
    else:
        for offset, value in zip(offsets.tolist(), values, strict=True):
            total = to_held(elements[offset : offset + 1], dtype) + value
            elements[offset : offset + 1] = to_stored(total, dtype)
    machine.scheduler.pause()
    return old


def _make_tensor_descriptor(
    machine: Machine,
    base: Pointer,
    shape: Value,
    strides: Value,
    block_shape: Value,
    padding_option: str = "zero",
) -> Descriptor:
    return make_descriptor(machine, base, shape, strides, block_shape, padding_option)


_BOUND_LANGUAGE: dict[str, Callable[..., Value]] = {
    "program_id": _program_id,
    "num_programs": _num_programs,
    "load": _load,
    "store": _store,
    "atomic_add": _atomic_add,
    "make_tensor_descriptor": _make_tensor_descriptor,
}


def language_namespace(machine: Machine) -> Namespace:
    """Return `tl` for one launch."""
    bound = {name: partial(function, machine) for name, function in _BOUND_LANGUAGE.items()}
    math = Namespace("tl.math", MATH)
    if machine.timeline is not None:
        for name in ("store", "atomic_add"):
            bound[name] = partial(logged, machine, f"tl.{name}", bound[name])
    return Namespace("tl", {**LANGUAGE, **LANGUAGE_NAMES, **bound, "math": math})


def tlx_namespace(machine: Machine) -> Namespace:
    """Return `tlx` for one launch."""
    bound = {name: partial(function, machine) for name, function in TLX_OPS.items()}
    if machine.timeline is not None:
        for name in sorted(SHOWN):
            bound[name] = partial(logged, machine, name, bound[name])
    kinds = {"storage_kind": _STORAGE_KIND, "reuse_group_type": _GROUP_TYPE}
    return Namespace("tlx", {**bound, **kinds})


def triton_namespace() -> Namespace:
    """Return what device code may use of `triton` itself."""
    power = Namespace("triton", {"cdiv": cdiv, "next_power_of_2": _next_power_of_2})
    return power


def _next_power_of_2(value: Value) -> int:
    return 1 << (int(value) - 1).bit_length()


DEVICE_BUILTINS: dict[str, Value] = {"range": counted, "min": smallest, "max": largest}
