"""Multiplications into registers: what may read their operands and results, and when."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_machine_copies import ACCUMULATOR, HEADER
from test_machine_kernels import edit, line_of

from jfagen.machine import Fault, Kind, Policy, PolicyName, Race, simulate
from jfagen.machine.loader import Keep

#: out = x.T + x @ y + relu(x) @ y, and the same tile once more through a descriptor.
KERNEL = (
    HEADER
    + """
@triton.jit
def products(x_desc, y_desc, out, out_desc):
    x = tlx.local_alloc((64, 64), tl.bfloat16, 1)
    y = tlx.local_alloc((64, 64), tl.bfloat16, 2)
    spare = tlx.local_alloc((64, 64), tl.float32, 1)
    full = tlx.alloc_barriers(2)
    empty = tlx.alloc_barriers(1)
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    with tlx.async_tasks():
        # load: both tiles, then the second again
        with tlx.async_task("default"):
            tlx.barrier_expect_bytes(full[0], 2 * 64 * 64 * 2)
            tlx.async_descriptor_load(x_desc, x[0], [0, 0], full[0])
            tlx.async_descriptor_load(y_desc, y[0], [0, 0], full[0])
            tlx.barrier_wait(empty[0], 0)
            tlx.barrier_expect_bytes(full[1], 64 * 64 * 2)
            tlx.async_descriptor_load(y_desc, y[0], [0, 0], full[1])
        # multiply: two products and their sum
        with tlx.async_task(num_warps=4, registers=232):
            tlx.barrier_wait(full[0], 0)
            held = x_desc.load([0, 0])
            start = tl.trans(held).to(tl.float32)
            first = tlx.async_dot(x[0], y[0])
            positive = tl.maximum(held, 0.0).to(tl.bfloat16)
            acc = tlx.async_dot(positive, y[0], start)
            first = tlx.async_dot_wait(1, first)
            total = first * 1.0
            acc = tlx.async_dot_wait(0, acc)
            tlx.barrier_arrive(empty[0])
            total = total + acc
            tlx.barrier_wait(full[1], 0)
            tl.store(out + at, total)
            out_desc.store([0, 0], total)


def forward(x, y):
    out, copy = (torch.empty((64, 64), dtype=torch.float32) for _ in range(2))
    tiles = [TensorDescriptor.from_tensor(tensor, [64, 64]) for tensor in (x, y, copy)]
    products[(1,)](tiles[0], tiles[1], out, tiles[2], num_warps=4)
    return out, copy
