"""What `attention` and `plan` refuse: the tensor, its value and the rule, before anything runs."""

from __future__ import annotations

import math
import re
import sys

import numpy as np
import pytest
import torch

import jfagen
from jfagen.runtime import arguments, operator

#: The function shadows its module.
module = sys.modules["jfagen.runtime.attention"]


def normal(rows, heads=2, head_dim=8, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rows)
    return torch.randn(rows, heads, head_dim, generator=generator, dtype=torch.float64).to(dtype)


def offsets(*values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype)


def right():
    """Arguments that are taken: 2 sequences of 10 packed rows of k and of q."""
    given = {"q": normal(10), "k": normal(10), "v": normal(10)}
    return {**given, "kv_offsets": offsets(0, 4, 10), "q_offsets": offsets(0, 5, 10)}


@pytest.fixture
def nothing_runs(monkeypatch):
    """Neither the operator nor what is behind it may be reached."""

    def reached(*given):
        raise AssertionError("the operator was reached")

    monkeypatch.setattr(module, "compute", reached)
    monkeypatch.setattr(module, "attention_forward", reached)


def refused(kind, said, **changed):
    with pytest.raises(kind, match=re.escape(said)):
        jfagen.attention(**{**right(), **changed})


def test_the_guard_of_these_tests_sees_a_call(nothing_runs):
    for q in (normal(10), normal(10).requires_grad_()):
        with pytest.raises(AssertionError, match="the operator was reached"):
            jfagen.attention(**{**right(), "q": q})


@pytest.mark.parametrize("name", ["q", "k", "v", "kv_offsets", "q_offsets"])
@pytest.mark.parametrize("value", [[[0.0]], np.zeros((3, 1, 1)), None, 3], ids=repr)
def test_no_tensor(name, value, nothing_runs):
    if name == "q_offsets" and value is None:
        value = "None"  # the value itself is broadcast mode
    refused(TypeError, f"{name} is a {type(value).__name__}, not a tensor", **{name: value})


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_a_tensor_of_another_layout(name, nothing_runs):
    for x in (normal(10).to_sparse(), normal(10).to_mkldnn()):
        refused(TypeError, f"{name} has the layout {x.layout}, not a dense one", **{name: x})


def jagged(kind):
    values = torch.randn(12, 2, 8)
    nested = torch.nested.nested_tensor_from_jagged(values, offsets(0, 3, 7, 12))
    if kind == "narrowed":
        # One sequence less, so that its offsets do not start with 0.
        lengths = offsets(2, 3, 4)
        return torch.nested.nested_tensor_from_jagged(values, offsets(1, 3, 7, 12), lengths)
    if kind == "with holes":
        lengths = nested.offsets().diff() - 2
        return torch.nested.nested_tensor_from_jagged(values, nested.offsets(), lengths)
    return nested.transpose(1, 2) if kind == "transposed" else nested


@pytest.mark.parametrize("kind", ["whole", "narrowed", "with holes", "transposed"])
@pytest.mark.parametrize("name", ["q", "k", "v", "kv_offsets"])
def test_nested_tensors_are_told_what_to_pass(kind, name, nothing_runs):
    """Views of nested tensors are misread in silence."""
    refused(
        TypeError,
        f"{name} is a nested tensor: pass `{name}.values()`, and `{name}.offsets()` as offsets",
        **{name: jagged(kind)},
    )


def test_the_parts_of_a_whole_nested_tensor_are_what_is_wanted():
    nested = jagged("whole")
    out = jfagen.attention(*[nested.values()] * 3, nested.offsets(), nested.offsets())
    for one, x in zip(out.split([3, 4, 5]), nested.unbind(), strict=True):
        assert torch.equal(one, jfagen.attention(x, x, x, offsets(0, x.shape[0]))[0])


@pytest.mark.parametrize("shape", [(10, 8), (1, 10, 2, 8), (10,), ()])
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_another_number_of_dimensions(name, shape, nothing_runs):
    said = f"{name} has the shape {list(shape)}, not [rows, heads, head_dim]"
    refused(ValueError, said, **{name: torch.zeros(shape)})


@pytest.mark.parametrize("dtype", [torch.int32, torch.complex64, torch.bool, torch.float8_e4m3fn])
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_element_types_that_nobody_computes_with(name, dtype, nothing_runs):
    x = torch.zeros(10, 2, 8).to(dtype)
    legal = "torch.bfloat16, torch.float16, torch.float32, torch.float64"
    refused(TypeError, f"{name} has elements of type {dtype}, not one of {legal}", **{name: x})


