"""The float64 gradients: those of torch's autograd, zeros where nothing is, and their rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from jfagen.reference import attention_backward, round_to_input

HEADS, HEAD_DIM = 2, 16
#: (keys, queries) of each sequence: without keys, without queries, without both.
SEQUENCES = ((5, 4), (0, 3), (7, 0), (0, 0), (1, 2), (6, 9))
SPARE = 2
KEYS = [0, *np.cumsum([keys for keys, _ in SEQUENCES]).tolist()]
QUERIES = [0, *np.cumsum([queries for _, queries in SEQUENCES]).tolist()]
SHARED_ROWS = 8


def tensors(mode):
    """Return dout, q, k, v and the offsets, rows past the last offsets included."""
    generator = torch.Generator().manual_seed(3)

    def normal(*sizes):
        shape = (*sizes, HEADS, HEAD_DIM)
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    keys = KEYS[-1] + SPARE
    if mode == "packed":
        rows = QUERIES[-1] + SPARE
        return normal(rows), normal(rows), normal(keys), normal(keys), KEYS, QUERIES
    dout = normal(len(SEQUENCES), SHARED_ROWS)
    return dout, normal(SHARED_ROWS), normal(keys), normal(keys), KEYS, None


def by_autograd(mode, scale=None):
    """Return dq, dk and dv as torch finds them."""
    dout, *given, _, _ = tensors(mode)
    q, k, v = (x.requires_grad_() for x in given)
    total = 0 * (q.sum() + k.sum() + v.sum())
    for b in range(len(SEQUENCES)):
        theirs = slice(KEYS[b], KEYS[b + 1])
        mine = slice(QUERIES[b], QUERIES[b + 1]) if mode == "packed" else slice(None)
        if theirs.start == theirs.stop:
            continue
        out = torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(0, 1) for x in (q[mine], k[theirs], v[theirs])), scale=scale
        )
        given = dout[mine] if mode == "packed" else dout[b]
        total = total + (out.transpose(0, 1) * given).sum()
    total.backward()
    return [x.grad.numpy() for x in (q, k, v)]


def by_reference(mode, **how):
    dout, q, k, v, kv_offsets, q_offsets = tensors(mode)
    return attention_backward(*(x.numpy() for x in (dout, q, k, v)), kv_offsets, q_offsets, **how)


@pytest.mark.parametrize("scale", [None, 0.7])
@pytest.mark.parametrize("mode", ["shared", "packed"])
def test_the_gradients_agree_with_autograd(mode, scale):
    for found, theirs in zip(
        by_reference(mode, scale=scale), by_autograd(mode, scale), strict=True
    ):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, theirs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("mode", ["shared", "packed"])
def test_what_no_pair_of_key_and_query_touches_is_exactly_zero(mode):
    dq, dk, dv = by_reference(mode)
    for gradient in (dk, dv):
        assert gradient.shape == (KEYS[-1] + SPARE, HEADS, HEAD_DIM)
        assert not gradient[KEYS[-1] :].any()
    if mode == "packed":
        assert not dq[QUERIES[-1] :].any()
        assert not dq[QUERIES[1] : QUERIES[2]].any(), "queries without keys"
        assert not dk[KEYS[2] : KEYS[3]].any() and not dv[KEYS[2] : KEYS[3]].any(), "keys without"
    assert dq.any() and dk.any() and dv.any()


@pytest.mark.parametrize("offsets", [[0], [0, 0], [0, 0, 0]])
def test_without_any_keys_all_is_zero(offsets):
    q, none = np.ones((3, 1, 4)), np.ones((0, 1, 4))
    dq, dk, dv = attention_backward(np.ones((len(offsets) - 1, 3, 1, 4)), q, none, none, offsets)
    assert dq.shape == q.shape and not dq.any()
    assert dk.shape == dv.shape == none.shape


@pytest.mark.parametrize(("dtype", "bits"), [("bf16", 8), ("fp16", 11)])
@pytest.mark.parametrize("mode", ["shared", "packed"])
def test_the_rounded_gradients_differ_by_a_rounding(mode, dtype, bits):
    exact, rounded = by_reference(mode), by_reference(mode, rounded=True, dtype=dtype)
    for before, after in zip(exact, rounded, strict=True):
        assert np.array_equal(round_to_input(after, dtype), after)
        difference = np.abs(after - before).max()
        assert 0 < difference < 4 * 2.0**-bits * np.abs(before).max()
        # The sums in between round too, not only the result.
        assert not np.array_equal(round_to_input(before, dtype), after)
