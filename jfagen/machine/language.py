"""The tensor language: `triton.language` on register tensors."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .dtypes import FLOAT32, INT1, INT32, INT64, Array, convert
from .ptx import inline_asm
from .report import MachineFault
from .scalars import Int32, as_dtype, make_scalar
from .tensor import Tensor, elementwise, operand, scalar_of, true_divide
from .values import Value


def _sizes(shape: Value) -> tuple[int, ...]:
    return tuple(int(size) for size in shape) if isinstance(shape, Sequence) else (int(shape),)


def _like(result: Tensor, *inputs: Value) -> Value:
    """Return a scalar where every input was one."""
    return result if any(isinstance(value, Tensor) for value in inputs) else scalar_of(result)


def _unary(function: Callable[[Array], Array]) -> Callable[..., Value]:
    def apply(x: Value, **_: Value) -> Value:
        value = operand(x, FLOAT32)
        wide = value.data if value.dtype.is_float else value.data.astype(np.float32)
        dtype = value.dtype if value.dtype.is_float else FLOAT32
        result = function(wide)
        return _like(Tensor(convert(result, FLOAT32, dtype), dtype), x)

    return apply


def _binary(function: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    def apply(x: Value, y: Value, **_: Value) -> Value:
        return _like(elementwise(function, x, y), x, y)

    return apply


# Triton's default for NaN is that of the hardware: the other operand.
maximum = _binary(np.fmax)
minimum = _binary(np.fmin)


def arange(start: Value, end: Value) -> Tensor:
    """Return int32 numbers from `start` to before `end`."""
    return Tensor(np.arange(int(start), int(end), dtype=np.int32), INT32)


def full(shape: Value, value: Value, dtype: Value) -> Tensor:
    """Return a tensor of one value."""
    element = as_dtype(dtype)
    given = operand(value, element)
    data = convert(given.data, given.dtype, element)
    return Tensor(np.full(_sizes(shape), data, element.held), element)


def zeros(shape: Value, dtype: Value) -> Tensor:
    """Return a tensor of zeros."""
    return full(shape, 0, dtype)


def zeros_like(x: Tensor) -> Tensor:
    """Return zeros of the same shape and type."""
    return full(x.shape, 0, x.dtype)


def where(condition: Value, x: Value, y: Value) -> Value:
    """Return `x` where the condition holds, else `y`."""
    mask = operand(condition, INT1)
    chosen = elementwise(lambda a, b: np.where(mask.data, a, b), x, y)
    return _like(chosen, condition, x, y)


def fma(x: Value, y: Value, z: Value) -> Value:
    """Return x * y + z with one rounding."""
    wide = [operand(v, FLOAT32).data.astype(np.float64) for v in (x, y, z)]
    result = Tensor((wide[0] * wide[1] + wide[2]).astype(np.float32), FLOAT32)
    return _like(result, x, y, z)


def reduction(function: Callable[..., Array]) -> Callable[..., Value]:
    """Return a reduction over one axis or over everything."""

    def apply(
        input: Tensor, axis: Value = None, keep_dims: bool = False, **options: Value
    ) -> Value:
        if any(options.get(name) for name in ("return_indices", "return_indices_tie_break_left")):
            raise MachineFault("unknown-op", "a reduction with indices is not known")
        data, dtype = input.data, input.dtype
        if dtype is INT1:
            data, dtype = data.astype(np.int32), INT32
        result = function(data, axis=None if axis is None else int(axis), keepdims=keep_dims)
        tensor = Tensor(convert(np.asarray(result, dtype.held), dtype, dtype), dtype)
        return tensor if tensor.data.shape else scalar_of(tensor)

    return apply


def reduce(
    input: Value, axis: Value, combine_fn: Callable[..., Value], keep_dims: bool = False, **_: Value
) -> Value:
    """Return a reduction with a function of the kernel, halves of the axis at a time."""
    single = not isinstance(input, tuple)
    parts: tuple[Tensor, ...] = (input,) if single else input
    if axis is None:
        parts, axis = tuple(part.reshape([part.data.size]) for part in parts), 0
    axis = int(axis)
    length = parts[0].shape[axis]
    while length > 1:
        half = length // 2
        lower = [_take(part, axis, 0, half) for part in parts]
        upper = [_take(part, axis, length - half, length) for part in parts]
        joined = combine_fn(*lower, *upper)
        combined = joined if isinstance(joined, tuple) else (joined,)
        if length % 2:
            middle = [_take(part, axis, half, half + 1) for part in parts]
            combined = tuple(
                Tensor(np.concatenate([c.data, m.data], axis), c.dtype)
                for c, m in zip(combined, middle, strict=True)
            )
        parts, length = combined, half + length % 2
    results = parts if keep_dims else tuple(_squeeze(part, axis) for part in parts)
    return results[0] if single else results


def _take(part: Tensor, axis: int, start: int, stop: int) -> Tensor:
    keys = [slice(None)] * part.data.ndim
    keys[axis] = slice(start, stop)
    return Tensor(part.data[tuple(keys)], part.dtype)


def _squeeze(part: Tensor, axis: int) -> Value:
    tensor = Tensor(np.squeeze(part.data, axis), part.dtype)
    return tensor if tensor.data.shape else scalar_of(tensor)


def join(x: Tensor, y: Tensor) -> Tensor:
    """Return both tensors stacked along a new last axis."""
    left, right = np.broadcast_arrays(x.data, y.data)
    return Tensor(np.stack([left, right], axis=-1), x.dtype)


def map_elementwise(function: Callable[..., Value], *args: Value, **_: Value) -> Value:
    """Return a function of scalars applied to whole tensors at once."""
    arrays = np.broadcast_arrays(*(operand(arg, INT32).data for arg in args))
    dtypes = [operand(arg, INT32).dtype for arg in args]
    return function(*(Tensor(a, d) for a, d in zip(arrays, dtypes, strict=True)))


def cdiv(x: Value, div: Value) -> Value:
    """Return the quotient rounded up, of non-negative integers."""
    return (x + div - 1) // div


def counted(*bounds: Value, **_: Value) -> Iterator[Value]:
    """Yield the runtime integers of a loop."""
    for value in builtins.range(*(int(bound) for bound in bounds)):
        yield Int32(value)


def static_range(*bounds: Value, **_: Value) -> Value:
    """Return the compile-time integers of an unrolled loop."""
    return builtins.range(*(int(bound) for bound in bounds))


def static_assert(condition: Value, message: Value = "", **_: Value) -> None:
    """Check a condition.

    Raises:
        MachineFault: it does not hold.
    """
    if not condition:
        raise MachineFault("assertion", f"assertion fails: {message}")


def smallest(*values: Value) -> Value:
    """Return the Python builtin `min`, or the elementwise minimum of tensors."""
    if any(isinstance(value, Tensor) for value in values):
        return minimum(*values)
    return builtins.min(*values)


def largest(*values: Value) -> Value:
    """Return the Python builtin `max`, or the elementwise maximum of tensors."""
    if any(isinstance(value, Tensor) for value in values):
        return maximum(*values)
    return builtins.max(*values)


def _same(x: Value, *_: Value, **__: Value) -> Value:
    return x


def _nothing(*_: Value, **__: Value) -> None:
    return None


def _method(name: str) -> Callable[..., Value]:
    def apply(x: Tensor, *args: Value, **options: Value) -> Value:
        return getattr(x, name)(*args, **options)

    return apply


def cast(x: Value, dtype: Value, **options: Value) -> Value:
    """Return a value converted to another element type."""
    if isinstance(x, Tensor):
        return x.to(dtype, **options)
    return make_scalar(x, as_dtype(dtype))


def to_tensor(x: Value) -> Value:
    """Return a Python number as a runtime scalar."""
    if isinstance(x, bool):
        return make_scalar(x, INT1)
    if isinstance(x, int):
        return make_scalar(x, INT32 if -(1 << 31) <= x < 1 << 31 else INT64)
    return make_scalar(x, FLOAT32)


MATH: dict[str, Value] = {
    "exp2": _unary(np.exp2),
    "exp": _unary(np.exp),
    "log2": _unary(np.log2),
    "log": _unary(np.log),
    "sqrt": _unary(np.sqrt),
    "rsqrt": _unary(lambda a: np.float32(1) / np.sqrt(a)),
    "abs": _unary(np.abs),
    "floor": _unary(np.floor),
    "ceil": _unary(np.ceil),
    "fma": fma,
    "fdiv": lambda x, y, ieee_rounding=False: _like(true_divide(x, y), x, y),
    "div_rn": lambda x, y: _like(true_divide(x, y), x, y),
}
LANGUAGE: dict[str, Value] = {
    **MATH,
    "arange": arange,
    "full": full,
    "clamp": lambda x, min, max, **_: maximum(minimum(x, max), min),
    "zeros": zeros,
    "zeros_like": zeros_like,
    "where": where,
    "maximum": maximum,
    "minimum": minimum,
    "max": reduction(np.fmax.reduce),
    "min": reduction(np.fmin.reduce),
    "sum": reduction(np.sum),
    "xor_sum": reduction(np.bitwise_xor.reduce),
    "reduce": reduce,
    "join": join,
    "split": _method("split"),
    "permute": _method("permute"),
    "trans": _method("trans"),
    "reshape": _method("reshape"),
    "view": _method("reshape"),
    "expand_dims": _method("expand_dims"),
    "broadcast_to": _method("broadcast_to"),
    "cast": cast,
    "to_tensor": to_tensor,
    "cdiv": cdiv,
    "range": counted,
    "static_range": static_range,
    "static_assert": static_assert,
    "device_assert": static_assert,
    "static_print": _nothing,
    "device_print": _nothing,
    "assume": _nothing,
    "debug_barrier": _nothing,
    "multiple_of": _same,
    "max_contiguous": _same,
    "max_constancy": _same,
    "constexpr": _same,
    "map_elementwise": map_elementwise,
    "inline_asm_elementwise": inline_asm,
}


def _library_mul(a: Value, b: Value) -> Value:
    return elementwise(operator.mul, a, b)


def _library_sub(a: Value, b: Value) -> Value:
    return elementwise(operator.sub, a, b)


def _library_add_pairs(p0a: Value, p1a: Value, p0b: Value, p1b: Value) -> Value:
    return elementwise(operator.add, p0a, p1a), elementwise(operator.add, p0b, p1b)


# Built-in functions that Triton's own library files define, by their names there.
LIBRARY: dict[str, Value] = {
    "_mul_f32x2": _library_mul,
    "_sub_f32x2": _library_sub,
    "_fma_f32x2": fma,
    "_reduce_fadd2": _library_add_pairs,
    "tanh_approx_fp32": _unary(np.tanh),
}