@pytest.mark.parametrize("name", ["k", "v"])
def test_tensors_that_do_not_go_together(name, nothing_runs):
    x = normal(10)
    said = f"{name} has elements of type torch.bfloat16, q of torch.float32"
    refused(TypeError, said, **{name: x.bfloat16()})
    refused(ValueError, f"{name} is on meta, q on cpu", **{name: x.to("meta")})
    for heads, head_dim in ((1, 8), (4, 8), (2, 16), (8, 2)):
        said = f"{name} has [{heads}, {head_dim}] heads and elements, q [2, 8]"
        refused(ValueError, said, **{name: normal(10, heads, head_dim)})


def test_k_and_v_of_other_lengths_and_tensors_without_elements(nothing_runs):
    refused(ValueError, "k has 10 rows, v 9", v=normal(9))
    for shape in ((10, 0, 8), (10, 2, 0)):
        x = torch.zeros(shape)
        said = f"q has the shape {list(shape)}: at least one head of one element"
        refused(ValueError, said, q=x, k=x, v=x)


#: Offsets that are wrong in form, and what is said of `NAME`.
FORMS = {
    "float": (torch.tensor([0.0, 4.0, 10.0]), TypeError, "elements of type torch.float32, not int"),
    "int16": (offsets(0, 4, 10, dtype=torch.int16), TypeError, "torch.int16, not int32 or int64"),
    "bool": (torch.tensor([False, True, True]), TypeError, "torch.bool, not int32 or int64"),
    "two dimensions": (offsets(0, 4, 10)[None], ValueError, "has the shape [1, 3], not [sequences"),
    "no dimension": (torch.tensor(0), ValueError, "has the shape [], not [sequences + 1]"),
    "empty": (offsets(), ValueError, "has the shape [0], not [sequences + 1]: it starts with 0"),
    "another device": (offsets(0, 4, 10).to("meta"), ValueError, "is on meta, not on cpu"),
}


@pytest.mark.parametrize("name", ["kv_offsets", "q_offsets"])
@pytest.mark.parametrize("form", FORMS)
def test_offsets_that_are_wrong_in_form(form, name, nothing_runs):
    value, kind, said = FORMS[form]
    with pytest.raises(kind, match=rf"{name} (has|is) .*{re.escape(said[4:])}"):
        jfagen.attention(**{**right(), name: value})


@pytest.mark.parametrize("check", [True, False])
def test_offsets_of_another_number_of_sequences(check, nothing_runs):
    """8 offsets where 9 are needed."""
    said = "kv_offsets is for 1 sequences, q_offsets for 2"
    refused(ValueError, said, kv_offsets=offsets(0, 10), check=check)
    said = "kv_offsets is for 2 sequences, q_offsets for 3"
    refused(ValueError, said, q_offsets=offsets(0, 1, 2, 10), check=check)


