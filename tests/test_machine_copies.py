"""TMA at ragged borders, stores and masks, order of matrix products, aliases, named barriers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_machine_kernels import edit

from jfagen.machine import Fault, Kind, Race, simulate

HEADER = """
import torch
import triton.language as tl
import triton
import triton.language.extra.tlx as tlx
from triton.tools.ragged_tma import create_ragged_descriptor
from triton.tools.tensor_descriptor import TensorDescriptor

"""

ACCUMULATOR = "tlx.local_alloc((64, 64), tl.float32, 1, tlx.storage_kind.tmem)"

RAGGED = (
    HEADER
    + """
@triton.jit
def copy(source, target, offsets):
    tiles = tlx.local_alloc((32, 16), tl.bfloat16, 1)
    full = tlx.alloc_barriers(1)
    sequence = tl.program_id(0)
    start = tl.load(offsets + sequence)
    rows = tl.load(offsets + sequence + 1) - start
    for step in range(0, tl.cdiv(rows, 32)):
        at = [2**30, start + rows, 2**30 - rows + step * 32, 0]
        tlx.barrier_expect_bytes(full[0], 32 * 16 * 2)
        tlx.async_descriptor_load(source, tiles[0], at, full[0])
        tlx.barrier_wait(full[0], step & 1)
        tlx.async_descriptor_store(target, tiles[0], at)
        tlx.async_descriptor_store_wait(0)


def forward(x, offsets):
    out = torch.full_like(x, 7.0)
    descriptors = [create_ragged_descriptor(t, [32, 16]) for t in (x, out)]
    copy[(offsets.numel() - 1,)](*descriptors, offsets, num_warps=4)
    return out
"""
)


def ragged(lengths):
    offsets = torch.tensor(np.cumsum([0, *lengths]), dtype=torch.int32)
    x = torch.randn((int(offsets[-1]), 16), generator=torch.Generator().manual_seed(0))
    return x.to(torch.bfloat16), offsets


def test_ragged_copies_touch_exactly_their_rows():
    x, offsets = ragged([0, 1, 31, 32, 33, 0, 70])
    outcome = simulate(RAGGED, inputs={"x": x, "offsets": offsets})
    assert outcome.ok, outcome.text()
    assert np.array_equal(outcome.outputs[0], x.float().numpy())


def test_rows_past_the_end_of_a_sequence_read_zero_and_not_the_neighbour():
    text = edit(
        RAGGED,
        "        tlx.async_descriptor_store(target, tiles[0], at)",
        "        at = [2**30, start + 32, 2**30 - 32 + step * 32, 0]\n"
        "        tlx.async_descriptor_store(target, tiles[0], at)",
    )
    x, offsets = ragged([33, 60])
    x[33:] = float("nan")
    outcome = simulate(text, inputs={"x": x, "offsets": offsets[:2]})
    assert outcome.ok, outcome.text()
    # Rows 0 to 32 are stored by the first step; the second step's box ends at row 32 and is cut.
    assert np.array_equal(outcome.outputs[0][:32], x[:32].float().numpy())
    assert (outcome.outputs[0][32:] == 7.0).all()


def test_a_plain_descriptor_at_a_border_lets_the_neighbours_nan_through():
    text = edit(
        RAGGED, "[2**30, start + rows, 2**30 - rows + step * 32, 0]", "[start + step * 32, 0]"
    )
    text = edit(
        text, "create_ragged_descriptor(t, [32, 16])", "TensorDescriptor.from_tensor(t, [32, 16])"
    )
    x, offsets = ragged([33, 60])
    outcome = simulate(text, inputs={"x": x, "offsets": offsets}, sms=1)
    assert outcome.kind is Kind.FAULT
    assert outcome.reports[0].rule == "double-write"


def test_coordinates_outside_the_storage_are_a_fault():
    text = edit(RAGGED, "start + rows, 2**30 - rows", "start + rows + 900, 2**30 - rows")
    x, offsets = ragged([33])
    (fault,) = simulate(text, inputs={"x": x, "offsets": offsets}).reports
    assert isinstance(fault, Fault)
    assert fault.rule == "out-of-bounds"


MASKED = (
    HEADER
    + """
@triton.jit
def scale(source, target, count):
    rows = tl.program_id(0) * 64 + tl.arange(0, 64)
    x = tl.load(source + rows, mask=rows < count, other=0.0)
    tl.store(target + rows, x * 2, mask=rows < count)


def forward(x):
    out = torch.empty_like(x)
    scale[(2,)](x, out, x.numel(), num_warps=4)
    return out
"""
)


def test_masked_loads_and_stores():
    x = torch.arange(100, dtype=torch.float32)
    outcome = simulate(MASKED, inputs={"x": x})
    assert outcome.ok, outcome.text()
    assert np.array_equal(outcome.outputs[0], 2 * x.numpy())


@pytest.mark.parametrize("part", ["x * 2, mask=rows < count", "source + rows, mask=rows < count"])
def test_without_its_mask_an_access_is_out_of_bounds(part):
    text = edit(MASKED, part, part.replace(", mask=rows < count", "").replace(", other=0.0", ""))
    text = text.replace("rows, other=0.0", "rows")
    (fault,) = simulate(text, inputs={"x": torch.arange(100, dtype=torch.float32)}).reports
    assert fault.rule == "out-of-bounds"


CHAIN = (
    HEADER
    + """
