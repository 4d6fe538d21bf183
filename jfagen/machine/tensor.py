"""Register tensors: numpy arrays with the element types and promotions of the device."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np

from .dtypes import (
    BFLOAT16,
    FLOAT32,
    INT1,
    INT32,
    INT64,
    Array,
    DType,
    Kind,
    convert,
    promote,
    to_held,
    to_stored,
)
from .report import MachineFault
from .scalars import as_dtype, make_scalar
from .values import Value


class Tensor:
    """A register tensor of any shape; `data` is never changed in place."""

    __slots__ = ("data", "dtype")

    def __init__(self, data: Array, dtype: DType) -> None:
        self.data = data
        self.dtype = dtype

    @property
    def shape(self) -> list[int]:
        """Return the sizes of all dimensions."""
        return list(self.data.shape)

    @property
    def T(self) -> Tensor:
        """Return the transposed matrix."""
        return Tensor(self.data.T, self.dtype)

    def to(self, target: Value, **options: Value) -> Tensor:
        """Return this tensor converted, floats rounded to nearest even.

        Raises:
            MachineFault: another rounding is asked for, or a bit cast between sizes.
        """
        dtype = as_dtype(target)
        if options.get("fp_downcast_rounding") not in (None, "rtne"):
            raise MachineFault("unknown-op", f"conversion with {options} is not known")
        if options.get("bitcast"):
            if dtype.primitive_bitwidth != self.dtype.primitive_bitwidth:
                raise MachineFault("type", f"a bit cast from {self.dtype} to {dtype}")
            stored = np.ascontiguousarray(to_stored(self.data, self.dtype)).view(dtype.stored)
            return Tensor(to_held(stored, dtype), dtype)
        return Tensor(convert(self.data, self.dtype, dtype), dtype)

    def reshape(self, *shape: Value) -> Value:
        """Return the same elements in another shape; shape () gives a scalar."""
        sizes = _sizes(shape)
        if int(np.prod(sizes)) != self.data.size:
            raise MachineFault("shape", f"cannot reshape {self.shape} to {list(sizes)}")
        return Tensor(self.data.reshape(sizes), self.dtype) if sizes else scalar_of(self)

    view = reshape

    def permute(self, *dims: Value) -> Tensor:
        """Return the tensor with its dimensions in another order."""
        return Tensor(self.data.transpose(_sizes(dims)), self.dtype)

    def trans(self, *dims: Value) -> Tensor:
        """Return the transposed tensor."""
        return self.permute(*dims) if dims else Tensor(self.data.T, self.dtype)

    def split(self) -> tuple[Tensor, Tensor]:
        """Return the two halves of a last dimension of size two."""
        if self.data.shape[-1:] != (2,):
            raise MachineFault("shape", f"split needs a last dimension of 2, got {self.shape}")
        return Tensor(self.data[..., 0], self.dtype), Tensor(self.data[..., 1], self.dtype)

    def expand_dims(self, axis: int) -> Tensor:
        """Return the tensor with one more dimension of size one."""
        return Tensor(np.expand_dims(self.data, axis), self.dtype)

    def broadcast_to(self, *shape: Value) -> Tensor:
        """Return the tensor repeated to a shape."""
        return Tensor(np.broadcast_to(self.data, _sizes(shape)), self.dtype)

    def item(self) -> Value:
        """Return the only element as a runtime scalar."""
        return scalar_of(self)

    def __getitem__(self, key: Value) -> Tensor:
        keys = key if isinstance(key, tuple) else (key,)
        if not all(k is None or k == slice(None) for k in keys):
            raise MachineFault("shape", f"only `None` and `:` can index a register tensor: {key}")
        return Tensor(self.data[keys], self.dtype)

    def __bool__(self) -> bool:
        if self.data.size != 1:
            raise MachineFault("tensor-condition", f"a tensor {self.shape} used as a condition")
        return bool(self.data.reshape(()))

    def __neg__(self) -> Tensor:
        return Tensor(-self.data, self.dtype)

    def __invert__(self) -> Tensor:
        return Tensor(~self.data, self.dtype)

    def __eq__(self, other: object) -> Value:
        return compare(operator.eq, self, other)

    def __ne__(self, other: object) -> Value:
        return compare(operator.ne, self, other)

    __hash__ = None  # type: ignore[assignment]


def _sizes(shape: Sequence[Value]) -> tuple[int, ...]:
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = shape[0]
    return tuple(int(size) for size in shape)


def scalar_of(tensor: Tensor) -> Value:
    """Return the only element of a tensor as a runtime scalar."""
    return make_scalar(tensor.data.reshape(()).item(), tensor.dtype)


def operand(value: Value, beside: DType) -> Tensor:
    """Return an operand as a tensor; a plain Python number takes the type of what it meets.

    Raises:
        MachineFault: the value is no number and no tensor.
    """
    if isinstance(value, Tensor):
        return value
    own = getattr(value, "dtype", None)
    if isinstance(own, DType):
        dtype = own
    elif isinstance(value, bool | np.bool_):
        dtype = INT1
    elif isinstance(value, int):
        small = -(1 << 31) <= value < (1 << 32)
        dtype = beside if beside is not INT1 else (INT32 if small else INT64)
    elif isinstance(value, float):
        dtype = beside if beside.is_float else FLOAT32
    else:
        raise MachineFault(
            "operand", f"a {type(value).__name__} is no operand of tensor arithmetic"
        )
    if dtype.kind is Kind.INT and isinstance(value, int):
        value = np.asarray(value).astype(dtype.held)
    data = np.asarray(value, dtype.held)
    return Tensor(convert(data, FLOAT32, dtype) if dtype is BFLOAT16 else data, dtype)


def pair(left: Value, right: Value) -> tuple[Array, Array, DType]:
    """Return both operands in the type in which they meet, and that type."""
    if isinstance(left, Tensor):
        right = operand(right, left.dtype)
    else:
        left = operand(left, getattr(right, "dtype", FLOAT32))
        right = operand(right, left.dtype)
    dtype = promote(left.dtype, right.dtype)
    return convert(left.data, left.dtype, dtype), convert(right.data, right.dtype, dtype), dtype


def elementwise(operation: Callable[[Array, Array], Array], left: Value, right: Value) -> Tensor:
    """Return an elementwise operation of two operands, rounded to their common type.

    Raises:
        MachineFault: the shapes do not broadcast.
    """
    left_data, right_data, dtype = pair(left, right)
    try:
        result = operation(left_data, right_data)
    except ValueError as error:
        shapes = f"{list(left_data.shape)} and {list(right_data.shape)}"
        raise MachineFault("shape", f"shapes {shapes} do not broadcast") from error
    if dtype is BFLOAT16:
        return Tensor(convert(result, FLOAT32, BFLOAT16), BFLOAT16)
    return Tensor(result if result.dtype == dtype.held else result.astype(dtype.held), dtype)


def compare(operation: Callable[[Value, Value], Value], left: Value, right: Value) -> Tensor:
    """Return the truth values of a comparison."""
    left_data, right_data, _ = pair(left, right)
    return Tensor(operation(left_data, right_data), INT1)


def _divide(left: Array, right: Array) -> Array:
    if left.dtype.kind in "iub":
        left, right = left.astype(np.float32), right.astype(np.float32)
    result: Array = left / right
    return result


def true_divide(left: Value, right: Value) -> Tensor:
    """Return the float quotient."""
    left_data, right_data, dtype = pair(left, right)
    result = _divide(left_data, right_data)
    if dtype is BFLOAT16:
        return Tensor(convert(result, FLOAT32, BFLOAT16), BFLOAT16)
    return Tensor(result, dtype if dtype.is_float else FLOAT32)


def _truncating_divide(left: Array, right: Array) -> Array:
    if (right == 0).any():
        raise MachineFault("division", "integer division by zero")
    quotient = np.abs(left) // np.abs(right)
    return np.where((left < 0) == (right < 0), quotient, -quotient)


def _truncating_modulo(left: Array, right: Array) -> Array:
    result: Array = np.fmod(left, right)
    return result


_OPERATIONS: dict[str, Callable[[Value, Value], Value]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": _truncating_divide,
    "mod": _truncating_modulo,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}


def _method(operation: Callable[[Value, Value], Value], reflected: bool) -> Value:
    def apply(self: Tensor, other: Value) -> Value:
        if not isinstance(other, int | float | Tensor):
            return NotImplemented
        left, right = (other, self) if reflected else (self, other)
        return elementwise(operation, left, right)

    return apply


def _install() -> None:
    for name, operation in _OPERATIONS.items():
        setattr(Tensor, f"__{name}__", _method(operation, False))
        setattr(Tensor, f"__r{name}__", _method(operation, True))
    for name in ("lt", "le", "gt", "ge"):
        comparison = getattr(operator, name)
        setattr(Tensor, f"__{name}__", lambda a, b, c=comparison: compare(c, a, b))
    setattr(Tensor, "__truediv__", lambda a, b: true_divide(a, b))  # noqa: B010
    setattr(Tensor, "__rtruediv__", lambda a, b: true_divide(b, a))  # noqa: B010


_install()
