"""The backward on a GPU: right gradients, whatever lies around."""

from __future__ import annotations

import math
import random
from functools import partial

import pytest
import torch
from gpu_bench import NoLaunch, layouts, poison, watchdog
from gradient_bench import NAMES, GuardedTorch, all_sequences, check, check_directions, make_case
from gradient_bench import normal as random_numbers

import jfagen
from jfagen.runtime.kernels import Wanted, backward_schedule, load

pytestmark = pytest.mark.gpu

KINDS = [(dtype, head_dim) for dtype in (torch.bfloat16, torch.float16) for head_dim in (128, 64)]
EDGES = [0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 513]
on_gpu = partial(make_case, device="cuda")
normal = partial(random_numbers, device="cuda")


@pytest.fixture(autouse=True)
def _guarded():
    with watchdog():
        yield


def kernel_of(case):
    """The module of the generated kernel that sums the gradients of a case."""
    schedule = backward_schedule(case.q.device)
    packed = case.q_offsets is not None
    return load(Wanted(schedule, packed, case.q.shape[2], case.q.dtype))


def same(found, wanted, names=NAMES):
    for name, one, other in zip(NAMES, found, wanted, strict=True):
        assert name not in names or torch.equal(one, other), name


@pytest.mark.parametrize("jagged", [False, True])
@pytest.mark.parametrize(("dtype", "head_dim"), KINDS)
def test_200_random_length_sets_agree_with_float64(dtype, head_dim, jagged, capsys):
    rng = random.Random(f"{dtype}{head_dim}{jagged}")
    worst = 0.0
    for number in range(25):
        batch = rng.randint(1, 9)
        pick = [*EDGES, rng.randint(0, 1000), rng.randint(0, 3000)]
        lengths = [rng.choice(pick) for _ in range(batch)]
        rows = [rng.choice(pick[:-1]) for _ in range(batch)]
        poison(0.02)
        case = on_gpu(
            lengths,
            rows if jagged else rng.choice([1, 5, 63, 64, 65, 128, 200, 512]),
            heads=rng.choice([1, 2, 3, 4]),
            head_dim=head_dim,
            dtype=dtype,
            seed=number,
            lse=bool(number % 2),
            spare=number % 3,
            guards=100,
            scale=None if number % 5 else 0.3,
        )
        worst = max(worst, check(case))
    with capsys.disabled():
        print(f"\n{dtype} D {head_dim} jagged {jagged}: {worst:.2f} of what is allowed", end="")


@pytest.mark.parametrize("lse", [False, True])
@pytest.mark.parametrize("rows", [130, [70, 0, 5, 64]])
@pytest.mark.parametrize(("dtype", "head_dim"), KINDS)
def test_gradients_are_the_slopes_of_the_loss(dtype, head_dim, rows, lse):
    how = {"dtype": dtype, "head_dim": head_dim, "lse": lse, "seed": 3}
    for scale in (None, 0.02, 0.5):
        check_directions(on_gpu([129, 40, 0, 200], rows, **how, scale=scale))


@pytest.mark.parametrize("jagged", [False, True])
@pytest.mark.parametrize(("dtype", "head_dim"), KINDS)
def test_nothing_is_written_past_what_is_allocated(dtype, head_dim, jagged, monkeypatch):
    lengths, rows = [128, 1, 200, 0, 127], [65, 3, 0, 64, 130]
    case = on_gpu(lengths, rows if jagged else 77, head_dim=head_dim, dtype=dtype, lse=True)
    module, guarded = kernel_of(case), GuardedTorch()
    monkeypatch.setattr(module, "torch", guarded)
    check(case)
    guarded.check()


def test_sequences_without_queries_or_without_keys():
    """Leading empty sequences hang; sequences without queries crash."""
    for head_dim in (64, 128):
        for lengths, rows in (
            ([0, 1, 2045], [0, 0, 1023]),
            ([2538, 1742, 840, 3072], [0, 1208, 840, 0]),
            ([0, 1208, 840, 0], [2538, 1742, 840, 3072]),
        ):
            case = on_gpu(lengths, rows, heads=4, head_dim=head_dim)
            poison(0.1)
            found = case.gradients()
            check(case, found)
            for (mine, theirs), length, count in zip(case.ends, lengths, rows, strict=True):
                assert length or not bool(found[0][mine].any())
                assert count or not bool(found[1][theirs].any() or found[2][theirs].any())


