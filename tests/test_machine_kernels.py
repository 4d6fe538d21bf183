"""A small kernel for the tests of the CPU machine, and ways to break it.

Three roles multiply bfloat16 matrices: out[t] = a[t] @ b.T for row tiles t, in steps along k.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from jfagen.machine import Kind, simulate

KERNEL = """
import torch
import triton
import triton.language as tl
import triton.language.extra.tlx as tlx
from triton.tools.tensor_descriptor import TensorDescriptor

DEPTH = tl.constexpr(2)
ROWS = tl.constexpr(64)
COLUMNS = tl.constexpr(32)
K = tl.constexpr(32)


@triton.jit
def ring(count, depth: tl.constexpr):
    return count % depth, (count // depth) & 1


@triton.jit
def product(a_desc, b_desc, out_desc, steps):
    dtype: tl.constexpr = tlx.dtype_of(a_desc)
    a_tiles = tlx.local_alloc((ROWS, K), dtype, DEPTH)
    b_tiles = tlx.local_alloc((COLUMNS, K), dtype, DEPTH)
    out_tiles = tlx.local_alloc((ROWS, COLUMNS), dtype, 1)
    acc_tiles = tlx.local_alloc((ROWS, COLUMNS), tl.float32, 1, tlx.storage_kind.tmem)
    full = tlx.alloc_barriers(DEPTH)
    empty = tlx.alloc_barriers(DEPTH)
    acc_full = tlx.alloc_barriers(1)
    acc_empty = tlx.alloc_warp_barrier(1, num_warps=4)
    tiles = tlx.clc_create_context(num_consumers=3)

    with tlx.async_tasks():
        # drain: the accumulator through memory to the result (small.sched:3)
        with tlx.async_task("default"):
            tile = tl.program_id(0)
            count = 0
            while tile != -1:
                tlx.barrier_wait(acc_full[0], count & 1)
                values = tlx.local_load(acc_tiles[0])
                tlx.barrier_arrive(acc_empty[0])
                tlx.local_store(out_tiles[0], values.to(dtype))
                tlx.fence("async_shared")
                tlx.async_descriptor_store(out_desc, out_tiles[0], [tile * ROWS, 0])
                tlx.async_descriptor_store_wait(0)
                tile = tlx.clc_consumer(tiles, count & 1, multi_ctas=False)
                count += 1

        # mma: one product a step (small.sched:4)
        with tlx.async_task(num_warps=1, registers=24):
            tile = tl.program_id(0)
            count = 0
            use = 0
            while tile != -1:
                tlx.barrier_wait(acc_empty[0], (count & 1) ^ 1)
                for step in range(0, steps):
                    slot, phase = ring(use, DEPTH)
                    tlx.barrier_wait(full[slot], phase)
                    tlx.async_dot(
                        a_tiles[slot],
                        tlx.local_trans(b_tiles[slot]),
                        acc_tiles[0],
                        use_acc=step > 0,
                        mBarriers=[empty[slot]],
                    )
                    use += 1
                tlx.tcgen05_commit(acc_full[0])
                tile = tlx.clc_consumer(tiles, count & 1, multi_ctas=False)
                count += 1

        # load: a and b in a ring of two (small.sched:5)
        with tlx.async_task(num_warps=1, registers=24):
            tile = tl.program_id(0)
            count = 0
            use = 0
            while tile != -1:
                tlx.clc_producer(tiles, (count & 1) ^ 1, multi_ctas=False)
                for step in range(0, steps):
                    slot, phase = ring(use, DEPTH)
                    tlx.barrier_wait(empty[slot], phase ^ 1)
                    tlx.barrier_expect_bytes(full[slot], 2 * (ROWS + COLUMNS) * K)
                    at = [tile * ROWS, step * K]
                    tlx.async_descriptor_load(a_desc, a_tiles[slot], at, full[slot])
                    tlx.async_descriptor_load(b_desc, b_tiles[slot], [0, step * K], full[slot])
                    use += 1
                tile = tlx.clc_consumer(tiles, count & 1, multi_ctas=False)
                count += 1


def forward(a, b):
    rows, depth = a.shape
    out = torch.empty((rows, COLUMNS.value), dtype=a.dtype)
    a_desc = TensorDescriptor.from_tensor(a, [ROWS.value, K.value])
    b_desc = TensorDescriptor.from_tensor(b, [COLUMNS.value, K.value])
    out_desc = TensorDescriptor.from_tensor(out, [ROWS.value, COLUMNS.value])
    grid = (triton.cdiv(rows, ROWS.value),)
    product[grid](a_desc, b_desc, out_desc, depth // K.value, num_warps=4)
    return out
"""


def inputs(tiles=5, steps=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn((64 * tiles, 32 * steps), generator=generator).to(torch.bfloat16)
    b = torch.randn((32, 32 * steps), generator=generator).to(torch.bfloat16)
    return {"a": a, "b": b}


def expected(given):
    return (given["a"].float() @ given["b"].float().T).to(torch.bfloat16).float().numpy()


def edit(text, old, new, count=1):
    """Replace a part of the text that must be there exactly `count` times."""
    assert text.count(old) == count, (text.count(old), old)
    return text.replace(old, new)


def without(text, line):
    return edit(text, line, "pass")


def line_of(text, part):
    (number,) = (n for n, line in enumerate(text.splitlines(), 1) if part in line)
    return number


def run(text=KERNEL, given=None, **options):
    return simulate(text, inputs=inputs() if given is None else given, **options)


def assert_right(outcome, given):
    assert outcome.kind is Kind.RESULTS, outcome.text()
    np.testing.assert_allclose(outcome.outputs[0], expected(given), rtol=2**-7, atol=2**-6)


@pytest.mark.parametrize("policy", ["random", "late", "at_once", "starve=mma", "starve=load"])
def test_every_policy_gives_the_same_result(policy):
    given = inputs()
    outcome = run(given=given, policy=policy, seed=3)
    assert_right(outcome, given)
    assert np.array_equal(outcome.outputs[0], run(given=given).outputs[0])


def test_the_small_kernel_is_clean():
    outcome = run()
    assert outcome.notes == ()
    assert outcome.steps > 0


def test_seeds_make_different_traces_and_one_seed_always_the_same():
    traces = {run(seed=seed).trace for seed in range(10)}
    assert len(traces) == 10
    assert run(seed=4).trace == run(seed=4).trace


@pytest.mark.parametrize("sms", [1, 2, 3, 4, 5])
def test_clc_deals_every_tile_exactly_once(sms):
    given = inputs(tiles=7)
    outcome = run(given=given, sms=sms)
    assert_right(outcome, given)
    assert sorted(tile for tiles in outcome.tiles for tile in tiles) == list(range(7))


def test_outputs_that_nothing_wrote_are_nan():
    text = edit(KERNEL, "grid = (triton.cdiv(rows, ROWS.value),)", "grid = (1,)")
    outcome = run(text)
    assert np.isnan(outcome.outputs[0][64:]).all()
    assert np.isfinite(outcome.outputs[0][:64]).all()
