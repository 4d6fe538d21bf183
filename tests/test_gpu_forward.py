"""The forward on a GPU: right, whatever lies around; the README's third test command runs this."""

from __future__ import annotations

import math
import random

import pytest
import torch
from gpu_bench import (
    NoLaunch,
    check_batch,
    exact,
    layouts,
    normal,
    offsets_of,
    poison,
    watchdog,
)

import jfagen

pytestmark = pytest.mark.gpu

KINDS = [(dtype, head_dim) for dtype in (torch.bfloat16, torch.float16) for head_dim in (128, 64)]
EDGES = [0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 513]


@pytest.fixture(autouse=True)
def _guarded():
    with watchdog():
        yield


def guarded_rows(lengths, heads, head_dim, dtype, seed):
    """Rows of a fused tensor, with NaN before, after and between them: [T, H, D], strided."""
    rows = sum(lengths)
    whole = torch.full((rows + 200, 2, heads, head_dim), math.nan, device="cuda", dtype=dtype)
    inner = whole[100 : 100 + rows, 1]
    inner.copy_(normal(rows, heads, head_dim, dtype, seed))
    return inner


@pytest.mark.parametrize("jagged", [False, True])
@pytest.mark.parametrize(("dtype", "head_dim"), KINDS)
def test_200_random_length_sets_agree_with_float64(dtype, head_dim, jagged, capsys):
    rng = random.Random(f"{dtype}{head_dim}{jagged}")
    worst = 0.0
    for case in range(25):
        batch, heads = rng.randint(1, 9), rng.choice([1, 2, 3, 4])
        pick = [*EDGES, rng.randint(0, 1500), rng.randint(0, 4000)]
        lengths = [rng.choice(pick) for _ in range(batch)]
        poison(0.05)
        k, v = (guarded_rows(lengths, heads, head_dim, dtype, 2 * case + i) for i in (0, 1))
        if jagged:
            rows = [rng.choice(pick[:-1]) for _ in range(batch)]
            q = guarded_rows(rows, heads, head_dim, dtype, case + 10_000)
            q_offsets = offsets_of(rows)
        else:
            q = guarded_rows([rng.choice([1, 5, 64, 128, 200, 512])], heads, head_dim, dtype, case)
            q_offsets = None
        worst = max(worst, check_batch(q, k, v, offsets_of(lengths), q_offsets)[2])
    with capsys.disabled():
        print(
            f"\n{dtype} D {head_dim} jagged {jagged}: 25 sets, largest row error {worst:.2e}",
            end="",
        )


@pytest.mark.parametrize("jagged", [False, True])
def test_a_sequence_alone_and_in_a_batch_is_the_same_bit_for_bit(jagged):
    lengths = [130, 0, 1, 700, 128, 64, 1025]
    rows = [5, 3, 129, 64, 0, 200, 700]
    k, v = (normal(sum(lengths), 3, 128, torch.bfloat16, s) for s in (1, 2))
    kv = offsets_of(lengths)
    q = normal(sum(rows) if jagged else 300, 3, 128, torch.bfloat16, 3)
    qo = offsets_of(rows) if jagged else None
    out, lse = jfagen.attention(q, k, v, kv, qo, return_lse=True)
    for b, length in enumerate(lengths):
        keys = slice(int(kv[b]), int(kv[b + 1]))
        of = slice(int(qo[b]), int(qo[b + 1])) if jagged else slice(None)
        alone = offsets_of([rows[b]]) if jagged else None
        one, log = jfagen.attention(
            q[of], k[keys], v[keys], offsets_of([length]), alone, return_lse=True
        )
        both = (out[of], lse[of]) if jagged else (out[b : b + 1], lse[b : b + 1])
        assert torch.equal(one, both[0]) and torch.equal(log, both[1])