@pytest.mark.parametrize("factor", [1, 3])
def test_a_few_queries_and_keys(factor):
    """One key leaves nothing to choose: dq and dk vanish, and nothing is NaN."""
    for rows, lengths in (
        ([76, 34, 146], [1, 1, 1]),
        ([1, 5, 3, 128, 129], [1, 3, 5, 1, 128]),
    ):
        case = on_gpu(lengths, rows, heads=1, dtype=torch.float16)
        case = case.change(q=factor * case.q, k=factor * case.k, v=factor * case.v)
        check(case)


@pytest.mark.parametrize(("lengths", "rows"), [([144, 288, 512], 946), ([137, 349], 698)])
def test_rows_past_the_last_offset_have_no_gradient(lengths, rows):
    """Rows that no sequence covers turn to NaN in the backward."""
    spare = rows - sum(lengths)
    fused = normal((rows, 3, 16, 64), torch.bfloat16, 5)
    case = on_gpu(lengths, lengths, heads=16, spare=spare)
    case = case.change(q=fused[:, 0], k=fused[:, 1], v=fused[:, 2])
    poison()
    found = case.gradients()
    assert all(not bool(x[-spare:].any()) for x in found)
    check(case, found)


@pytest.mark.parametrize("batch", [0, 8])
def test_empty_batches_launch_nothing(batch, monkeypatch):
    case = on_gpu([0] * batch, 100, heads=4, head_dim=128)
    packed = on_gpu([0] * batch, [0] * batch, heads=4, head_dim=128)
    for one in (case, packed):
        module = kernel_of(one)
        for name in (module.KERNEL, f"{module.KERNEL}_preprocess", f"{module.KERNEL}_postprocess"):
            monkeypatch.setattr(module, name, NoLaunch())
    for one in (case, packed):
        found = one.gradients()
        assert [x.shape for x in found] == [x.shape for x in one.leaves]
        assert not any(bool(x.any()) for x in found)


@pytest.mark.parametrize("jagged", [False, True])
@pytest.mark.parametrize(("dtype", "head_dim"), KINDS)
def test_what_memory_held_before_does_not_matter(dtype, head_dim, jagged):
    """Scratch that is laid out or padded in two ways is right until other tests ran before."""
    for lengths in ([128, 1, 200], [128, 300], [1, 127, 129]):
        rows = lengths[::-1] if jagged else 130
        case = on_gpu(lengths, rows, head_dim=head_dim, dtype=dtype)
        torch.cuda.empty_cache()
        first = case.gradients()
        poison(0.1)
        again = case.gradients()
        check(case, again)
        same(first, again, ("dk", "dv"))


def test_strides_and_alignment_change_nothing():
    """Slices, transposes and odd row strides give wrong gradients in silence."""
    lengths = [130, 0, 570]
    for rows in (700, lengths):
        case = on_gpu(lengths, rows, heads=4, head_dim=128)
        for name, x in layouts(torch.bfloat16).items():
            for place in ("q", "k", "v"):
                found, wanted = (case.change(**{place: y}).gradients() for y in (x, x.contiguous()))
                assert torch.equal(found[1], wanted[1]), (name, place)
                assert torch.equal(found[2], wanted[2]), (name, place)
                torch.testing.assert_close(found[0], wanted[0], rtol=0.01, atol=0.01)


@pytest.mark.parametrize("tail", [*range(1, 16), 17, 127])
def test_a_partial_tile_does_not_touch_the_next_sequence(tail):
    """A store of the last block of a sequence runs into its neighbour."""
    lengths = [128 + tail, 128]
    case = on_gpu(lengths, lengths, head_dim=128)
    second = slice(128 + tail, None)
    alone = on_gpu([128], [128], head_dim=128).change(
        **{name: getattr(case, name)[second] for name in ("q", "k", "v", "dout")}
    )
    # 128 keys are one block: dq is not a sum of several, and so it is the same too.
    same([x[second] for x in case.gradients()], alone.gradients())


@pytest.mark.parametrize("value", [math.nan, 1e4])
@pytest.mark.parametrize("jagged", [False, True])
def test_neighbours_do_not_matter(jagged, value):
    """Sequences see each other across a border; dq of one block of keys is no sum of several."""
    lengths = [1, 15, 16, 17, 127, 128, 129, 3, 5, 129]
    case = on_gpu(lengths, lengths if jagged else 130, dtype=torch.float16)
    clean = case.gradients()
    for mine, theirs in case.ends:
        dirty = {}
        for name in ("q", "k", "v", "dout")[0 if jagged else 1 : 4 if jagged else 3]:
            x = getattr(case, name)
            dirty[name] = torch.full_like(x, value)
            dirty[name][theirs] = x[theirs]
        found = case.change(**dirty).gradients()
        places = (mine, theirs, theirs)
        parts = [[x[at] for x, at in zip(y, places, strict=True)] for y in (found, clean)]
        same(*parts, NAMES if jagged and theirs.stop - theirs.start <= 128 else NAMES[1:])
        assert not jagged or bool(torch.isfinite(found[0][mine]).all())