@triton.jit
def chain(x_desc, out):
    x = tlx.local_alloc((64, 64), tl.bfloat16, 1)
    spec = tlx.storage_alias_spec(storage=tlx.storage_kind.tmem)
    s = tlx.local_alloc((64, 64), tl.float32, 1, tlx.storage_kind.tmem, reuse=spec)
    p = tlx.local_alloc((64, 64), tl.bfloat16, 1, tlx.storage_kind.tmem, reuse=spec)
    acc = tlx.local_alloc((64, 64), tl.float32, 1, tlx.storage_kind.tmem)
    loaded = tlx.alloc_barriers(1)
    s_full = tlx.alloc_barriers(1)
    p_full = tlx.alloc_barriers(1)
    done = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        # soft: between the two products (chain.sched:2)
        with tlx.async_task("default"):
            tlx.barrier_wait(s_full[0], 0)
            tlx.local_store(p[0], tlx.local_load(s[0]).to(tl.bfloat16))
            tlx.barrier_arrive(p_full[0])
            tlx.barrier_wait(done[0], 0)
            at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
            tl.store(out + at, tlx.local_load(acc[0]))
        # mma: x x, then (x x) x over the same columns (chain.sched:3)
        with tlx.async_task(num_warps=1, registers=24):
            tlx.barrier_expect_bytes(loaded[0], 64 * 64 * 2)
            tlx.async_descriptor_load(x_desc, x[0], [0, 0], loaded[0])
            tlx.barrier_wait(loaded[0], 0)
            tlx.async_dot(x[0], x[0], s[0], use_acc=False, mBarriers=[s_full[0]])
            tlx.barrier_wait(p_full[0], 0)
            tlx.async_dot(p[0], x[0], acc[0], use_acc=False, force_async=True)
            tlx.async_dot(x[0], x[0], s[0], use_acc=False, force_async=True)
            tlx.tcgen05_commit(done[0])


def forward(x):
    out = torch.empty((64, 64), dtype=torch.float32)
    chain[(1,)](TensorDescriptor.from_tensor(x, [64, 64]), out, num_warps=4)
    return out
"""
)


def chain_input():
    x = torch.randn((64, 64), generator=torch.Generator().manual_seed(0)) / 8
    return x.to(torch.bfloat16)


@pytest.mark.parametrize("policy", ["random", "late", "at_once"])
def test_products_of_one_role_execute_in_order(policy):
    """The last product overwrites the columns that the one before still has to read."""
    x = chain_input()
    outcome = simulate(CHAIN, inputs={"x": x}, policy=policy)
    assert outcome.ok, outcome.text()
    first = (x.float() @ x.float()).to(torch.bfloat16).float()
    np.testing.assert_allclose(
        outcome.outputs[0], (first @ x.float()).numpy(), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("policy", ["random", "late", "at_once"])
def test_an_overlap_in_tmem_that_nothing_orders_is_a_race(policy):
    early = "            tlx.async_dot(x[0], x[0], s[0], use_acc=False, force_async=True)\n"
    text = edit(CHAIN, early, "")
    text = edit(
        text,
        "            tlx.barrier_wait(p_full[0], 0)\n",
        f"{early}            tlx.barrier_wait(p_full[0], 0)\n",
    )
    (race,) = simulate(text, inputs={"x": chain_input()}, policy=policy).reports
    assert isinstance(race, Race)
    assert {race.first.place.role, race.second.place.role} == {"soft", "mma"}
    assert {race.first.buffer, race.second.buffer} & {"s[0]", "p[0]"}


def test_stale_columns_show_as_nan():
    text = edit(CHAIN, "tlx.local_store(p[0], tlx.local_load(s[0]).to(tl.bfloat16))", "pass")
    text = edit(text, "async_dot(p[0], x[0], acc[0]", "async_dot(x[0], x[0], acc[0]")
    text = edit(text, "tlx.local_load(acc[0]))", "tlx.local_load(unused[0]))")
    text = edit(
        text,
        "    loaded =",
        f"    unused = {ACCUMULATOR}\n    loaded =",
    )
    outcome = simulate(text, inputs={"x": chain_input()})
    assert outcome.ok, outcome.text()
    assert np.isnan(outcome.outputs[0]).all()


TURNS = (
    HEADER
    + """
@triton.jit
def turns(out):
    box = tlx.local_alloc((128,), tl.int32, 1)
    with tlx.async_tasks():
        # writer: fills the box (turns.sched:1)
        with tlx.async_task("default"):
            tlx.local_store(box[0], tl.arange(0, 128))
            tlx.named_barrier_arrive(9, 256)
        # reader: empties it (turns.sched:2)
        with tlx.async_task(num_warps=4, registers=64):
            tlx.named_barrier_wait(9, 256)
            tl.store(out + tl.arange(0, 128), tlx.local_load(box[0]))


