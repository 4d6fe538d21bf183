"""The reference of `attention` against float64 numpy, its gradients, its memory, its edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import jfagen
from jfagen.reference import attention as exact
from jfagen.runtime import reference as module
from jfagen.runtime.reference import reference

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
#: Largest error of out, relative to the largest value: one rounding to the type, and of float32.
BOUND = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2**-8, torch.float16: 2**-11}
LSE_BOUND = 1e-5


def offsets_of(lengths, dtype=torch.int64):
    return torch.tensor([0, *np.cumsum(lengths)], dtype=dtype)


def normal(rows, heads, head_dim, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, heads, head_dim, generator=generator, dtype=torch.float64).to(dtype)


def numpy_of(tensor):
    return tensor.detach().double().numpy()


@st.composite
def batches(draw, dtypes=DTYPES, most=40, rows_past=(0, 1, 7)):
    """q, k, v, both offsets (those of q None in broadcast mode) and the scale."""
    lengths = draw(st.lists(st.integers(0, most), max_size=5))
    packed = draw(st.booleans())
    heads, head_dim = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 8, 16]))
    dtype, seed = draw(st.sampled_from(dtypes)), draw(st.integers(0, 2**16))
    of = draw(st.sampled_from([torch.int32, torch.int64]))
    rows = [draw(st.integers(0, most)) for _ in lengths]
    past, keys_past = draw(st.sampled_from(rows_past)), draw(st.sampled_from(rows_past))
    queries = sum(rows) + past if packed else draw(st.integers(0, most))
    q = normal(queries, heads, head_dim, dtype, seed)
    k, v = (normal(sum(lengths) + keys_past, heads, head_dim, dtype, seed + i) for i in (1, 2))
    scale = draw(st.sampled_from([None, 0.05, 1.0, 3.0]))
    return q, k, v, offsets_of(lengths, of), offsets_of(rows, of) if packed else None, scale


def largest_score(q, k, scale):
    """No score can be larger: the product of the longest q and the longest k."""
    longest = [np.linalg.norm(numpy_of(x), axis=2).max(initial=0.0) for x in (q, k)]
    return longest[0] * longest[1] * (q.shape[2] ** -0.5 if scale is None else scale)


@given(batches())
@settings(deadline=None, max_examples=300)
def test_attention_on_a_cpu_is_that_of_float64_numpy(batch):
    q, k, v, kv, qo, scale = batch
    out, lse = jfagen.attention(q, k, v, kv, qo, scale=scale, return_lse=True)
    wanted, logs = exact(
        *map(numpy_of, (q, k, v)), kv.numpy(), None if qo is None else qo.numpy(), scale=scale
    )
    assert out.dtype == q.dtype and lse.dtype == torch.float32
    assert out.shape == wanted.shape and lse.shape == logs.shape
    size = max(1.0, float(np.abs(wanted).max(initial=0.0)))
    # A probability has the relative error of its exponential: the score's absolute one.
    inside = torch.float64 if q.dtype is torch.float64 else torch.float32
    bound = 1.1 * BOUND[q.dtype] + torch.finfo(inside).eps * largest_score(q, k, scale)
    assert np.abs(numpy_of(out) - wanted).max(initial=0.0) <= bound * size
    finite = np.isfinite(logs)
    assert (np.isneginf(numpy_of(lse)) == ~finite).all()
    error = np.abs(numpy_of(lse)[finite] - logs[finite])
    assert (error <= LSE_BOUND * np.maximum(1.0, np.abs(logs[finite]))).all()
    assert torch.equal(out, jfagen.attention(q, k, v, kv, qo, scale=scale))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_error_is_at_most_twice_that_of_torch_in_the_same_type(dtype):
    """Errors are held against float64 of the same rounded inputs."""
    for seed in range(20):
        q, k, v = (normal(n, 2, 64, dtype, 3 * seed + i) for i, n in enumerate((50, 300, 300)))
        wanted = exact(*map(numpy_of, (q, k, v)), [0, 300])[0][0]
        theirs = torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(0, 1)[None] for x in (q, k, v))
        )[0].transpose(0, 1)
        mine = jfagen.attention(q, k, v, offsets_of([300]))[0]
        error = np.abs(numpy_of(mine) - wanted).max()
        assert error <= 2 * np.abs(numpy_of(theirs) - wanted).max() + 1e-6


@given(batches(dtypes=[torch.float64], most=5), st.booleans())
@settings(deadline=None, max_examples=40)
def test_gradients_are_those_of_differences(batch, of_every_input):
    q, k, v, kv, qo, scale = batch
    inputs = [x.clone().requires_grad_(of_every_input or x is q) for x in (q, k, v)]
    assert torch.autograd.gradcheck(
        lambda *given: reference(*given, kv, qo, scale or 0.3)[0], inputs, raise_exception=True
    )


def test_gradients_of_lse_are_those_of_float64():
    q, k, v = (normal(n, 2, 4, torch.float64, n).requires_grad_() for n in (6, 9, 9))
    _, lse = reference(q, k, v, offsets_of([4, 0, 5]), None, 0.5)
    lse[torch.isfinite(lse)].sum().backward()
    mine = q.grad.clone()
    wanted = sum(
        torch.logsumexp(torch.einsum("mhd,nhd->hmn", q, part) * 0.5, -1).sum()
        for part in (k[:4], k[4:])
    )
    (grad,) = torch.autograd.grad(wanted, q)
    assert torch.allclose(mine, grad, atol=1e-6)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("batch", [0, 8])
def test_an_empty_batch_has_zero_gradients(batch, packed):
    """A rank whose batch has a total length of 0 takes part in the backward."""
    q = normal(3, 4, 8, torch.float64, 1).requires_grad_()
    k, v = (torch.empty(0, 4, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    zeros = torch.zeros(batch + 1, dtype=torch.int32)
    out, lse = reference(q, k, v, zeros, zeros if packed else None, 1.0)
    assert bool((out == 0).all()) and bool((lse == -math.inf).all())
    out.sum().backward()
    assert torch.equal(q.grad, torch.zeros_like(q))


def test_constant_values_have_no_gradient_in_queries_and_keys_and_order_of_keys_is_nothing():
    """What must vanish vanishes."""
    q, k = (normal(n, 2, 16, torch.float64, n).requires_grad_() for n in (7, 40))
    v = torch.full((40, 2, 16), 1.5, dtype=torch.float64)
    kv = offsets_of([15, 25])
    weights = normal(14, 2, 16, torch.float64, 5).view(2, 7, 2, 16)
    (reference(q, k, v, kv, None, 0.5)[0] * weights).sum().backward()
    assert float(q.grad.abs().max()) < 1e-13 and float(k.grad.abs().max()) < 1e-13
    order = torch.cat([torch.randperm(15), 15 + torch.randperm(25)])
    v = normal(40, 2, 16, torch.float64, 6)
    one = reference(q, k, v, kv, None, 0.5)[0]
    other = reference(q, k[order], v[order], kv, None, 0.5)[0]
    assert torch.allclose(one, other, rtol=0, atol=1e-14)


class Largest(TorchDispatchMode):
    """Keeps the number of elements of the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for made in result if isinstance(result, tuple | list) else [result]:
            if isinstance(made, torch.Tensor):
                self.elements = max(self.elements, made.numel())
        return result