def test_dk_and_dv_do_not_change_from_run_to_run():
    """Where a CTA begins, and so their last bits, follows from the batch and the grid alone."""
    rng = random.Random(3)
    lengths = [rng.randint(0, 900) for _ in range(30)]
    case = on_gpu(lengths, 300, heads=4, head_dim=128)
    first = case.gradients()
    for _ in range(5):
        again = case.gradients()
        same(first, again, ("dk", "dv"))
    order = rng.sample(range(30), 30)
    rows = torch.cat([torch.arange(*case.kv_offsets[b : b + 2].tolist()) for b in order]).cuda()
    moved = on_gpu([lengths[b] for b in order], 300, heads=4, head_dim=128)
    moved = moved.change(q=case.q, k=case.k[rows], v=case.v[rows], dout=case.dout[order])
    check(moved, moved.gradients())


@pytest.mark.parametrize("sms", [1, 7, 78, 131, 132, 133, 149])
def test_every_tile_once_for_any_grid(sms):
    lengths, rows = [300, 0, 5, 129, 64, 1000], [100, 64, 3, 0, 200, 65]
    for given in (rows, 100):
        case = on_gpu(lengths, given, heads=3, head_dim=128)
        out, lse = jfagen.attention(
            case.q, case.k, case.v, case.kv_offsets, case.q_offsets, return_lse=True
        )
        more = () if case.q_offsets is None else (case.q_offsets,)
        poison(0.1)
        found = kernel_of(case).backward(
            case.dout, case.q, case.k, case.v, out, lse, case.kv_offsets, *more, sms=sms
        )
        check(case, found)


def test_dq_of_one_q_stays_accurate_however_many_sequences_add_to_it():
    """Sums of many parts in 16 bits lose what float32 keeps."""
    errors = []
    for batch in (1, 8, 1152):
        rng = random.Random(batch)
        lengths = [rng.randint(0, 1000) for _ in range(batch - 1)] + [500]
        case = on_gpu(lengths, 64, heads=4, head_dim=128)
        dq, *_ = case.gradients()
        (wanted, *_), _ = all_sequences(case)
        errors.append(float((dq.double() - wanted).norm() / wanted.norm()))
    assert errors[2] <= 2 * errors[1] and errors[1] <= 2 * errors[0], errors


def test_a_loss_on_lse_alone_has_gradients_and_none_of_v():
    for rows in (200, [64, 130, 0, 7]):
        case = on_gpu([300, 0, 5, 129], rows, lse=True)
        case = case.change(dout=torch.zeros_like(case.dout), dlse=torch.ones_like(case.dlse))
        found = case.gradients()
        check(case, found)
        assert not bool(found[2].any()) and bool(found[0].any()) and bool(found[1].any())


def test_values_that_are_all_equal_leave_dq_and_dk_to_rounding():
    """Half precision makes much of nothing: what is allowed is what rounding of out explains."""
    for seed in range(20):
        case = on_gpu([513, 130], [200, 129], head_dim=128, seed=seed)
        check(case.change(v=case.v[:1].expand_as(case.v)))


def test_keys_that_change_places_take_their_gradients_along():
    case = on_gpu([400], 130, head_dim=128)
    order = torch.randperm(400, device="cuda")
    dq, dk, dv = case.gradients()
    moved = case.change(k=case.k[order], v=case.v[order]).gradients()
    scale = float(dk.abs().max())
    for one, other in ((moved[0], dq), (moved[1], dk[order]), (moved[2], dv[order])):
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.01 * scale)


def test_many_sequences():
    """A grid axis that holds 65,535."""
    case = on_gpu([4] * 70_000, [4] * 70_000, heads=1)
    whole = case.gradients()
    for half in (slice(0, 140_000), slice(140_000, None)):
        part = on_gpu([4] * 35_000, [4] * 35_000, heads=1).change(
            **{name: getattr(case, name)[half] for name in ("q", "k", "v", "dout")}
        )
        same(part.gradients(), [x[half] for x in whole])
