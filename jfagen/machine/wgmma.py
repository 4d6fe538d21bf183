"""wgmma: matrix multiplications into registers, whose results exist once they are waited for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .dtypes import BFLOAT16, FLOAT16, FLOAT32, Array, DType
from .machine import Machine
from .memory import Storage, View
from .report import MachineFault, Place
from .scheduler import Operation, Role
from .tensor import Tensor
from .values import Value

_RULE = "unfinished-dot"


@dataclass(slots=True, eq=False)
class _Dot:
    """One multiplication under way: who completes it, and its result once that is done."""

    operation: Operation
    result: Array | None = None
    handed_on: Place | None = None


class Pending(Tensor):
    """The result of a multiplication that its role has not waited for: nothing may read it.

    Only the value that `async_dot_wait` returns can be read. The pending one may be the
    accumulator of one further multiplication.
    """

    __slots__ = ("_shape", "dot")

    def __init__(self, dot: _Dot, shape: tuple[int, int], dtype: DType) -> None:
        self.dot = dot
        self.dtype = dtype
        self._shape = shape

    @property
    def shape(self) -> list[int]:
        """Return the sizes, which are known before the elements are."""
        return list(self._shape)

    def __getattr__(self, name: str) -> Value:
        # `data` is never set: every read of the elements ends here.
        if name != "data":
            raise AttributeError(name)
        raise MachineFault(
            _RULE, f"the result of {_who(self.dot)} is read, but no async_dot_wait returned it"
        )


def _who(dot: _Dot) -> str:
    return f"the async_dot of {dot.operation.place.where()}"


def register_dot(machine: Machine, A: Value, B: Value, acc: Value, refused: list[str]) -> Pending:
    """Multiply A (m x k) by B (k x n) into float32 registers, later; returns the pending result.

    A lies in SMEM or in registers, B in SMEM, which is read between now and the completion.
    `refused` names the given options that only the form with an accumulator in TMEM has.

    Raises:
        MachineFault: operands that the tensor core does not take, or such an option.
    """
    if refused:
        raise MachineFault("mma", f"async_dot into registers takes no {', '.join(refused)}")
    role = machine.role
    shape = _check(machine, A, B, acc)
    dots = role.dots
    # The compiler fences in the issuing role right before the multiplication.
    machine.cta.order.fence(machine.cta.number, role.name)
    views = [(A, False, "MMA read of A")] if isinstance(A, View) else []
    left = A if isinstance(A, View) else A.data
    addend = _take(machine, acc)

    def run(operation: Operation) -> None:
        operation.before = machine.touch_all(operation, [*views, (B, False, "MMA read of B")])
        a = left.load() if isinstance(left, View) else left
        dot.result = machine.matmul(np.ascontiguousarray(a), B.load())
        if addend is not None:
            dot.result = dot.result + (addend.result if isinstance(addend, _Dot) else addend)

    dot = _Dot(machine.submit(run, queue=role.dot_queue))
    dots.append(dot.operation)
    machine.scheduler.pause()
    return Pending(dot, shape, FLOAT32)


def _check(machine: Machine, a: Value, b: Value, acc: Value) -> tuple[int, int]:
    """Return the shape of the result."""
    if not isinstance(a, View | Tensor) or not isinstance(b, View):
        raise MachineFault("mma", "async_dot takes A from a buffer or registers, B from a buffer")
    if any(isinstance(x, View) and x.storage is not Storage.SMEM for x in (a, b)):
        raise MachineFault("mma", "async_dot into registers takes its buffers from SMEM")
    if any(root.storage is Storage.TMEM for root in machine.cta.memory.roots):
        raise MachineFault("mma", "async_dot into registers in a kernel that allocates TMEM")
    if machine.role.warps % 4:
        raise MachineFault("mma", f"async_dot into registers by {machine.role.warps} warps, not 4")
    (m, k), (k2, n) = a.shape, b.shape
    if k != k2 or m % 64 or k % 16 or n % 8 or not 32 <= n <= 256:
        raise MachineFault("mma", f"shapes {a.shape} x {b.shape} of async_dot")
    if a.dtype is not b.dtype or a.dtype not in (BFLOAT16, FLOAT16, FLOAT32):
        raise MachineFault("mma", f"async_dot of {a.dtype} and {b.dtype}")
    if acc is not None and (not isinstance(acc, Tensor) or acc.shape != [m, n]):
        raise MachineFault("mma", f"async_dot of {[m, n]} accumulates in another shape")
    if acc is not None and acc.dtype is not FLOAT32:
        raise MachineFault("mma", f"async_dot accumulates in {acc.dtype}")
    return m, n


def _take(machine: Machine, acc: Tensor | None) -> _Dot | Array | None:
    """Return what is added to the product; a pending accumulator is handed on."""
    if not isinstance(acc, Pending):
        return None if acc is None else acc.data
    _check_own(acc.dot)
    acc.dot.handed_on = machine.place()
    return acc.dot


def _check_own(dot: _Dot) -> None:
    """Check that the registers still hold this result and not that of a later multiplication."""
    if dot.handed_on is not None:
        raise MachineFault(
            _RULE,
            f"the result of {_who(dot)} is used after it became the accumulator of"
            f" {dot.handed_on.where()}",
        )


def async_dot_wait(machine: Machine, pendings: Value, inp: Tensor) -> Tensor:
    """Wait until at most the last `pendings` multiplications of this role are under way.

    Returns the result that was given: readable, unless it is one of those.

    Raises:
        MachineFault: what is given is no register tensor, or was handed on.
    """
    role, left = machine.role, int(pendings)
    if left < 0 or not isinstance(inp, Tensor):
        raise MachineFault("mma", f"async_dot_wait of {left} and a {type(inp).__name__}")
    if isinstance(inp, Pending):
        _check_own(inp.dot)
    machine.drain(role.dots, left, "async_dot")
    return _settled(role, inp)


def _settled(role: Role, inp: Tensor) -> Tensor:
    if not isinstance(inp, Pending) or inp.dot.operation in role.dots:
        return inp
    # It is done, so `run` has left the result.
    return Tensor(np.asarray(inp.dot.result), inp.dtype)


WGMMA_OPS = {function.__name__: function for function in (async_dot_wait,)}