def forward():
    out = torch.zeros(128, dtype=torch.int32)
    turns[(1,)](out, num_warps=4)
    return out
"""
)


@pytest.mark.parametrize("seed", range(4))
def test_named_barriers_order_two_roles(seed):
    outcome = simulate(TURNS, inputs={}, seed=seed)
    assert outcome.ok, outcome.text()
    assert np.array_equal(outcome.outputs[0], np.arange(128))


@pytest.mark.parametrize("seed", range(4))
def test_without_the_named_barrier_they_race(seed):
    text = edit(TURNS, "tlx.named_barrier_wait(9, 256)", "pass")
    assert simulate(text, inputs={}, seed=seed).kind is Kind.RACE


def test_a_named_barrier_that_too_few_reach_is_a_deadlock():
    text = edit(TURNS, "tlx.named_barrier_arrive(9, 256)", "pass")
    (report,) = simulate(text, inputs={}).reports
    assert "128 of 256 threads in" in report.text()
    assert "turns.sched:2" in report.text()


def test_a_missing_proxy_fence_of_the_writer_is_noted_once():
    text = edit(TURNS, "tl.int32", "tl.bfloat16").replace("(128,), tl.b", "(64, 32), tl.b")
    text = edit(text, "tl.arange(0, 128))\n", "tl.zeros((64, 32), tl.bfloat16))\n")
    text = edit(
        text,
        "tl.store(out + tl.arange(0, 128), tlx.local_load(box[0]))",
        "tlx.async_dot(box[0], tlx.local_trans(box[0]), acc[0], use_acc=False)",
    )
    text = edit(
        text,
        "    with tlx.async_tasks",
        f"    acc = {ACCUMULATOR}\n    with tlx.async_tasks",
    )
    (note,) = simulate(text, inputs={}).notes
    assert "`box`" in note and note.count(", line ") == 2
    fenced = edit(
        text,
        "            tlx.named_barrier_arrive",
        '            tlx.fence("async_shared")\n            tlx.named_barrier_arrive',
    )
    assert simulate(fenced, inputs={}).notes == ()


COUNTER = (
    HEADER
    + """
@triton.jit
def draw(counter, out):
    ticket = tl.atomic_add(counter, 1)
    tl.store(out + ticket, ticket)
    tl.atomic_add(counter + 1 + tl.arange(0, 4), tl.arange(0, 4), mask=tl.arange(0, 4) < 3)


def forward():
    counter, out = torch.zeros(5, dtype=torch.int32), torch.full((6,), -1, dtype=torch.int32)
    draw[(6,)](counter, out, num_warps=4)
    return counter, out
"""
)


@pytest.mark.parametrize("sms", [1, 4, 8])
def test_a_global_counter_gives_every_cta_another_ticket(sms):
    outcome = simulate(COUNTER, inputs={}, sms=sms)
    assert outcome.ok, outcome.text()
    assert outcome.outputs[0].tolist() == [6, 0, 6, 12, 0]
    assert outcome.outputs[1].tolist() == list(range(6))


PADDED = (
    HEADER
    + """
@triton.jit
def copy(x, out, PADDING: tl.constexpr):
    tiles = tlx.local_alloc((16, 16), tl.bfloat16, 1)
    full = tlx.alloc_barriers(1)
    source = tl.make_tensor_descriptor(x, [8, 16], [16, 1], [16, 16], padding_option=PADDING)
    target = tl.make_tensor_descriptor(out, [16, 16], [16, 1], [16, 16])
    tlx.barrier_expect_bytes(full[0], 16 * 16 * 2)
    tlx.async_descriptor_load(source, tiles[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.async_descriptor_store(target, tiles[0], [0, 0])
    tlx.async_descriptor_store_wait(0)


def forward(padding):
    x = torch.ones((8, 16), dtype=torch.bfloat16)
    out = torch.zeros((16, 16), dtype=torch.bfloat16)
    copy[(1,)](x, out, padding, num_warps=4)
    return out
"""
)


@pytest.mark.parametrize(("padding", "value"), [("zero", 0.0), ("nan", np.nan)])
def test_rows_outside_a_tensor_are_padded_as_the_descriptor_says(padding, value):
    outcome = simulate(PADDED, inputs={"padding": padding})
    assert outcome.ok, outcome.reports
    np.testing.assert_array_equal(outcome.outputs[0][:8], 1.0)
    np.testing.assert_array_equal(outcome.outputs[0][8:], value)


def test_an_unknown_padding_and_an_unknown_scope_of_a_fence_are_faults():
    (report,) = simulate(PADDED, inputs={"padding": "ones"}).reports
    assert isinstance(report, Fault) and report.message == "padding `ones` is none of zero, nan"
    text = edit(PADDED, "tlx.barrier_wait(full[0], 0)", 'tlx.fence("nobody")')
    (report,) = simulate(text, inputs={"padding": "zero"}).reports
    assert isinstance(report, Fault) and report.message == "unknown fence scope nobody"