"""
)
ALL_POLICIES = ["random", "late", "at_once", "starve=load", "starve=multiply"]
ACC_WAIT = "acc = tlx.async_dot_wait(0, acc)"
ACC_DOT = "acc = tlx.async_dot(positive, y[0], start)"


def inputs():
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randn((64, 64), generator=generator).to(torch.bfloat16) for _ in range(2))
    return {"x": x, "y": y}


def run(text, **options):
    return simulate(text, inputs=inputs(), **options)


def fault(text, **options):
    outcome = run(text, **options)
    assert outcome.kind is Kind.FAULT, outcome.text()
    (report,) = outcome.reports
    assert isinstance(report, Fault)
    return report


def is_right(text, expected=None, **options):
    outcome = run(text, **options)
    assert outcome.ok, outcome.text()
    x, y = (tensor.float() for tensor in inputs().values())
    if expected is None:
        expected = x.T + x @ y + x.clamp(min=0) @ y
    for output in outcome.outputs:
        np.testing.assert_allclose(output, expected.numpy(), rtol=1e-4, atol=1e-4)
    return outcome


@pytest.mark.parametrize("policy", ALL_POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_operands_from_registers_and_buffers_give_the_right_sum(policy, seed):
    assert is_right(KERNEL, policy=policy, seed=seed).notes == ()


@pytest.mark.parametrize("policy", ["random", "late", "at_once"])
def test_a_pending_accumulator_goes_on_into_the_next_multiplication(policy):
    text = edit(KERNEL, ACC_DOT, f"acc = tlx.async_dot(x[0], tlx.local_trans(y[0]), first)\n{HAND}")
    text = edit(text, "            first = tlx.async_dot_wait(1, first)\n", "")
    text = edit(text, "total = first * 1.0", "total = 0.0")
    x, y = (tensor.float() for tensor in inputs().values())
    expected = x @ y + x @ y.T + x.clamp(min=0) @ y
    is_right(text, expected, policy=policy)


HAND = "            acc = tlx.async_dot(positive, y[0], acc)"
READS = [
    "total = acc + 1.0",
    "total = acc.to(tl.bfloat16)",
    "total = acc[:, None]",
    "total = tl.max(acc, 1)",
    "total = tl.trans(acc)",
    "total = tl.where(acc > 0, 0.0, 1.0)",
    "total = tl.math.exp2(acc)",
    "tl.store(out + at, acc)",
    "out_desc.store([0, 0], acc)",
    "tlx.local_store(spare[0], acc)",
]


@pytest.mark.parametrize("policy", ["late", "at_once"])
@pytest.mark.parametrize("read", READS)
def test_every_read_of_a_pending_result_is_a_fault_with_both_lines(read, policy):
    text = edit(KERNEL, ACC_WAIT, f"{read}\n            {ACC_WAIT}")
    report = fault(text, policy=policy)
    assert report.rule == "unfinished-dot"
    assert f"role `multiply`, line {line_of(text, ACC_DOT)} is read" in report.message
    assert report.place.line == line_of(text, f"            {read}\n".strip())
    assert report.place.role == "multiply"


def test_a_result_that_the_wait_leaves_under_way_cannot_be_read():
    report = fault(edit(KERNEL, ACC_WAIT, "acc = tlx.async_dot_wait(1, acc)"), policy="at_once")
    assert report.place.line == line_of(KERNEL, "total = total + acc")
    report = fault(edit(KERNEL, "tlx.async_dot_wait(1, first)", "tlx.async_dot_wait(2, first)"))
    assert report.place.line == line_of(KERNEL, "total = first * 1.0")


def test_a_wait_makes_only_the_value_readable_that_it_returns():
    for wait in ("tlx.async_dot_wait(0, acc)", "first = tlx.async_dot_wait(0, first)"):
        report = fault(edit(KERNEL, ACC_WAIT, wait))
        assert report.place.line == line_of(KERNEL, "total = total + acc")
    is_right(edit(KERNEL, "async_dot_wait(1, first)", "async_dot_wait(0, first)"))


@pytest.mark.parametrize("policy", ALL_POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_a_slot_that_is_freed_before_its_multiplication_is_waited_for_is_a_race(policy, seed):
    release = "            tlx.barrier_arrive(empty[0])\n"
    text = edit(
        edit(KERNEL, release, ""), f"            {ACC_WAIT}\n", f"{release}            {ACC_WAIT}\n"
    )
    outcome = run(text, policy=policy, seed=seed)
    assert outcome.kind is Kind.RACE, outcome.text()
    (race,) = outcome.reports
    assert isinstance(race, Race)
    lines = {access.action: access.place.line for access in (race.first, race.second)}
    refill = line_of(text, "tlx.async_descriptor_load(y_desc, y[0], [0, 0], full[1])")
    assert lines == {"MMA read of B": line_of(text, ACC_DOT), "TMA load": refill}
    assert race.first.buffer == race.second.buffer == "y[0]"


@pytest.mark.parametrize("late", [False, True])
def test_the_policy_decides_when_a_multiplication_reads_its_operands(late):
    policy = Policy(name=PolicyName.DEFAULT, late=late)
    events = run(KERNEL, policy=policy, keep=Keep.CHOICES).events
    what = [event.what for event in events]
    (done,) = (n for n, text in enumerate(what) if text.startswith("completes: async_dot(x[0]"))
    (wait,) = (n for n, text in enumerate(what) if text == "async_dot_wait(1)")
    assert (done > wait) is late


def test_a_result_is_gone_once_it_became_an_accumulator():
    again = f"acc = tlx.async_dot(positive, y[0], start)\n{HAND.replace('acc =', 'more =')}"
    text = edit(KERNEL, ACC_DOT, again)
    report = fault(text)
    assert report.rule == "unfinished-dot"
    assert f"line {line_of(text, ACC_DOT)} is used after" in report.message
    assert f"line {line_of(text, HAND.strip().replace('acc =', 'more ='))}" in report.message
    assert report.place.line == line_of(text, ACC_WAIT)


def test_a_role_that_ends_without_a_wait_is_a_fault():
    text = edit(edit(KERNEL, ACC_WAIT, "pass"), "total = total + acc", "pass")
    text = edit(text, "y[0], [0, 0], full[1]", "y[1], [0, 0], full[1]")
    report = fault(text, policy="at_once")
    assert (report.rule, report.place.line) == ("unfinished-dot", line_of(KERNEL, ACC_DOT))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("positive, y[0], start", "positive, y[0], start, use_acc=False", "takes no use_acc"),
        ("positive, y[0], start", "positive, y[0], mBarriers=[full[1]]", "takes no mBarriers"),
        ("positive, y[0], start", "positive, positive", "B from a buffer"),
        ("positive, y[0], start", "positive.to(tl.float16), y[0]", "async_dot of fp16 and bf16"),
        (
            "positive, y[0], start",
            "positive, y[0], tl.zeros((64, 32), tl.float32)",
            "another shape",
        ),
        ("positive, y[0], start", "positive, y[0], positive", "accumulates in bf16"),
        ("x[0], y[0])", "tlx.local_slice(x[0], [0, 0], [32, 64]), y[0])", "shapes [32, 64] x"),
        ("num_warps=4, reg", "num_warps=2, reg", "2 warps"),
        ("spare = ", f"wide = {ACCUMULATOR}\n    spare = ", "a kernel that allocates TMEM"),
        ("async_dot_wait(0, acc)", "async_dot_wait(0, y[0])", "async_dot_wait of 0 and a View"),
    ],
)
def test_what_the_tensor_core_does_not_take_is_a_fault(old, new, message):
    report = fault(edit(KERNEL, old, new))
    assert report.rule == "mma" and message in report.message, report.message