@pytest.mark.parametrize("value", [math.nan, 1e4])
@pytest.mark.parametrize("jagged", [False, True])
def test_neighbours_do_not_matter(jagged, value):
    """Sequences see each other across a border."""
    lengths = [1, 15, 16, 17, 127, 128, 129, 3, 5, 129]
    k, v = (normal(sum(lengths), 2, 64, torch.float16, s) for s in (1, 2))
    kv = offsets_of(lengths)
    rows = sum(lengths) if jagged else 130
    q = normal(rows, 2, 64, torch.float16, 3)
    qo = kv.clone() if jagged else None
    out = jfagen.attention(q, k, v, kv, qo)
    for b in range(len(lengths)):
        dirty = [x.clone() for x in (q, k, v)]
        keep = slice(int(kv[b]), int(kv[b + 1]))
        for x in dirty[0 if jagged else 1 :]:
            saved = x[keep].clone()
            x.fill_(value)
            x[keep] = saved
        again = jfagen.attention(*dirty, kv, qo)
        same = (out[keep], again[keep]) if jagged else (out[b], again[b])
        assert torch.equal(*same)


@pytest.mark.parametrize("tail", [*range(1, 16), 17, 127])
def test_a_partial_tile_does_not_touch_the_next_sequence(tail):
    """The store of the last tile of a sequence runs into its neighbour."""
    lengths = [128 + tail, 128]
    q, k, v = (normal(sum(lengths), 2, 128, torch.bfloat16, s) for s in (1, 2, 3))
    offsets = offsets_of(lengths)
    out = jfagen.attention(q, k, v, offsets, offsets)
    second = slice(128 + tail, None)
    alone = offsets_of([128])
    assert torch.equal(out[second], jfagen.attention(q[second], k[second], v[second], alone, alone))


def test_sequences_without_queries_or_without_keys():
    """Leading empty sequences hang; sequences without queries crash."""
    for rows, lengths in (
        ([0, 0, 1023], [0, 1, 2045]),
        ([0, 1208, 840, 0], [2538, 1742, 840, 3072]),
        ([2538, 1742, 840, 3072], [0, 1208, 840, 0]),
    ):
        q = normal(sum(rows), 4, 128, torch.bfloat16, 1)
        k, v = (normal(sum(lengths), 4, 128, torch.bfloat16, s) for s in (2, 3))
        poison(0.1)
        check_batch(q, k, v, offsets_of(lengths), offsets_of(rows))


def test_rows_past_the_last_offset_are_zeros():
    """Rows that no sequence covers hold whatever was in memory."""
    offsets = offsets_of([144, 288, 512])
    q, k, v = (normal(946, 16, 64, torch.bfloat16, s) for s in (1, 2, 3))
    poison()
    out, lse, _ = check_batch(q, k, v, offsets, offsets)
    assert bool((out[944:] == 0).all()) and bool((lse[944:] == -math.inf).all())


@pytest.mark.parametrize("batch", [0, 8])
def test_empty_batches_launch_nothing(batch, monkeypatch):
    """A rank receives a batch whose total length is 0."""
    from jfagen.runtime.kernels import Wanted, forward_schedule, load

    offsets = torch.zeros(batch + 1, dtype=torch.int32, device="cuda")
    empty = torch.empty(0, 4, 128, device="cuda", dtype=torch.bfloat16)
    q = normal(100, 4, 128, torch.bfloat16, 1)
    schedule = forward_schedule(q.device)
    for jagged in (False, True):
        kernel = load(Wanted(schedule, jagged, 128, torch.bfloat16))
        monkeypatch.setattr(kernel, kernel.KERNEL, NoLaunch())
    out, lse = jfagen.attention(q, empty, empty, offsets, return_lse=True)
    assert out.shape == (batch, 100, 4, 128) and lse.shape == (batch, 4, 100)
    assert bool((out == 0).all()) and bool((lse == -math.inf).all())
    packed, log = jfagen.attention(empty, empty, empty, offsets, offsets, return_lse=True)
    assert packed.shape == (0, 4, 128) and log.shape == (0, 4)
    assert jfagen.attention(q, empty, empty, offsets, offsets).abs().max() == 0


def test_strides_and_alignment_change_nothing():
    """Slices, transposes and odd row strides give wrong results in silence."""
    offsets = offsets_of([130, 0, 570])
    made = layouts(torch.bfloat16)
    for name, x in made.items():
        plain = x.contiguous()
        for jagged in (None, offsets):
            for place in range(3):
                given = [plain] * 3
                given[place] = x
                one = jfagen.attention(*given, offsets, jagged)
                other = jfagen.attention(plain, plain, plain, offsets, jagged)
                assert torch.equal(one, other), (name, place)


