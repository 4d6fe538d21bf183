"""Distributed shared memory: stores and copies into the SMEM of another CTA of the cluster."""

from __future__ import annotations

from .barriers import Slot
from .dtypes import FLOAT32
from .machine import Machine
from .memory import View
from .report import MachineFault
from .scheduler import Operation
from .tensor import Tensor, operand
from .values import Value


def _value(dst: View, src: Value) -> Tensor:
    value = operand(src, FLOAT32)
    if value.shape != dst.shape or value.dtype is not dst.dtype:
        raise MachineFault("shape", f"{value.shape} {value.dtype} is stored to `{dst.label}`")
    return value


def remote_shmem_store(machine: Machine, dst: View, src: Value, remote_cta_rank: Value) -> None:
    """Store a register tensor to the same buffer of another CTA, at once."""
    target = dst.in_memory(machine.peer(int(remote_cta_rank)).memory)
    value = _value(dst, src)
    machine.touch(target, write=True, action="remote store")
    target.store(value.data)
    machine.scheduler.pause()


def async_remote_shmem_store(
    machine: Machine, dst: View, src: Value, remote_cta_rank: Value, barrier: Slot
) -> None:
    """Store a register tensor to another CTA later; its copy of the barrier gets the bytes."""
    rank = int(remote_cta_rank)
    target = dst.in_memory(machine.peer(rank).memory)
    value, slot = _value(dst, src), machine.slot_of(barrier, rank)

    def run(operation: Operation) -> None:
        after = machine.touch_all(operation, [(target, True, "remote store")])
        target.store(value.data)
        slot.complete_bytes(target.array.nbytes, after)

    machine.submit(run)
    machine.scheduler.pause()


def async_remote_shmem_copy(
    machine: Machine, dst: View, src: View, remote_cta_rank: Value, barrier: Slot
) -> None:
    """Copy SMEM to another CTA later; its copy of the barrier gets the bytes.

    Raises:
        MachineFault: source and destination differ in size.
    """
    rank = int(remote_cta_rank)
    target = dst.in_memory(machine.peer(rank).memory)
    slot = machine.slot_of(barrier, rank)
    if src.array.nbytes != dst.array.nbytes or src.dtype is not dst.dtype:
        raise MachineFault("shape", f"`{src.label}` is copied to `{dst.label}` of another size")

    def run(operation: Operation) -> None:
        accesses = [(src, False, "remote copy"), (target, True, "remote copy")]
        after = machine.touch_all(operation, accesses)
        target.array[...] = src.array.reshape(target.array.shape)
        slot.complete_bytes(src.array.nbytes, after)

    machine.submit(run)
    machine.scheduler.pause()


REMOTE_OPS = {
    function.__name__: function
    for function in (remote_shmem_store, async_remote_shmem_store, async_remote_shmem_copy)
}
