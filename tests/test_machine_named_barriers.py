"""Named barriers: the order that they carry, and arrivals that may count to a wrong generation."""

from __future__ import annotations

import numpy as np
import pytest
from test_machine_copies import HEADER
from test_machine_kernels import edit, line_of

from jfagen.machine import Deadlock, Fault, Kind, Race, simulate

PINGPONG = (
    HEADER
    + """
@triton.jit
def pingpong(out, rounds):
    box = tlx.local_alloc((128,), tl.int32, 1)
    with tlx.async_tasks():
        # idle: nothing
        with tlx.async_task("default"):
            pass
        # player: adds one to the box when it is its turn
        with tlx.async_task(num_warps=4, registers=64, replicate=2):
            cid: tl.constexpr = tlx.async_task_replica_id()
            if cid == 0:
                tlx.local_store(box[0], tl.zeros((128,), tl.int32))
            else:
                tlx.named_barrier_arrive(9, 256)
            for turn in range(rounds):
                tlx.named_barrier_wait(9 + cid, 256)
                tlx.local_store(box[0], tlx.local_load(box[0]) + 1)
                tlx.named_barrier_arrive(10 - cid, 256)
            if cid == 0:
                tlx.named_barrier_wait(9, 256)
                tl.store(out + tl.arange(0, 128), tlx.local_load(box[0]))


def forward(rounds):
    out = torch.zeros(128, dtype=torch.int32)
    pingpong[(1,)](out, rounds, num_warps=4)
    return out
"""
)
ALL_POLICIES = ["random", "late", "at_once", "starve=player[0]", "starve=player[1]"]
WAIT = "tlx.named_barrier_wait(9 + cid, 256)"
ARRIVE = "tlx.named_barrier_arrive(10 - cid, 256)"


def run(text, rounds=3, **options):
    return simulate(text, inputs={"rounds": rounds}, **options)


def only(outcome, kind):
    (report,) = outcome.reports
    assert isinstance(report, kind), report.text()
    return report


@pytest.mark.parametrize("policy", ALL_POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_two_roles_take_turns_without_a_race(policy, seed):
    outcome = run(PINGPONG, rounds=5, policy=policy, seed=seed)
    assert outcome.ok, outcome.text()
    assert np.array_equal(outcome.outputs[0], np.full(128, 10))


def test_the_order_outlives_the_shortening_of_the_sets(monkeypatch):
    monkeypatch.setattr("jfagen.machine.happens._COMPACT_EVERY", 4)
    text = edit(
        PINGPONG, "(128,), tl.int32, 1)\n", "(128,), tl.int32, 1)\n    go = tlx.alloc_barriers(1)\n"
    )
    text = edit(text, ARRIVE, f"{ARRIVE}\n                tlx.barrier_wait(go[0], 1)")
    outcome = run(text, rounds=20)
    assert outcome.ok, outcome.text()
    assert np.array_equal(outcome.outputs[0], np.full(128, 40))


@pytest.mark.parametrize("policy", ALL_POLICIES)
def test_a_role_that_does_not_wait_for_its_turn_is_found_in_every_schedule(policy):
    text = edit(PINGPONG, WAIT, f"if cid == 0:\n                    {WAIT}")
    report = only(run(text, policy=policy), Fault | Race)
    if isinstance(report, Race):
        assert {report.first.place.role, report.second.place.role} == {"player[0]", "player[1]"}
    else:
        assert report.rule == "named-barrier" and report.place.role == "player[1]"


def test_a_second_arrival_before_the_barrier_is_complete_names_both_lines():
    first = "                tlx.named_barrier_arrive(9, 256)"
    text = edit(
        PINGPONG, f"{first}\n", f"{first}\n                tlx.named_barrier_arrive(9, 0 + 256)\n"
    )
    # The second arrival comes while one role is in, or right behind the completion: both are found.
    for policy in ALL_POLICIES:
        report = only(run(text, policy=policy), Fault)
        assert report.rule == "named-barrier"
        assert report.place.line == line_of(text, "(9, 0 + 256)")
    report = only(run(text, policy="starve=player[0]"), Fault)
    assert f"again, which it reached at line {line_of(text, 'arrive(9, 256)')}" in report.message
    assert "128 of 256 threads" in report.message


@pytest.mark.parametrize("policy", ALL_POLICIES)
def test_an_arrival_that_nothing_orders_behind_the_generation_before_is_a_fault(policy):
    """A third role may come first and complete the barrier in place of the second."""
    text = edit(PINGPONG, "            pass\n", "            tlx.named_barrier_arrive(9, 256)\n")
    report = only(run(text, policy=policy, rounds=0), Fault)
    assert "may come before that of role `" in report.message, report.message
    assert "belongs to the generation before" in report.message


def test_one_barrier_has_one_number_of_threads():
    text = edit(PINGPONG, ARRIVE, "tlx.named_barrier_arrive(10 - cid, 256 + 128 * cid)")
    report = only(run(text), Fault)
    assert report.message == "named barrier 9 is used with 256 and 384 threads"
    assert report.place.line == line_of(text, "arrive(10 - cid")
    text = PINGPONG.replace("256", "64")
    assert only(run(text), Fault).message == "128 threads arrive at named barrier 9 of 64"


def test_a_missing_arrival_is_a_deadlock_that_says_who_waits():
    blocked = only(run(edit(PINGPONG, ARRIVE, "pass")), Deadlock).blocked
    assert {(entry.place.role, entry.slot) for entry in blocked} == {
        ("player[0]", 9),
        ("player[1]", 10),
    }
    assert all("128 of 256 threads in" in entry.text() for entry in blocked)


def test_an_arrival_alone_acquires_nothing():
    text = edit(PINGPONG, "tlx.named_barrier_wait(9, 256)", "tlx.named_barrier_arrive(9, 256)")
    assert {run(text, seed=seed).kind for seed in range(4)} == {Kind.RACE}
