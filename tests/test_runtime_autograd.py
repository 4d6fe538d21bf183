"""Gradients of `jfagen.attention` on the CPU: right, once, for whoever asks."""

from __future__ import annotations

import pytest
import torch

import jfagen
from jfagen.runtime.autograd import attention_forward
from jfagen.runtime.backward import attention_backward
from jfagen.runtime.reference import reference

KEYS, QUERIES = torch.tensor([0, 3, 3, 10]), torch.tensor([0, 2, 6, 6])
MODES = {"broadcast": None, "jagged": QUERIES}


def leaves(mode, dtype=torch.float64, spare=2, head_dim=8):
    """Return q, k and v with a few rows past the last offset."""
    generator = torch.Generator().manual_seed(5)
    rows = 5 if mode == "broadcast" else 6 + spare
    return [
        torch.randn((n, 2, head_dim), generator=generator, dtype=torch.float64)
        .to(dtype)
        .requires_grad_()
        for n in (rows, 10 + spare, 10 + spare)
    ]


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_out_agree_with_finite_differences(mode):
    q, k, v = leaves(mode)
    assert torch.autograd.gradcheck(
        lambda *x: jfagen.attention(*x, KEYS, MODES[mode], scale=0.7), (q, k, v)
    )


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_lse_count_too(mode):
    q, k, v = leaves(mode)
    # lse is float32 in both: what is compared is the formula, not the last bits.
    weights = torch.randn_like(reference(q, k, v, KEYS, MODES[mode], 0.7)[1])
    weights = weights.masked_fill(torch.isinf(reference(q, k, v, KEYS, MODES[mode], 0.7)[1]), 0)

    def loss(function):
        out, lse = function()
        return (out * 0.3).sum() + (lse.nan_to_num(neginf=0) * weights).sum()

    ours = loss(lambda: jfagen.attention(q, k, v, KEYS, MODES[mode], scale=0.7, return_lse=True))
    theirs = loss(lambda: reference(q, k, v, KEYS, MODES[mode], 0.7))
    for one, other in zip(
        torch.autograd.grad(ours, (q, k, v)), torch.autograd.grad(theirs, (q, k, v)), strict=True
    ):
        torch.testing.assert_close(one, other.nan_to_num(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("mode", MODES)
def test_gradients_have_the_type_of_what_they_are_of(mode, dtype):
    q, k, v = leaves(mode, dtype)
    jfagen.attention(q, k, v, KEYS, MODES[mode]).sum().backward()
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    jfagen.attention(*wide, KEYS, MODES[mode]).sum().backward()
    for one, exact in zip((q, k, v), wide, strict=True):
        assert one.grad.dtype == dtype and one.grad.shape == one.shape
        torch.testing.assert_close(one.grad.double(), exact.grad, rtol=0.05, atol=0.05)


def test_only_what_asks_gets_a_gradient():
    q, k, v = leaves("broadcast")
    k.requires_grad_(False)
    jfagen.attention(q, k, v, KEYS).sum().backward()
    assert q.grad is not None and k.grad is None and v.grad is not None


def test_rows_of_nobody_and_sequences_without_partners_have_gradients_of_zero():
    q, k, v = leaves("jagged")
    jfagen.attention(q, k, v, KEYS, QUERIES).sum().backward()
    assert not q.grad[2:].any(), "queries of a sequence without keys, and rows past the last offset"
    for gradient in (k.grad, v.grad):
        assert not gradient[3:].any(), "keys of a sequence without queries, and rows past the last"
        assert gradient[:3].any()


LOSSES = {
    "sum": lambda out: out.sum(),
    "mean over heads": lambda out: out.mean(-2).square().sum(),
    "cat of two": lambda out: torch.cat([out, 2 * out]).sum(0).square().sum(),
    "transposed": lambda out: out.transpose(0, -2).cumsum(0).square().sum(),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("mode", MODES)
def test_strides_of_the_incoming_gradient_change_nothing(mode, loss):
    gradients = []
    for contiguous in (False, True):
        q, k, v = leaves(mode)
        out = jfagen.attention(q, k, v, KEYS, MODES[mode])
        if contiguous:
            out.register_hook(lambda gradient: gradient.contiguous())
        LOSSES[loss](out).backward()
        gradients.append([x.grad for x in (q, k, v)])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


def test_the_gradient_of_a_fused_projection_is_that_of_its_parts():
    fused = torch.randn((12, 3, 2, 8), dtype=torch.float64, requires_grad=True)
    q, k, v = fused.unbind(1)
    jfagen.attention(q, k, v, KEYS, KEYS).square().sum().backward()
    parts = [x.detach().clone().requires_grad_() for x in fused.unbind(1)]
    jfagen.attention(*parts, KEYS, KEYS).square().sum().backward()
    assert torch.equal(fused.grad, torch.stack([x.grad for x in parts], 1))


def test_no_rows_have_no_gradients_but_shapes():
    for batch in (0, 3):
        q = torch.randn((4, 2, 8), requires_grad=True)
        k = torch.randn((0, 2, 8), requires_grad=True)
        v = torch.randn((0, 2, 8), requires_grad=True)
        offsets = torch.zeros(batch + 1, dtype=torch.int32)
        jfagen.attention(q, k, v, offsets).sum().backward()
        assert not q.grad.any() and k.grad.shape == v.grad.shape == (0, 2, 8)


def test_a_second_derivative_is_refused_and_the_reference_has_one():
    q, k, v = leaves("broadcast")
    (first,) = torch.autograd.grad(
        jfagen.attention(q, k, v, KEYS).square().sum(), q, create_graph=True
    )
    with pytest.raises(NotImplementedError, match="cannot be differentiated again"):
        first.square().sum().backward()
    out, _ = reference(q, k, v, KEYS, None, 0.3)
    (first,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
    first.square().sum().backward()


@pytest.mark.parametrize("mode", MODES)
def test_a_training_step_compiles_in_one_graph(mode):
    def step(q, k, v):
        return jfagen.attention(q * 2, k, v, KEYS, MODES[mode]).square().sum()

    gradients = []
    for function in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
        q, k, v = leaves(mode)
        function(q, k, v).backward()
        gradients.append([x.grad for x in (q, k, v)])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("mode", MODES)
def test_both_operators_are_what_torch_expects(mode):
    q, k, v = leaves(mode, torch.float32)
    scale = 0.5
    arguments = (q, k, v, KEYS, MODES[mode], scale, [], True)
    torch.library.opcheck(attention_forward, arguments)
    out, lse = attention_forward(*(x.detach() for x in (q, k, v)), *arguments[3:])
    tensors = [
        x.detach() for x in (torch.randn_like(out), torch.randn_like(lse), q, k, v, out, lse)
    ]
    torch.library.opcheck(attention_backward, (*tensors, KEYS, MODES[mode], scale))
