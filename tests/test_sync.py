"""Sync: the channels of known schedules, derived by hand, and no channel too many."""

from __future__ import annotations

import pytest
from builders import SHIPPED, STRANGERS, compiled

from jfagen.passes.channels import Arrival, SyncPlan, When
from jfagen.passes.dependences import find_dependences
from jfagen.passes.needed import trip_counts
from jfagen.proof.realize import executes, realize


def channel(name, wanted):
    return next(c for c in compiled(name).sync.channels if c.name == wanted)


def test_the_channels_of_the_forward_kernel():
    names = {c.name for c in compiled("fwd").sync.channels}
    assert names == {
        "q_full", "q_empty", "kv_full", "kv_empty", "out_full", "out_empty", "s_full",
        "s_after_finish", "p_full", "alpha_full", "row_sum_and_row_max_full", "acc_after_pv",
        "acc_after_rescale",
    }  # fmt: skip


def test_a_load_completes_its_phase_with_the_bytes_of_a_whole_tile():
    kv = channel("fwd", "kv_full")
    assert (kv.arrival, kv.arrivals, kv.bytes) == (Arrival.BYTES, 1, (128 * 128 * 2,))
    # k and v take turns: two uses a step, three slots.
    assert (kv.rate, kv.slots, kv.lag) == (2, 3, 0)


def test_the_last_matmul_that_reads_a_slot_frees_it():
    empty = channel("fwd", "kv_empty")
    assert [(end.site.op, end.site.group) for end in empty.signals] == [("pv", 1), ("qk", 1)]
    assert (empty.arrival, empty.arrivals, empty.lag) == (Arrival.COMMIT, 1, 3)


def test_two_roles_that_read_a_slot_both_arrive():
    empty = channel("mma_per_group", "kv_empty")
    assert (empty.arrival, empty.arrivals) == (Arrival.COMMIT, 2)


def test_slices_multiply_the_full_barrier_and_not_the_empty_one():
    assert channel("split_mma", "probs_full").slices == 4
    assert channel("split_mma", "probs_empty").slices == 1


def test_q_is_freed_by_the_last_step_and_awaited_in_the_first():
    assert [end.when for end in channel("fwd", "q_empty").signals] == [When.LAST]
    assert [end.when for end in channel("fwd", "q_full").waits] == [When.FIRST]


def test_every_thread_of_a_role_with_warps_arrives():
    full = channel("fwd", "p_full")
    assert (full.arrival, full.warps, full.arrivals) == (Arrival.THREADS, 4, 1)


@pytest.mark.parametrize("name", [*SHIPPED, *STRANGERS])
def test_every_dependence_is_ordered_and_no_channel_could_be_left_out(name):
    one = compiled(name)
    assert unordered(one, one.sync) == 0
    for left_out in one.sync.channels:
        rest = tuple(c for c in one.sync.channels if c is not left_out)
        assert unordered(one, SyncPlan(channels=rest)) > 0, left_out.name


def unordered(one, sync):
    """Count the dependences that program order and these channels leave open."""
    count = 0
    for trips in trip_counts(one.plan):
        realized = realize(one.plan, sync, trips)
        layout = one.placement.layout
        for found in find_dependences(one.plan, realized.unrolled, layout).found:
            _, end = executes(one.plan, realized, *found.first)
            start, _ = executes(one.plan, realized, *found.second)
            count += not (start == end or realized.closure.ordered(end, start))
    return count
