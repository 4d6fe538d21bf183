"""Element types of the machine and the rounding between them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from .values import Value

Array = npt.NDArray[Value]


class Kind(StrEnum):
    """What an element type counts in."""

    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    FLOAT = "float"


@dataclass(frozen=True, slots=True, kw_only=True)
class DType:
    """One element type.

    `held` is the numpy type of a register tensor, `stored` that of memory. bfloat16 is held as
    float32 values that are already rounded and stored as its 16 bits.
    """

    name: str
    kind: Kind
    primitive_bitwidth: int
    held: np.dtype[Value]
    stored: np.dtype[Value]

    @property
    def itemsize(self) -> int:
        """Return the bytes of one element in memory."""
        return max(self.primitive_bitwidth // 8, 1)

    @property
    def is_float(self) -> bool:
        """Tell whether this is a floating point type."""
        return self.kind is Kind.FLOAT

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


def _dtype(name: str, kind: Kind, bits: int, held: str, stored: str | None = None) -> DType:
    return DType(
        name=name,
        kind=kind,
        primitive_bitwidth=bits,
        held=np.dtype(held),
        stored=np.dtype(stored or held),
    )


INT1 = _dtype("int1", Kind.BOOL, 1, "bool")
INT8 = _dtype("int8", Kind.INT, 8, "int8")
INT16 = _dtype("int16", Kind.INT, 16, "int16")
INT32 = _dtype("int32", Kind.INT, 32, "int32")
INT64 = _dtype("int64", Kind.INT, 64, "int64")
UINT8 = _dtype("uint8", Kind.UINT, 8, "uint8")
UINT16 = _dtype("uint16", Kind.UINT, 16, "uint16")
UINT32 = _dtype("uint32", Kind.UINT, 32, "uint32")
UINT64 = _dtype("uint64", Kind.UINT, 64, "uint64")
FLOAT16 = _dtype("fp16", Kind.FLOAT, 16, "float16")
BFLOAT16 = _dtype("bf16", Kind.FLOAT, 16, "float32", "uint16")
FLOAT32 = _dtype("fp32", Kind.FLOAT, 32, "float32")
FLOAT64 = _dtype("fp64", Kind.FLOAT, 64, "float64")

_ALL = (
    *(INT1, INT8, INT16, INT32, INT64),
    *(UINT8, UINT16, UINT32, UINT64),
    *(FLOAT16, BFLOAT16, FLOAT32, FLOAT64),
)
BY_NAME = {dtype.name: dtype for dtype in _ALL}

# The spellings of `triton.language`, which differ from the names for floats.
LANGUAGE_NAMES = {
    **{dtype.name: dtype for dtype in _ALL if not dtype.is_float},
    "float16": FLOAT16,
    "bfloat16": BFLOAT16,
    "float32": FLOAT32,
    "float64": FLOAT64,
}

# Spelled as torch does, for global tensors.
TORCH_NAMES = {**LANGUAGE_NAMES, "bool": INT1}


def round_bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Return the bits of float32 values rounded to bfloat16, nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    result = rounded.astype(np.uint16)
    # The carry of the rounding would turn the largest NaN patterns into small numbers.
    nan = np.isnan(values)
    if nan.any():
        result[nan] = np.uint16(0x7FFF)
    return result


def widen_bfloat16(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Return the float32 values of bfloat16 bits."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_held(stored: Array, dtype: DType) -> Array:
    """Return a register copy of elements as they lie in memory."""
    if dtype is BFLOAT16:
        return widen_bfloat16(stored)
    return np.array(stored, dtype=dtype.held, order="C")


def to_stored(held: Array, dtype: DType) -> Array:
    """Return the memory form of register values."""
    if dtype is BFLOAT16:
        return round_bfloat16(held)
    return held


def convert(held: Array, source: DType, target: DType) -> Array:
    """Return register values converted from one element type to another."""
    if target is source:
        return held
    if target is BFLOAT16:
        wide = held.astype(np.float32)
        return wide if source is BFLOAT16 else widen_bfloat16(round_bfloat16(wide))
    if target is INT1:
        result: Array = held != 0
        return result
    return held.astype(target.held)


def promote(left: DType, right: DType) -> DType:
    """Return the type in which two operands meet."""
    if left is right:
        return left
    if left.is_float != right.is_float:
        return left if left.is_float else right
    if left.is_float:
        if left.primitive_bitwidth == right.primitive_bitwidth:
            return FLOAT32
        return left if left.primitive_bitwidth > right.primitive_bitwidth else right
    if left.primitive_bitwidth == right.primitive_bitwidth:
        return left if left.kind is Kind.UINT else right
    return left if left.primitive_bitwidth > right.primitive_bitwidth else right
