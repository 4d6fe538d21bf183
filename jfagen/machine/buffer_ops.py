"""TLX calls that allocate, slice, load and store buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .alias import GroupType, Spec, make_group
from .dtypes import FLOAT32
from .machine import Machine
from .memory import TMEM_LANES, Buffer, Region, Root, Storage, View, tmem_columns
from .report import MachineFault, MachineStop, Race
from .scalars import as_dtype
from .tensor import Tensor, operand
from .values import Value


def _storage(value: Value) -> Storage:
    return Storage(str(getattr(value, "value", value)))


def storage_alias_spec(
    machine: Machine, storage: Value = Storage.SMEM, buffer_size_bytes: Value = None
) -> Spec:
    """Return one backing allocation that several buffers join."""
    kind = _storage(storage)
    root = Root(kind, 0)
    machine.cta.memory.roots.append(root)
    limit = None if buffer_size_bytes is None else int(buffer_size_bytes)
    return Spec(machine.name_here("alias spec"), kind, root, limit)


def local_alloc(
    machine: Machine,
    shape: Sequence[Value],
    dtype: Value,
    num: Value,
    storage: Value = Storage.SMEM,
    reuse: Buffer | Spec | None = None,
    layout: Value = None,
) -> Buffer:
    """Return `num` tiles of a shape; TMEM tiles are (64 or 128 lanes, elements).

    Raises:
        MachineFault: a TMEM tile of another shape, or `reuse` in another memory.
    """
    kind, sizes, element = _storage(storage), tuple(int(size) for size in shape), as_dtype(dtype)
    name, folded = machine.name_here("buffer"), False
    if kind is Storage.TMEM:
        if len(sizes) != 2 or sizes[0] not in (64, TMEM_LANES):
            raise MachineFault("tmem-shape", f"`{name}`: TMEM tiles have 64 or 128 lanes: {sizes}")
        # A pair keeps 64 rows a CTA in all 128 lanes, the right half of the columns below.
        folded = (
            machine.cluster_size > 1 and sizes[0] == 64 and element is FLOAT32 and sizes[1] > 31
        )
        width = tmem_columns(sizes[1] // 2 if folded else sizes[1], element)
    else:
        width = int(np.prod(sizes)) * element.itemsize
    memory = machine.cta.memory
    root = Root(kind, width * int(num)) if reuse is None else reuse.root
    buffer = Buffer(memory, root, name, sizes, element, int(num), kind, width, folded=folded)
    if reuse is None:
        memory.roots.append(root)
    elif isinstance(reuse, Spec):
        reuse.join(buffer)
    elif reuse.storage is not kind:
        raise MachineFault("alias", f"`{name}` and `{reuse.name}` differ in storage")
    else:
        buffer.grow_root()
    return buffer


def reuse_group(
    machine: Machine, *elements: Value, group_type: Value = GroupType.SHARED, group_size: Value = 1
) -> Value:
    """Return a group of buffers that lie over each other or side by side."""
    kind = GroupType(str(getattr(group_type, "value", group_type)))
    return make_group(*elements, group_type=kind, group_size=int(group_size))


def local_view(machine: Machine, buffers: Value, index: Value) -> Value:
    """Return one slot of a buffer or of a barrier array."""
    return buffers[index]


def _part(view: View, offset: Sequence[int], shape: Sequence[int]) -> View:
    if view.folded:
        raise MachineFault("slice", f"`{view.label}`: a pair's accumulator cannot be sliced")
    keys = tuple(slice(o, o + s) for o, s in zip(offset, shape, strict=True))
    for start, size, whole in zip(offset, shape, view.shape, strict=True):
        if start < 0 or size < 1 or start + size > whole:
            raise MachineFault("slice", f"`{view.label}` {view.shape} has no {shape} at {offset}")
    array = view.array[keys]
    base, last = view.region, view.dtype.itemsize
    if len(shape) != 2:
        raise MachineFault("slice", f"`{view.label}`: only two-dimensional tiles are sliced")
    pitch = base.pitch if view.storage is Storage.TMEM else abs(view.array.strides[0])
    if view.array.strides[1] != last:
        raise MachineFault("slice", f"`{view.label}`: a transposed tile is sliced")
    start = base.start + offset[0] * pitch + offset[1] * last
    width = shape[1] * last
    if width == pitch:
        region = Region(start, 1, shape[0] * pitch, shape[0] * pitch)
    else:
        region = Region(start, shape[0], pitch, width)
    extent = ", ".join(f"{o}:{o + s}" for o, s in zip(offset, shape, strict=True))
    return replace(view, array=array, region=region, label=f"{view.label}[{extent}]")


def subslice(machine: Machine, buffer: View, offset: Value, size: Value) -> View:
    """Return columns of a TMEM tile.

    Raises:
        MachineFault: the tile lies in SMEM, or has no such columns.
    """
    if buffer.storage is not Storage.TMEM:
        raise MachineFault("slice", f"`{buffer.label}`: subslice is for TMEM only")
    return _part(buffer, (0, int(offset)), (buffer.shape[0], int(size)))


def local_slice(
    machine: Machine, buffer: View, offset: Sequence[Value], shape: Sequence[Value]
) -> View:
    """Return a part of a tile; of a TMEM tile only full lanes."""
    offsets, sizes = [int(o) for o in offset], [int(s) for s in shape]
    if buffer.storage is Storage.TMEM and (offsets[0] or sizes[0] != buffer.shape[0]):
        raise MachineFault("slice", f"`{buffer.label}`: a TMEM slice takes all lanes")
    return _part(buffer, offsets, sizes)


def local_trans(machine: Machine, input: View, dims: Sequence[Value] = (1, 0)) -> View:
    """Return the transposed view of a tile."""
    return replace(input, array=input.array.transpose(tuple(int(d) for d in dims)))


def local_reinterpret(machine: Machine, src: View, dtype: Value, shape: Value = None) -> View:
    """Return the same bytes as elements of another type; SMEM also in another shape."""
    element = as_dtype(dtype)
    array = src.array.view(element.stored)
    if shape is not None:
        array = array.reshape(tuple(int(size) for size in shape))
    return replace(src, array=array, dtype=element)


def local_reshape(machine: Machine, src: View, shape: Value) -> View:
    """Return an SMEM tile in another shape."""
    return local_reinterpret(machine, src, src.dtype, shape)


def local_load(
    machine: Machine, src: View, token: Value = None, layout: Value = None, relaxed: bool = False
) -> Tensor:
    """Return the elements of a view as a register tensor.

    Raises:
        MachineFault: TMEM is read by a role without a multiple of four warps.
    """
    _check_warps(machine, src)
    machine.touch(src, write=False, action="load")
    if src.storage is Storage.TMEM and machine.role.warps > 4:
        machine.role.tmem_loads.append((src, machine.place()))
    result = Tensor(src.load(), src.dtype)
    machine.scheduler.pause()
    return result


def local_store(machine: Machine, dst: View, src: Value) -> None:
    """Store a register tensor; its shape and type must be those of the view.

    Raises:
        MachineFault: they are not.
    """
    _check_warps(machine, dst)
    value = operand(src, dst.dtype)
    if value.shape != dst.shape:
        raise MachineFault("shape", f"{value.shape} is stored to `{dst.label}` {dst.shape}")
    if value.dtype is not dst.dtype:
        raise MachineFault("type", f"{value.dtype} is stored to `{dst.label}` of {dst.dtype}")
    _check_own_loads(machine, dst)
    machine.touch(dst, write=True, action="store")
    dst.store(value.data)
    machine.scheduler.pause()


def _check_own_loads(machine: Machine, dst: View) -> None:
    """Check that no warp of the role may still read what another warp now overwrites.

    Four warps own 32 lanes each. More warps split the columns too, in another way for every width
    and element type, so that a narrower tile over a wider one needs a rendezvous in between.
    """
    role = machine.role
    if dst.storage is not Storage.TMEM or role.warps <= 4:
        return
    for view, place in role.tmem_loads:
        same = view.region.start == dst.region.start and view.shape == dst.shape
        if dst.region.overlaps(view.region) and not (same and view.dtype is dst.dtype):
            first = machine.access(view, "load", place)()
            second = machine.access(dst, "store by other warps", machine.place())()
            raise MachineStop(Race(first=first, second=second))
    # The store ends with a rendezvous of all warps of the role.
    role.tmem_loads.clear()


def _check_warps(machine: Machine, view: View) -> None:
    if view.storage is Storage.TMEM and machine.role.warps % 4:
        raise MachineFault(
            "tmem-warps", f"`{view.label}` is accessed by a role of {machine.role.warps} warps"
        )


BUFFER_OPS = {
    function.__name__: function
    for function in (
        *(storage_alias_spec, local_alloc, reuse_group, local_view, subslice, local_slice),
        *(local_trans, local_reinterpret, local_reshape, local_load, local_store),
    )
}
