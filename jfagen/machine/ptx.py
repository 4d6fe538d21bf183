"""Inline assembly: the few PTX instructions of attention kernels, on whole tensors at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from .dtypes import FLOAT32, INT32, Array, DType
from .report import MachineFault
from .scalars import as_dtype
from .tensor import Tensor, operand
from .values import Value

Register = Array | tuple[Array, Array]


def _fused(a: Array, b: Array, c: Array) -> Array:
    # A product of two float32 is exact in float64, so that only the sum is rounded twice.
    wide = np.multiply(a, b, dtype=np.float64)
    wide += c
    result: Array = wide.astype(np.float32)
    return result


def _tanh(a: Array) -> Array:
    result: Array = np.tanh(a)
    return result


# Without `.ftz` subnormal results differ from the hardware's by less than 2^-126.
_FLOAT: dict[str, Callable[..., Value]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fma": _fused,
    "max": np.fmax,
    "min": np.fmin,
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: np.float32(1) / np.sqrt(a),
    "neg": np.negative,
    "abs": np.abs,
    "tanh": _tanh,
}
_BITS: dict[str, Callable[..., Value]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "sub": np.subtract,
    "shl": lambda a, b: np.left_shift(a, b),
    "shr": lambda a, b: np.right_shift(a, b),
}
_KNOWN_SUFFIXES = {"rn", "ftz", "approx", "full", "NaN"}
_FLOAT_TYPES = {"f32", "f32x2"}
_BIT_TYPES = {"b32", "s32", "u32"}


@lru_cache(maxsize=256)
def _parse(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return opcode and operands of each instruction; a braced group stays one operand."""
    body = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL).strip()
    if body.startswith("{"):
        body = body[1 : body.rindex("}")]
    instructions = []
    for statement in body.split(";"):
        words = statement.split(None, 1)
        if not words or words[0] == ".reg":
            continue
        rest = words[1] if len(words) > 1 else ""
        operands = tuple(part.strip() for part in re.findall(r"\{[^}]*\}|[^,{}]+", rest))
        instructions.append((words[0], tuple(part for part in operands if part)))
    return tuple(instructions)


@lru_cache(maxsize=256)
def _whole_pairs(text: str) -> tuple[str, tuple[int, ...]] | None:
    """Return a packed instruction and its arguments, if that is all the assembly does.

    Such an instruction works on whole tensors: pairs need not be taken apart.
    """
    names: dict[str, int] = {}
    parsed = list(_parse(text))
    if (
        len(parsed) < 2
        or parsed[-1][0] != "mov.b64"
        or parsed[-1][1][0].replace(" ", "") != "{$0,$1}"
    ):
        return None
    for opcode, operands in parsed[:-2]:
        match = re.fullmatch(r"\{\s*\$(\d+)\s*,\s*\$(\d+)\s*\}", operands[1])
        if opcode != "mov.b64" or match is None:
            return None
        low, high = int(match.group(1)), int(match.group(2))
        if low % 2 or high != low + 1:
            return None
        names[operands[0]] = low // 2 - 1
    opcode, operands = parsed[-2]
    base, *suffixes = opcode.split(".")
    if (
        base not in _FLOAT
        or suffixes[-1:] != ["f32x2"]
        or not set(suffixes[:-1]) <= _KNOWN_SUFFIXES
    ):
        return None
    if parsed[-1][1][1] != operands[0] or any(name not in names for name in operands[1:]):
        return None
    return base, tuple(names[name] for name in operands[1:])


class _Registers:
    """The named registers of one block of inline assembly."""

    def __init__(self, inputs: Sequence[Array], outputs: int) -> None:
        self.values: dict[str, Register] = {
            f"${outputs + index}": value for index, value in enumerate(inputs)
        }

    def read(self, name: str) -> Register:
        if name.startswith("{"):
            low, high = (self.single(part.strip()) for part in name[1:-1].split(","))
            return low, high
        if name in self.values:
            return self.values[name]
        return np.asarray(_literal(name))

    def single(self, name: str) -> Array:
        value = self.read(name)
        if isinstance(value, tuple):
            raise MachineFault("inline-asm", f"`{name}` is a pair where one register is needed")
        return value

    def write(self, name: str, value: Register) -> None:
        if not name.startswith("{"):
            self.values[name] = value
            return
        if not isinstance(value, tuple):
            raise MachineFault("inline-asm", f"`{name}` unpacks one register")
        for part, half in zip(name[1:-1].split(","), value, strict=True):
            self.values[part.strip()] = half


