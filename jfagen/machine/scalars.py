"""Runtime scalars: integers that wrap and divide as on the device, float32 that rounds."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from .dtypes import BFLOAT16, FLOAT32, INT1, INT32, INT64, DType
from .report import MachineFault
from .values import Value

_MASK = {32: 0xFFFFFFFF, 64: 0xFFFFFFFFFFFFFFFF}


def _truncating_divide(left: int, right: int) -> int:
    if right == 0:
        raise MachineFault("division", "integer division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _truncating_modulo(left: int, right: int) -> int:
    return left - right * _truncating_divide(left, right)


class _Integer(int):
    """A runtime integer of `bits` bits; plain Python integers beside it are compile-time."""

    bits = 32
    dtype = INT32
    shape: tuple[int, ...] = ()

    def to(self, target: Value, **_: Value) -> Value:
        """Return this scalar converted to another element type."""
        return make_scalar(int(self), as_dtype(target))

    __hash__ = int.__hash__


class Int1(_Integer):
    """A runtime truth value."""

    bits = 1
    dtype = INT1


class Int32(_Integer):
    """A runtime 32-bit integer."""


class Int64(_Integer):
    """A runtime 64-bit integer."""

    bits = 64
    dtype = INT64


class Float32(float):
    """A runtime float32: every result is rounded to single precision."""

    dtype = FLOAT32
    shape: tuple[int, ...] = ()

    def to(self, target: Value, **_: Value) -> Value:
        """Return this scalar converted to another element type."""
        return make_scalar(float(self), as_dtype(target))

    __hash__ = float.__hash__


Scalar = Int1 | Int32 | Int64 | Float32


def wrap(value: int, bits: int) -> int:
    """Return `value` reduced to a signed integer of `bits` bits."""
    value &= _MASK[bits]
    return value - (1 << bits) if value >> (bits - 1) else value


def as_dtype(value: Value) -> DType:
    """Return the machine's type for a type of the machine, of Triton or of torch.

    Raises:
        MachineFault: the type is not one that the machine holds (fp8 for example).
    """
    if isinstance(value, DType):
        return value
    from .dtypes import BY_NAME

    name = getattr(value, "name", None)
    if name in BY_NAME:
        return BY_NAME[name]
    raise MachineFault("unknown-type", f"element type {value} is not known")


def make_scalar(value: Value, dtype: DType) -> Value:
    """Return a runtime scalar of an element type."""
    if dtype is INT1:
        return Int1(bool(value))
    if dtype is INT32:
        return Int32(wrap(int(value), 32))
    if dtype is INT64:
        return Int64(wrap(int(value), 64))
    if dtype is FLOAT32:
        return Float32(np.float32(value))
    from .tensor import Tensor

    if dtype is BFLOAT16:
        return Tensor(np.asarray(value, np.float32), FLOAT32).to(BFLOAT16)
    return Tensor(np.asarray(value).astype(dtype.held), dtype)


def _integer_result(left: _Integer, right: int, value: int) -> Value:
    bits = max(left.bits, getattr(right, "bits", 0), 32)
    return Int64(wrap(value, 64)) if bits == 64 else Int32(wrap(value, 32))


def _integer_operator(operation: Callable[[int, int], int], reflected: bool) -> Value:
    def apply(self: _Integer, other: Value) -> Value:
        if not isinstance(other, int):
            if isinstance(other, float):
                float_operation = _FLOAT_TWINS.get(operation, operation)
                left, right = (other, float(self)) if reflected else (float(self), other)
                return Float32(np.float32(float_operation(left, right)))
            return NotImplemented
        left_int, right_int = (int(other), int(self)) if reflected else (int(self), int(other))
        return _integer_result(self, other, operation(left_int, right_int))

    return apply


def _bit_operator(operation: Callable[[int, int], int]) -> Value:
    def apply(self: _Integer, other: Value) -> Value:
        if not isinstance(other, int):
            return NotImplemented
        value = operation(int(self), int(other))
        if self.bits == 1 and isinstance(other, bool | Int1):
            return Int1(value & 1)
        return _integer_result(self, other, value)

    return apply


def _true_divide(self: _Integer, other: Value) -> Value:
    if isinstance(other, int | float):
        return Float32(float(self)) / float(other)
    return NotImplemented


def _comparison(operation: Callable[[Value, Value], Value], base: type) -> Value:
    def apply(self: Value, other: Value) -> Value:
        if isinstance(other, int | float):
            return Int1(operation(base(self), other))
        return NotImplemented

    return apply


def _float_operator(operation: Callable[[Value, Value], Value], reflected: bool) -> Value:
    def apply(self: Float32, other: Value) -> Value:
        if not isinstance(other, int | float):
            return NotImplemented
        left, right = np.float32(self), np.float32(other)
        return Float32(operation(right, left) if reflected else operation(left, right))

    return apply


_FLOAT_TWINS: dict[Value, Value] = {
    _truncating_divide: operator.floordiv,
    _truncating_modulo: operator.mod,
}
_INTEGER_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": _truncating_divide,
    "mod": _truncating_modulo,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}
_FLOAT_OPERATIONS: dict[str, Callable[[Value, Value], Value]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
}
_BIT_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


def _install() -> None:
    for name, operation in _INTEGER_OPERATIONS.items():
        setattr(_Integer, f"__{name}__", _integer_operator(operation, False))
        setattr(_Integer, f"__r{name}__", _integer_operator(operation, True))
    for name, operation in _BIT_OPERATIONS.items():
        setattr(_Integer, f"__{name}__", _bit_operator(operation))
        setattr(_Integer, f"__r{name}__", _bit_operator(operation))
    for name, float_operation in _FLOAT_OPERATIONS.items():
        setattr(Float32, f"__{name}__", _float_operator(float_operation, False))
        setattr(Float32, f"__r{name}__", _float_operator(float_operation, True))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        comparison: Callable[[Value, Value], Value] = getattr(operator, name)
        setattr(_Integer, f"__{name}__", _comparison(comparison, int))
        setattr(Float32, f"__{name}__", _comparison(comparison, float))
    setattr(_Integer, "__truediv__", _true_divide)  # noqa: B010
    setattr(_Integer, "__neg__", lambda self: _integer_result(self, 0, -int(self)))  # noqa: B010
    setattr(  # noqa: B010
        _Integer,
        "__invert__",
        lambda self: Int1(not self) if self.bits == 1 else _integer_result(self, 0, ~int(self)),
    )
    setattr(Float32, "__neg__", lambda self: Float32(-float(self)))  # noqa: B010


_install()
