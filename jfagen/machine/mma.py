"""tcgen05: matrix multiplications that execute later, in the order in which a role issued them."""

from __future__ import annotations

from collections.abc import Sequence

from .barriers import Slot
from .dtypes import BFLOAT16, FLOAT16, FLOAT32, to_held
from .machine import Machine
from .memory import Storage, View
from .report import MachineFault
from .scheduler import Operation
from .values import Value


def _check(a: View, b: View, acc: View) -> None:
    if not all(isinstance(view, View) for view in (a, b, acc)):
        raise MachineFault("mma", "the operands of async_dot are slots of buffers")
    (m, k), (k2, n) = a.shape, b.shape
    if k != k2 or acc.shape != [m, n] or m not in (64, 128) or not 8 <= n <= 256 or k % 16:
        raise MachineFault("mma", f"shapes {a.shape} x {b.shape} -> {acc.shape} of async_dot")
    if a.dtype is not b.dtype or a.dtype not in (BFLOAT16, FLOAT16, FLOAT32):
        raise MachineFault("mma", f"async_dot of {a.dtype} and {b.dtype}")
    if b.storage is not Storage.SMEM or acc.storage is not Storage.TMEM:
        raise MachineFault("mma", "async_dot takes B from SMEM and accumulates in TMEM")
    if acc.dtype is not FLOAT32:
        raise MachineFault("mma", f"`{acc.label}` accumulates in {acc.dtype}")


def async_dot(
    machine: Machine,
    A: View,
    B: View,
    acc: View,
    use_acc: Value = None,
    pred: Value = None,
    mBarriers: Sequence[Slot] = (),
    two_ctas: bool = False,
    force_async: bool = False,
    input_precision: Value = None,
    out_dtype: Value = None,
) -> None:
    """Multiply A (m x k) and B (k x n) into a float32 accumulator in TMEM, later.

    Without barriers and without `force_async` the role waits for the result.

    Raises:
        MachineFault: operands that the tensor core does not take.
    """
    if two_ctas or pred is not None:
        raise MachineFault("unknown-op", "async_dot with two_ctas or pred is not simulated")
    _check(A, B, acc)
    role = machine.role
    add = use_acc is None or bool(use_acc)

    def run(operation: Operation) -> None:
        operation.before |= role.mma_before.before
        reads = [(A, False, "MMA read of A"), (B, False, "MMA read of B")]
        after = machine.touch_all(operation, [*reads, (acc, True, "MMA accumulation")])
        product = machine.matmul(to_held(A.array, A.dtype), to_held(B.array, B.dtype))
        if add:
            acc.array[...] += product
        else:
            acc.array[...] = product
        role.mma_before.before |= after

    operation = machine.submit(run, queue=role.mma_queue)
    # Each barrier gets its own commit after the multiplication.
    for barrier in mBarriers:
        _commit(machine, barrier)
    if not mBarriers and not force_async:
        machine.wait_operation(operation, "a synchronous async_dot")
        role.before |= role.mma_before.before
    else:
        machine.scheduler.pause()


def _commit(machine: Machine, barrier: Slot) -> None:
    role = machine.role

    def run(operation: Operation) -> None:
        operation.before |= role.mma_before.before
        barrier.arrive(1, operation.before)

    machine.submit(run, queue=role.mma_queue)


def tcgen05_commit(machine: Machine, mBarrier: Slot, two_ctas: bool = False) -> None:
    """Arrive at a barrier once all multiplications that this role issued so far are done.

    Raises:
        MachineFault: clusters are asked for.
    """
    if two_ctas:
        raise MachineFault("unknown-op", "clusters are not simulated: tcgen05_commit")
    _commit(machine, mBarrier)
    machine.scheduler.pause()


MMA_OPS = {function.__name__: function for function in (async_dot, tcgen05_commit)}