def test_int32_and_int64_offsets_give_the_same_bits():
    q, k, v = (normal(400, 2, 128, torch.bfloat16, s) for s in (1, 2, 3))
    lengths = [0, 130, 270]
    for jagged in (False, True):
        outs = []
        for dtype in (torch.int32, torch.int64):
            offsets = offsets_of(lengths, dtype)
            outs.append(jfagen.attention(q, k, v, offsets, offsets if jagged else None))
        assert torch.equal(*outs)


def test_results_do_not_change_from_run_to_run():
    lengths = [random.Random(3).randint(0, 900) for _ in range(40)]
    q, k, v = (
        normal(rows, 4, 128, torch.bfloat16, 1) for rows in (512, sum(lengths), sum(lengths))
    )
    outs = [jfagen.attention(q, k, v, offsets_of(lengths)) for _ in range(5)]
    assert all(torch.equal(outs[0], other) for other in outs[1:])


@pytest.mark.parametrize("sms", [1, 7, 78, 100, 131, 132, 133, 149])
def test_every_tile_once_for_any_grid(sms):
    """Tiles are left undone when the grid is not what was expected."""
    from jfagen.runtime.kernels import Wanted, forward_schedule, load

    lengths = [300, 0, 5, 129, 64, 1000]
    q, k, v = (normal(sum(lengths), 3, 128, torch.bfloat16, s) for s in (1, 2, 3))
    offsets = offsets_of(lengths)
    schedule = forward_schedule(q.device)
    for jagged in (False, True):
        kernel = load(Wanted(schedule, jagged, 128, torch.bfloat16))
        more = (offsets,) if jagged else ()
        poison(0.1)
        mine, _ = kernel.forward(q, k, v, offsets, *more, sms=sms)
        assert torch.equal(mine, jfagen.attention(q, k, v, offsets, *more))


def test_scale_is_honoured():
    q, k, v = (normal(200, 2, 64, torch.float16, s) for s in (1, 2, 3))
    check_batch(q, k, v, offsets_of([60, 140]), scale=0.5)
    check_batch(q, k, v, offsets_of([60, 140]), offsets_of([100, 100]), scale=0.01)


def test_more_than_2_to_the_31_elements():
    """32-bit arithmetic on addresses."""
    batch, queries = 8400, 512
    lengths = [b % 3 for b in range(batch)]
    q, k, v = (normal(rows, 4, 128, torch.bfloat16, 1) for rows in (queries, *[sum(lengths)] * 2))
    out, lse = jfagen.attention(q, k, v, offsets_of(lengths), return_lse=True)
    assert out.numel() > 2**31
    for b in (0, 1, 2, batch // 2, batch - 3, batch - 2, batch - 1):
        start = sum(lengths[:b])
        wanted, logs = exact(q, k[start : start + lengths[b]], v[start : start + lengths[b]])
        assert float((out[b].double() - wanted).abs().max()) < 0.05
        assert torch.allclose(lse[b].T.double(), logs, atol=1e-4)
    del out, lse
    rows = 4_300_000
    k = torch.zeros(rows, 4, 128, device="cuda", dtype=torch.bfloat16)
    k[-300:] = normal(300, 4, 128, torch.bfloat16, 5)
    lengths = [rows - 300, 300]
    q = normal(64, 4, 128, torch.bfloat16, 6)
    offsets = offsets_of(lengths)
    out = jfagen.attention(q, k, k, offsets)
    wanted, _ = exact(q, k[-300:], k[-300:])
    assert float((out[1].double() - wanted).abs().max()) < 0.05
    assert bool((out[0] == 0).all())
    packed = jfagen.attention(
        k[-1000:], k[-1000:], k[-1000:], offsets_of([700, 300]), offsets_of([700, 300])
    )
    assert bool(torch.isfinite(packed.float()).all())
    out = jfagen.attention(k, k[-300:], k[-300:], offsets_of([0, 300]), offsets_of([rows - 64, 64]))
    wanted, _ = exact(k[-64:], k[-300:], k[-300:])
    assert float((out[-64:].double() - wanted).abs().max()) < 0.05
