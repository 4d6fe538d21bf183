"""tcgen05: matrix multiplications that execute later, in the order in which a role issued them.

Without an accumulator in TMEM, `async_dot` is wgmma.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .barriers import Slot
from .dtypes import BFLOAT16, FLOAT16, FLOAT32, Array
from .machine import Machine
from .memory import Storage, View
from .report import MachineFault
from .scheduler import Operation
from .values import Value
from .wgmma import Pending, register_dot


def _check(a: View, b: View, acc: View, ctas: int) -> None:
    if not all(isinstance(view, View) for view in (a, b, acc)):
        raise MachineFault("mma", "the operands of async_dot are slots of buffers")
    (m, k), (k2, n) = a.shape, b.shape
    n *= ctas
    if k != k2 or acc.shape != [m, n] or m not in (64, 128) or not 8 <= n <= 256 or k % 16:
        raise MachineFault("mma", f"shapes {a.shape} x {b.shape} -> {acc.shape} of async_dot")
    if a.dtype is not b.dtype or a.dtype not in (BFLOAT16, FLOAT16, FLOAT32):
        raise MachineFault("mma", f"async_dot of {a.dtype} and {b.dtype}")
    if b.storage is not Storage.SMEM or acc.storage is not Storage.TMEM:
        raise MachineFault("mma", "async_dot takes B from SMEM and accumulates in TMEM")
    if acc.dtype is not FLOAT32:
        raise MachineFault("mma", f"`{acc.label}` accumulates in {acc.dtype}")


def _is_leader(machine: Machine) -> bool:
    """Tell whether the CTA issues for its pair; the compiler predicates the other one off."""
    leader, _ = machine.pair()
    return machine.cta is leader


def _sides(machine: Machine, two_ctas: Value, *views: View) -> list[tuple[View, ...]]:
    """Return the operands in each CTA that takes part."""
    if not two_ctas:
        return [views]
    return [tuple(view.in_memory(cta.memory) for view in views) for cta in machine.pair()]


def _right_operand(sides: list[tuple[View, ...]]) -> Array:
    """Return B; a pair has half of its columns in each CTA."""
    parts = [view.load() for _, view, _ in sides]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def async_dot(
    machine: Machine,
    A: Value,
    B: View,
    acc: Value = None,
    use_acc: Value = None,
    pred: Value = None,
    mBarriers: Sequence[Slot] = (),
    two_ctas: Value = False,
    force_async: bool = False,
    input_precision: Value = None,
    out_dtype: Value = None,
) -> Pending | None:
    """Multiply A (m x k) and B (k x n) into a float32 accumulator in TMEM, later.

    Without barriers and without `force_async` the role waits for the result. With `two_ctas` the
    leader issues for both CTAs: each has its rows of A and of the accumulator, and half of B's
    columns; the barriers of both get an arrival. An accumulator in registers, or none, makes it the
    form of Hopper, which returns the pending result.

    Raises:
        MachineFault: operands that the tensor core does not take, or a predicate.
    """
    if pred is not None:
        raise MachineFault("unknown-op", "async_dot with pred is refused by the toolchain")
    if not isinstance(acc, View):
        options = {"use_acc": use_acc is not None, "mBarriers": mBarriers, "two_ctas": two_ctas}
        return register_dot(machine, A, B, acc, [name for name, on in options.items() if on])
    asynchronous = bool(mBarriers) or force_async
    _tensor_memory_dot(machine, A, B, acc, use_acc, mBarriers, two_ctas, asynchronous)
    return None


def _tensor_memory_dot(
    machine: Machine,
    A: View,
    B: View,
    acc: View,
    use_acc: Value,
    mBarriers: Sequence[Slot],
    two_ctas: Value,
    asynchronous: bool,
) -> None:
    _check(A, B, acc, 2 if two_ctas else 1)
    if two_ctas and not _is_leader(machine):
        return
    role, sides = machine.role, _sides(machine, two_ctas, A, B, acc)
    add = use_acc is None or bool(use_acc)
    if Storage.SMEM in (A.storage, B.storage):
        # The compiler fences in the issuing role right before the multiplication.
        machine.cta.order.fence(machine.cta.number, role.name)

    def run(operation: Operation) -> None:
        operation.before |= role.mma_before.before
        accesses = [
            access
            for a, b, c in sides
            for access in (
                (a, False, "MMA read of A"),
                (b, False, "MMA read of B"),
                (c, True, "MMA accumulation"),
            )
        ]
        after = machine.touch_all(operation, accesses)
        right = _right_operand(sides)
        for a, _, c in sides:
            product = machine.matmul(a.load(), right)
            c.store(c.load() + product if add else product)
        role.mma_before.before |= after

    operation = machine.submit(run, queue=role.mma_queue)
    # Each barrier gets its own commit after the multiplication.
    for barrier in mBarriers:
        _commit(machine, barrier, two_ctas)
    if not asynchronous:
        machine.wait_operation(operation, "a synchronous async_dot")
        role.before |= role.mma_before.before
    else:
        machine.scheduler.pause()


def _commit(machine: Machine, barrier: Slot, two_ctas: Value) -> None:
    role = machine.role
    copies = [barrier]
    if two_ctas:
        copies = [machine.slot_of(barrier, cta.rank) for cta in machine.pair()]

    def run(operation: Operation) -> None:
        # A commit keeps its place among the multiplications, so it is before those behind it too.
        role.mma_before.before |= machine.mark(operation.cta.order)
        operation.before |= role.mma_before.before
        for copy in copies:
            copy.arrive(1, operation.before)

    what = f"commit to {barrier.name}[{barrier.index}]"
    machine.submit(run, queue=role.mma_queue, what=what)


def tcgen05_commit(machine: Machine, mBarrier: Slot, two_ctas: Value = False) -> None:
    """Arrive at a barrier once all multiplications that this role issued so far are done.

    With `two_ctas` the leader alone commits, for the copies of both CTAs.
    """
    if two_ctas and not _is_leader(machine):
        return
    _commit(machine, mBarrier, two_ctas)
    machine.scheduler.pause()


MMA_OPS = {function.__name__: function for function in (async_dot, tcgen05_commit)}
