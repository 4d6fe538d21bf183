"""Proof: each rule against one kernel that breaks exactly it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import SHIPPED, STRANGERS, compiled
from mutation import swapped_ops

from jfagen.graph.closure import has_cycle_without_progress
from jfagen.passes.channels import SyncPlan, When
from jfagen.proof import make_subject
from jfagen.proof.realize import realize
from jfagen.proof.rules import RULES, capacity, live, parity, race
from jfagen.proof.rules.live import steady_edges
from jfagen.readback import TEXT_RULES


def subject(name, change):
    one = compiled(name)
    channels = [new for c in one.sync.channels if (new := change(c)) is not None]
    return make_subject(one.plan, one.placement, SyncPlan(channels=tuple(channels)))


def without(name):
    return lambda channel: None if channel.name == name else channel


@pytest.mark.parametrize("name", [*SHIPPED, *STRANGERS])
def test_every_shipped_schedule_is_proved(name):
    proof = compiled(name).proof
    assert list(proof.verdicts) == [rule.ID for rule in (*RULES, *TEXT_RULES)]


@pytest.mark.parametrize("name", [c.name for c in compiled("fwd").sync.channels])
def test_a_channel_left_out_is_a_race(name):
    assert race.check(subject("fwd", without(name))), name


def test_neighbours_that_share_a_place_the_wrong_way_round_are_swapped():
    """One role orders them, so it is no race; but dk would leave where dv lies."""
    one = compiled("hopper/bwd")
    plan = dict(swapped_ops(one.plan))["consumer: store_dv, finish_dk"]
    found = race.check(make_subject(plan, one.placement, one.sync))
    assert {d.message for d in found} == {"`store_dv` and `finish_dk` are swapped on `dv_out`"}


def test_a_wait_that_nobody_answers_is_a_deadlock():
    def silent(channel):
        if channel.name != "s_full":
            return channel
        return replace(channel, arrivals=2)

    assert "nobody completes" in live.check(subject("fwd", silent))[0].message


def test_a_wait_one_step_too_early_is_a_deadlock_with_its_cycle():
    def swap(channel):
        # p is awaited before the scores that it is made of are asked for
        if channel.name != "p_full":
            return channel
        qk = next(c for c in compiled("fwd").sync.channels if c.name == "kv_full").waits
        return replace(channel, slices=1, waits=tuple(e for e in qk if e.site.op == "qk"))

    found = live.check(subject("fwd", swap))
    assert found and found[0].id == "deadlock"
    assert "barrier" in found[0].notes[0].message


def test_a_signal_in_the_first_step_only_lets_later_steps_race():
    def first(channel):
        if channel.name != "q_empty":
            return channel
        ends = tuple(replace(end, when=When.FIRST) for end in channel.signals)
        return replace(channel, signals=ends)

    assert [d.id for d in race.check(subject("fwd", first))] == ["race"] * 2


def test_a_producer_that_is_not_held_back_laps_its_waiter():
    assert parity.check(subject("fwd", without("out_empty")))


def test_the_marked_graph_knows_progress_from_standing_still():
    assert not has_cycle_without_progress([("a", "b", 0), ("b", "a", 1)])
    assert has_cycle_without_progress([("a", "b", 0), ("b", "a", 0)])
    assert has_cycle_without_progress([("a", "b", -1), ("b", "c", 1), ("c", "a", 0)])
    assert not has_cycle_without_progress([("a", "b", -1), ("b", "c", 1), ("c", "a", 1)])


@pytest.mark.parametrize("name", [*SHIPPED, *STRANGERS])
def test_the_endless_loop_makes_progress_and_agrees_with_long_unrollings(name):
    one = compiled(name)
    assert not has_cycle_without_progress(steady_edges(one.subject))
    longer = (17, 1, 12) if len(one.subject.realized) > 3 else (30,)
    assert realize(one.plan, one.sync, longer).closure is not None


def test_capacity_is_counted_without_the_packer():
    one = compiled("fwd")
    deeper = tuple(replace(b, depth=4) if b.name == "kv" else b for b in one.program.buffers)
    plan = replace(one.plan, program=replace(one.program, buffers=deeper))
    found = capacity.check(make_subject(plan, one.placement, one.sync))
    assert [d.id for d in found] == ["smem-overflow"]