@pytest.mark.parametrize("packed", [False, True])
def test_never_more_than_the_scores_of_one_block_in_memory(packed, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_ROWS", 16)
    lengths, heads = [300, 0, 170, 299], 2
    k, v = (normal(sum(lengths), heads, 4, torch.float32, s) for s in (1, 2))
    q = normal(400 if packed else 200, heads, 4, torch.float32, 3)
    rows = offsets_of([100, 100, 150, 40]) if packed else None
    with Largest() as seen:
        blocked = reference(q, k, v, offsets_of(lengths), rows, 0.5)
    block = 16 * max(lengths) * heads
    outputs = max(x.numel() for x in (*blocked, k))
    assert block < 100 * max(lengths) * heads and seen.elements <= max(block, outputs)
    assert block > outputs, "the bound would not be seen"
    monkeypatch.setattr(module, "BLOCK_ROWS", 1024)
    whole = reference(q, k, v, offsets_of(lengths), rows, 0.5)
    for one, other in zip(blocked, whole, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("packed", [False, True])
def test_rows_past_the_last_offset_belong_to_nobody(packed):
    """Uncovered rows are defined, whatever lies in them."""
    q, k, v = (normal(946, 2, 8, torch.bfloat16, s) for s in (1, 2, 3))
    kv = offsets_of([144, 288, 512])
    for x in (k, v, q)[: 3 if packed else 2]:
        x[944:] = math.nan
    out, lse = jfagen.attention(q, k, v, kv, kv if packed else None, return_lse=True)
    if packed:
        assert bool((out[944:] == 0).all()) and bool((lse[944:] == -math.inf).all())
        out, lse = out[:944], lse[:944]
    assert bool(torch.isfinite(out).all()) and bool(torch.isfinite(lse).all())
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    found, _ = reference(*leaves, kv, kv if packed else None, 0.3)
    found.sum().backward()
    for x in leaves[0 if packed else 1 :]:
        assert bool((x.grad[944:].nan_to_num() == 0).all())
        assert bool(torch.isfinite(x.grad[:944]).all())


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e4])
@pytest.mark.parametrize("packed", [False, True])
def test_neighbours_do_not_matter(packed, value):
    """Every sequence is isolated from what others hold."""
    lengths = [1, 15, 16, 17, 0, 127, 3, 5, 129]
    q, k, v = (normal(sum(lengths), 2, 8, torch.float16, s) for s in (1, 2, 3))
    kv = offsets_of(lengths)
    qo = kv if packed else None
    out = jfagen.attention(q, k, v, kv, qo)
    for b in range(len(lengths)):
        keep = slice(int(kv[b]), int(kv[b + 1]))
        dirty = [x.clone() for x in (q, k, v)]
        for x in dirty[0 if packed else 1 :]:
            x[: keep.start] = value
            x[keep.stop :] = value
        again = jfagen.attention(*dirty, kv, qo)
        assert torch.equal(*((out[keep], again[keep]) if packed else (out[b], again[b])))


