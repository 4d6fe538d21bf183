"""Element types, runtime scalars, register tensors and inline assembly of the CPU machine."""

from __future__ import annotations

import operator
import subprocess
import sys

import numpy as np
import pytest
import torch

from jfagen.machine import TLX_CALLS
from jfagen.machine.dtypes import BFLOAT16, FLOAT32, INT32, convert, round_bfloat16
from jfagen.machine.language import LANGUAGE, maximum, reduce
from jfagen.machine.ptx import inline_asm
from jfagen.machine.report import MachineFault
from jfagen.machine.scalars import Float32, Int1, Int32, Int64
from jfagen.machine.tensor import Tensor


def floats(*values):
    return Tensor(np.array(values, np.float32), FLOAT32)


def test_bfloat16_rounds_like_torch():
    generator = np.random.default_rng(0)
    bits = generator.integers(0, 1 << 32, 20000, dtype=np.uint64).astype(np.uint32)
    ties = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFFFFFFFF, 0x7F800000])
    values = np.concatenate([bits, ties.astype(np.uint32)]).view(np.float32)
    ours = convert(values, FLOAT32, BFLOAT16)
    theirs = torch.from_numpy(values).to(torch.bfloat16).float().numpy()
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert np.isnan(ours).sum() == np.isnan(values).sum()


def test_bfloat16_bits_of_a_tie_go_to_the_even_neighbour():
    values = np.array([0x3F808000, 0x3F818000], np.uint32).view(np.float32)
    assert round_bfloat16(values).tolist() == [0x3F80, 0x3F82]


def test_bfloat16_arithmetic_rounds_every_result():
    a = floats(1.0).to(BFLOAT16)
    assert (a + floats(2**-9).to(BFLOAT16)).data[0] == 1.0
    assert (a + floats(2**-9)).dtype is FLOAT32


@pytest.mark.parametrize(("a", "b"), [(7, 3), (-7, 3), (7, -3), (-7, -3), (-1, 128)])
def test_integer_division_truncates_on_the_device(a, b):
    quotient, rest = int(a / b), a - int(a / b) * b
    assert (Int32(a) // b, Int32(a) % b) == (quotient, rest)
    tensor = Tensor(np.array([a], np.int32), INT32)
    assert ((tensor // b).data[0], (tensor % b).data[0]) == (quotient, rest)


def test_runtime_integers_wrap_at_32_bits():
    assert Int32((1 << 31) - 1) + 1 == -(1 << 31)
    assert Int32(1 << 30) * 4 == 0
    assert Int64(1 << 30) * 4 == 1 << 32
    assert Int32(1 << 30).to(LANGUAGE["cast"](0, INT32).dtype) == 1 << 30


def test_comparisons_are_runtime_truth_values():
    assert isinstance(Int32(3) > 2, Int1)
    assert (Int32(3) > 2).to(INT32) + 1 == 2
    assert not (Int32(3) > 2) & (Int32(1) > 2)
    assert not ~(Int32(3) > 2)


def test_float_scalars_round_to_single_precision():
    assert Float32(1.0) / 3 == float(np.float32(1) / np.float32(3))


def test_maximum_ignores_nan_as_the_hardware_does():
    assert maximum(floats(np.nan, 1.0), floats(2.0, np.nan)).data.tolist() == [2.0, 1.0]


def test_python_numbers_take_the_type_of_the_tensor():
    assert (floats(1.0) * 2).dtype is FLOAT32
    assert (Tensor(np.array([1], np.int32), INT32) * 2.5).dtype is FLOAT32


@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_reduce_calls_the_function_over_the_whole_axis(length):
    x = floats(*range(1, length + 1)).reshape([1, length])
    total = reduce(x, 1, operator.add)
    assert total.data.tolist() == [length * (length + 1) / 2]
    pairs = reduce((x, x), 1, lambda a, b, c, d: (a + c, maximum(b, d)))
    assert [part.data.tolist() for part in pairs] == [[sum(range(length + 1))], [length]]


def test_a_tensor_is_no_condition():
    with pytest.raises(MachineFault):
        bool(floats(1.0, 2.0))


PACKED = """{
    .reg .b64 a, b, c, d;
    mov.b64 a, {$2, $3};
    mov.b64 b, {$4, $5};
    mov.b64 c, {$6, $7};
    INSTRUCTION;
    mov.b64 {$0, $1}, d;
}"""


def packed(instruction, *args):
    asm = PACKED.replace("INSTRUCTION", instruction)
    return inline_asm(asm, "=r,=r,r,r,r,r,r,r", args, FLOAT32, True, 2)


def test_packed_instructions_work_on_pairs():
    a, b, c = (floats(*np.arange(4) * k) for k in (1.0, 0.5, 3.0))
    expected = a.data * b.data + c.data
    assert np.array_equal(packed("fma.rn.f32x2 d, a, b, c", a, b, c).data, expected)
    assert np.array_equal(packed("mul.rn.f32x2 d, a, b", a, b, c).data, a.data * b.data)
    assert np.array_equal(packed("add.rn.f32x2 d, a, c", a, b, c).data, a.data + c.data)


def test_packed_instructions_broadcast_a_scalar():
    result = packed("fma.rn.f32x2 d, a, b, c", floats(1.0, 2.0), Float32(3.0), 0.5)
    assert result.data.tolist() == [3.5, 6.5]


def test_the_order_of_packed_operands_counts():
    asm = "{ .reg .b64 a; mov.b64 a, {$3, $2}; mov.b64 {$0, $1}, a; }"
    swapped = inline_asm(asm, "=r,=r,r,r", [floats(1.0, 2.0)], FLOAT32, True, 2)
    assert swapped.data.tolist() == [2.0, 1.0]


def test_single_instructions():
    x = floats(3.0, -2.0)
    assert inline_asm("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], FLOAT32).data.tolist() == [8, 0.25]
    assert inline_asm("max.f32 $0, $1, 0f00000000;", "=f,f", [x], FLOAT32).data.tolist() == [3, 0]


@pytest.mark.parametrize("text", ["frob.f32 $0, $1;", "add.f32 $0, $1, x;", "ex2.odd.f32 $0, $1;"])
def test_an_unknown_instruction_or_operand_is_a_fault(text):
    with pytest.raises(MachineFault, match="unknown"):
        inline_asm(text, "=f,f", [floats(1.0)], FLOAT32)


def test_a_bit_cast_keeps_the_bits():
    x = floats(1.0, -2.0)
    assert x.to(INT32, bitcast=True).data.tolist() == [0x3F800000, -0x40000000]
    assert x.to(INT32, bitcast=True).to(FLOAT32, bitcast=True).data.tolist() == [1.0, -2.0]
    with pytest.raises(MachineFault):
        x.to(BFLOAT16, bitcast=True)


def test_the_machine_imports_without_torch():
    code = "import sys, jfagen.machine.trial; assert not {'torch', 'triton'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_known_call_exists_in_the_toolchain():
    import triton.language.extra.tlx as tlx

    assert {name for name in TLX_CALLS if not hasattr(tlx, name)} == set()