#: Values that are wrong, and what is said of `NAME` and `TENSOR`.
VALUES = {
    "starts after 0": ((100, 102, 102), "NAME[0] is 100, not 0"),
    "starts before 0": ((-1, 4, 10), "NAME[0] is -1, not 0"),
    "falls": ((0, 7, 5), "NAME falls from 7 to 5 at sequence 1: it must not fall"),
    "falls below 0": ((0, -3, 5), "NAME falls from 0 to -3 at sequence 0"),
    "ends past the rows": ((0, 4, 11), "NAME ends with 11, but TENSOR has 10 rows"),
    "garbage": ((0, 4, -(2**60)), f"NAME falls from 4 to {-(2**60)} at sequence 1"),
    "large garbage": ((0, 4, 2**60), f"NAME ends with {2**60}, but TENSOR has 10 rows"),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", ["kv_offsets", "q_offsets"])
@pytest.mark.parametrize("values", VALUES)
def test_offsets_with_wrong_values(values, name, grad, monkeypatch):
    """The host looks before anything is computed, at every tensor's rows."""
    monkeypatch.setattr(operator, "reference", lambda *given: pytest.fail("it was computed"))
    numbers, said = VALUES[values]
    said = said.replace("NAME", name).replace("TENSOR", name[0])
    given = {name: offsets(*numbers), "q": normal(10).requires_grad_(grad)}
    refused(ValueError, said, **given)
    if "TENSOR" not in VALUES[values][1]:
        rest = {"kv_offsets": offsets(0, 1, 1), **{name: offsets(*numbers)}}
        with pytest.raises(ValueError, match=re.escape(said)):
            jfagen.plan(rest["kv_offsets"], rest.get("q_offsets"), total_queries=10)


def test_the_reported_tensors_whose_rows_and_offsets_disagree():
    """1023 queries, 2045 rows of each tensor, offsets for 2046 keys."""
    x = torch.zeros(2045, 1, 8)
    kv, qo = offsets(0, 0, 1, 2046), offsets(0, 0, 0, 1023)
    with pytest.raises(ValueError, match="kv_offsets ends with 2046, but k has 2045 rows"):
        jfagen.attention(x, x, x, kv, qo)
    with pytest.raises(ValueError, match="q_offsets ends with 1023, but q has 1022 rows"):
        jfagen.attention(x[:1022], x, x, offsets(0, 0, 1, 2045), qo)


@pytest.mark.parametrize("rows", [1, 2, 10, 17])
def test_too_few_rows_of_k(rows):
    """Offsets say 20 keys, K holds fewer; identical sums were returned."""
    with pytest.raises(ValueError, match=f"kv_offsets ends with 20, but k has {rows} rows"):
        jfagen.attention(normal(3), normal(rows), normal(rows), offsets(0, 20))


def test_int32_and_int64_offsets_give_the_same_bits():
    given = right()
    outs = [
        jfagen.attention(
            **{
                **given,
                "kv_offsets": given["kv_offsets"].to(one),
                "q_offsets": given["q_offsets"].to(other),
            }
        )
        for one in arguments.OFFSET_TYPES
        for other in arguments.OFFSET_TYPES
    ]
    assert all(torch.equal(outs[0], other) for other in outs[1:])


def test_offsets_with_strides_of_their_own():
    given = right()
    wanted = jfagen.attention(**given)
    doubled = given["kv_offsets"].repeat_interleave(2)[::2]
    assert doubled.stride() == (2,)
    assert torch.equal(jfagen.attention(**{**given, "kv_offsets": doubled}), wanted)


@pytest.mark.parametrize("scale", [0, 0.0, -1.0, -0.0, math.nan, math.inf, -math.inf])
def test_scales_that_are_no_positive_numbers(scale, nothing_runs):
    said = f"scale is {float(scale)}, not a positive finite number"
    refused(ValueError, said, scale=scale)


def test_a_scale_that_no_float_holds(nothing_runs):
    refused(ValueError, "scale is inf, not a positive finite number", scale=10**400)


@pytest.mark.parametrize("scale", ["0.5", [1], 1j, True, torch.tensor(0.5), np.array([0.5])])
def test_scales_that_are_no_numbers(scale, nothing_runs):
    """A tensor among the host's numbers would make the host wait."""
    said = f"scale is a {type(scale).__name__}, not a number of the host"
    refused(TypeError, said, scale=scale)


@pytest.mark.parametrize("scale", [1, 0.5, np.float32(0.5), np.float64(0.5), np.int64(2)])
def test_numbers_of_any_kind_are_scales(scale):
    wanted = jfagen.attention(**right(), scale=float(scale))
    assert torch.equal(jfagen.attention(**right(), scale=scale), wanted)


def test_the_scale_is_one_over_the_root_of_head_dim():
    assert torch.equal(jfagen.attention(**right()), jfagen.attention(**right(), scale=8**-0.5))


def test_the_arguments_after_the_offsets_are_given_by_name(nothing_runs):
    with pytest.raises(TypeError, match="positional arguments"):
        jfagen.attention(*right().values(), 0.5)


@pytest.mark.parametrize("head_dim", [1, 8, 32, 40, 72, 80, 96, 104, 127, 129, 256])
def test_head_dims_that_no_kernel_is_built_for(head_dim):
    """A head that is padded to the tile's width spills into its neighbour."""
    x = normal(3, 2, head_dim, torch.bfloat16)
    said = f"q has a head_dim of {head_dim}, kernels are built for 64, 128"
    with pytest.raises(ValueError, match=said):
        arguments.check_for_kernel(x, x, x)


@pytest.mark.parametrize("head_dim", [64, 128])
def test_what_the_kernels_take(head_dim):
    for dtype in (torch.bfloat16, torch.float16):
        x = normal(3, 2, head_dim, dtype)
        arguments.check_for_kernel(x, x, x)
    for dtype in (torch.float32, torch.float64):
        x = normal(3, 2, head_dim, dtype)
        said = f"q has elements of type {dtype}, not one of torch.bfloat16, torch.float16"
        with pytest.raises(TypeError, match=said):
            arguments.check_for_kernel(x, x, x)