@pytest.mark.parametrize(
    ("rows", "lengths"),
    [
        ([0, 0, 1023], [0, 1, 2045]),
        ([0, 1208, 840, 0], [2538, 1742, 840, 3072]),
        ([2538, 1742, 840, 3072], [0, 1208, 840, 0]),
    ],
)
def test_sequences_without_queries_or_without_keys(rows, lengths):
    """Finite, exact zeros, and no gradient where nobody looked."""
    q = normal(sum(rows), 1, 8, torch.float32, 1).requires_grad_()
    k, v = (normal(sum(lengths), 1, 8, torch.float32, s).requires_grad_() for s in (2, 3))
    kv, qo = offsets_of(lengths), offsets_of(rows)
    out, _ = reference(q, k, v, kv, qo, 0.35)
    assert torch.equal(out, jfagen.attention(*(x.detach() for x in (q, k, v)), kv, qo, scale=0.35))
    out.sum().backward()
    for b in range(len(rows)):
        mine, theirs = slice(int(qo[b]), int(qo[b + 1])), slice(int(kv[b]), int(kv[b + 1]))
        if not lengths[b]:
            assert bool((out[mine] == 0).all()) and bool((q.grad[mine] == 0).all())
        if not rows[b]:
            assert bool((k.grad[theirs] == 0).all()) and bool((v.grad[theirs] == 0).all())
    assert all(bool(torch.isfinite(x.grad).all()) for x in (q, k, v))


def test_scores_that_are_large_do_not_overflow():
    """Field family NUMR: the maximum is taken out before the exponential."""
    q, k, v = (100 * normal(9, 1, 8, torch.float32, s) for s in (1, 2, 3))
    out, lse = jfagen.attention(q, k, v, offsets_of([9]), scale=10.0, return_lse=True)
    wanted, logs = exact(*map(numpy_of, (q, k, v)), [0, 9], scale=10.0)
    assert np.allclose(numpy_of(lse), logs, rtol=1e-6)
    assert bool(torch.isfinite(out).all()) and np.abs(numpy_of(out) - wanted).max() < 1.0


@pytest.mark.parametrize("packed", [False, True])
def test_layouts_of_memory_change_nothing(packed):
    """Slices of a fused projection, transposed and strided rows."""
    dense = normal(70, 4, 8, torch.float32, 1)
    fused = torch.randn(70, 3, 4, 8)
    fused[:, 1] = dense
    every_second = torch.randn(140, 4, 8)
    every_second[::2] = dense
    kv = offsets_of([30, 0, 40])
    wanted = jfagen.attention(dense, dense, dense, kv, kv if packed else None)
    for x in (fused[:, 1], every_second[::2], dense.transpose(0, 1).contiguous().transpose(0, 1)):
        assert not x.is_contiguous()
        for place in range(3):
            given_ = [dense] * 3
            given_[place] = x
            assert torch.equal(jfagen.attention(*given_, kv, kv if packed else None), wanted)