def _literal(name: str) -> Value:
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", name):
        return np.array([int(name[2:], 16)], np.uint32).view(np.float32)[0]
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", name):
        return np.uint32(int(name, 0) & 0xFFFFFFFF)
    if re.fullmatch(r"-?\d+\.\d*", name):
        return np.float32(name)
    raise MachineFault("inline-asm", f"unknown register `{name}`")


def _as_bits(value: Array, kind: str) -> Array:
    wanted = np.int32 if kind == "s32" else np.uint32
    return value.view(wanted) if value.dtype.itemsize == 4 else value.astype(wanted)


def _as_float(value: Array) -> Array:
    return value if value.dtype == np.float32 else value.view(np.float32)


def _execute(opcode: str, operands: tuple[str, ...], registers: _Registers) -> None:
    base, *suffixes = opcode.split(".")
    kind = suffixes[-1] if suffixes else ""
    if base == "mov" and kind in {"b32", "b64", "f32", "u32", "s32"}:
        registers.write(operands[0], registers.read(operands[1]))
        return
    if not set(suffixes[:-1]) <= _KNOWN_SUFFIXES:
        raise MachineFault("inline-asm", f"unknown instruction `{opcode}`")
    values = [registers.read(name) for name in operands[1:]]
    if kind == "f32x2" and base in _FLOAT:
        lows = [_as_float(value[0]) for value in values if isinstance(value, tuple)]
        highs = [_as_float(value[1]) for value in values if isinstance(value, tuple)]
        if len(lows) != len(values):
            raise MachineFault("inline-asm", f"`{opcode}` needs pairs")
        registers.write(operands[0], (_FLOAT[base](*lows), _FLOAT[base](*highs)))
        return
    singles = [registers.single(name) for name in operands[1:]]
    if kind in _FLOAT_TYPES and base in _FLOAT:
        registers.write(operands[0], _FLOAT[base](*map(_as_float, singles)))
    elif kind in _BIT_TYPES and base in _BITS:
        registers.write(operands[0], _BITS[base](*(_as_bits(value, kind) for value in singles)))
    else:
        raise MachineFault("inline-asm", f"unknown instruction `{opcode}`")


def _typed(value: Register, dtype: DType, shape: tuple[int, ...]) -> Array:
    if isinstance(value, tuple):
        raise MachineFault("inline-asm", "an output is a pair")
    if dtype is FLOAT32:
        value = _as_float(value)
    elif dtype is INT32:
        value = _as_bits(value, "s32")
    else:
        value = value.astype(dtype.held)
    return np.broadcast_to(value, shape)


def dtype_is_float32(dtype: Value) -> bool:
    """Tell whether the assembly has one float32 result."""
    return not isinstance(dtype, tuple | list) and as_dtype(dtype) is FLOAT32


def inline_asm(
    asm: str,
    constraints: str,
    args: Sequence[Value],
    dtype: Value,
    is_pure: bool = True,
    pack: int = 1,
    **_: Value,
) -> Value:
    """Return the result tensors of a block of PTX applied to every group of `pack` elements.

    Raises:
        MachineFault: an instruction or an operand is not known.
    """
    tensors = [operand(arg, FLOAT32) for arg in args]
    packed = _whole_pairs(asm) if pack == 2 and dtype_is_float32(dtype) else None
    if packed is not None and all(tensor.dtype is FLOAT32 for tensor in tensors):
        base, order = packed
        return Tensor(_FLOAT[base](*(tensors[index].data for index in order)), FLOAT32)
    arrays = np.broadcast_arrays(*(tensor.data for tensor in tensors))
    shape = arrays[0].shape
    inputs = [
        np.ascontiguousarray(array).reshape(-1, pack)[:, lane]
        for array in arrays
        for lane in range(pack)
    ]
    single = not isinstance(dtype, tuple | list)
    dtypes = [as_dtype(dtype)] if single else [as_dtype(entry) for entry in dtype]
    outputs = sum(part.strip().startswith("=") for part in constraints.split(","))
    if outputs != len(dtypes) * pack:
        raise MachineFault("inline-asm", f"{outputs} output constraints for {len(dtypes)} x {pack}")
    registers = _Registers(inputs, outputs)
    for opcode, operands in _parse(asm):
        _execute(opcode, operands, registers)
    results = []
    for index, entry in enumerate(dtypes):
        lanes = [
            _typed(registers.read(f"${index * pack + lane}"), entry, inputs[0].shape)
            for lane in range(pack)
        ]
        data = lanes[0] if pack == 1 else np.stack(lanes, axis=1)
        results.append(Tensor(data.reshape(shape), entry))
    return results[0] if single else tuple(results)
