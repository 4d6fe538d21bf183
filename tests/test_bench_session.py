"""The bench's measuring: inputs, checks against float64, turns, memory; on a CPU, with a clock."""

from __future__ import annotations

import pytest
import torch
from bench_stands import OnCpu, Ticks, attend, cpu_inputs, cpu_stand, small_case

from jfagen.bench.check import compare, reference, sample_pairs, tolerance
from jfagen.bench.device import EventClock
from jfagen.bench.inputs import sets_that_take_turns
from jfagen.bench.interleave import OutOfMemory, interleave
from jfagen.bench.records import Dtype, Lap, Status
from jfagen.bench.session import DeviceLost, measure
from jfagen.bench.shapes import Direction, Mode

MISTAKES = (
    "loses the last key",
    "loses the first key",
    "takes a row of its neighbour",
    "exchanges heads",
    "is NaN somewhere",
    "is three per cent off",
)


def silent(words):
    del words


def checked(case, mistake=""):
    """Compare the tests' own kernel with the reference."""
    inputs, pairs = cpu_inputs(case), sample_pairs(case)
    out = attend(
        inputs.packed_q, inputs.k, inputs.v, case.query_lengths, case.lengths, mistake=mistake
    )
    return compare([out], reference(inputs, pairs), case, pairs)


# ---- Inputs and checks --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", Mode)
def test_inputs_have_the_shapes_and_types_that_are_promised(mode):
    case = small_case(mode=mode)
    inputs = cpu_inputs(case)
    assert inputs.k.shape == inputs.v.shape == (164, 2, 16) and inputs.k.dtype == torch.bfloat16
    assert inputs.kv_offsets.tolist() == [0, 40, 41, 41, 131, 164]
    assert inputs.kv_offsets.dtype == torch.int32
    if mode is Mode.BROADCAST:
        assert inputs.q.shape == (24, 2, 16) and inputs.q_offsets is None
        assert inputs.packed_q_offsets.tolist() == [0, 24, 48, 72, 96, 120]
        assert all(part.equal(inputs.q) for part in inputs.packed_q.split(24))
    else:
        assert inputs.q.shape == (164, 2, 16) and inputs.q_offsets.equal(inputs.kv_offsets)
        assert inputs.packed_q is inputs.q
    assert (inputs.most_queries, inputs.most_keys) == (24 if mode is Mode.BROADCAST else 90, 90)


def test_input_sets_differ_and_come_back_the_same():
    case = small_case()
    first, again, other = cpu_inputs(case), cpu_inputs(case), cpu_inputs(case, 1)
    assert first.k.equal(again.k) and first.v.equal(again.v)
    assert not first.k.equal(other.k) and not first.k.equal(first.v)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("lengths", [(40, 1, 0, 90, 33), (2000, 1, 3000), (0, 0, 5)], ids=str)
def test_rounding_is_taken_for_right(mode, lengths):
    found = checked(small_case(lengths, mode=mode))
    assert found.right and found.error < found.tolerance / 2


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("lengths", [(40, 1, 0, 90, 33), (2000, 7, 3000)], ids=str)
def test_a_mistake_is_noticed_however_long_the_sequences(mistake, lengths):
    found = checked(small_case(lengths, mode=Mode.BROADCAST), mistake)
    assert not found.right and found.where.startswith("out of sequence ")


def test_what_is_left_in_empty_sequences_is_noticed():
    case = small_case((40, 1, 0, 90, 33), mode=Mode.BROADCAST)
    found = checked(case, "leaves empty sequences as they were")
    # The tolerance is for rows that are not zero; nothing but zero is right here.
    assert "sequence 2 (0 keys)" in found.where


def test_the_sample_has_every_head_the_ends_and_an_empty_sequence():
    case = small_case((40, 1, 0, 90, 33) * 20, mode=Mode.BROADCAST)
    pairs = sample_pairs(case)
    sequences = {pair.sequence for pair in pairs}
    assert {pair.head for pair in pairs} == {0, 1} and len(pairs) == len(set(pairs)) == 8
    assert {0, 99} <= sequences
    assert {0, 1, 90} <= {case.lengths[b] for b in sequences}
    assert sample_pairs(small_case((0, 0))) == ()


@pytest.mark.parametrize("lengths", [(5,), (5, 6), (5, 6, 7)], ids=str)
def test_few_sequences_are_looked_at_in_every_head(lengths):
    pairs = sample_pairs(small_case(lengths))
    assert len(set(pairs)) == len(pairs) == 2 * len(lengths)


def test_a_result_of_another_shape_is_refused():
    case = small_case()
    pairs = sample_pairs(case)
    with pytest.raises(ValueError, match="out has the shape"):
        compare([torch.zeros(164, 16, 2)], reference(cpu_inputs(case), pairs), case, pairs)


def test_a_finer_type_has_a_finer_tolerance():
    case = small_case()
    assert tolerance(case) == 2 * torch.finfo(torch.bfloat16).eps
    for dtype in Dtype:
        info = torch.finfo(getattr(torch, dtype.torch_name))
        assert (dtype.epsilon, dtype.size) == (info.eps, info.bits // 8)


@pytest.mark.parametrize("mode", Mode)
def test_gradients_agree_with_autograd_and_a_wrong_one_is_named(mode):
    case = small_case((40, 1, 0, 90, 33), mode=mode, direction=Direction.BACKWARD)
    inputs, pairs = cpu_inputs(case), sample_pairs(case)
    expected = reference(inputs, pairs)
    prepared = OnCpu("right").prepare(inputs)
    results = prepared.results(prepared.call())
    assert [len(one) for one in results] == [sum(case.query_lengths), 164, 164]
    found = compare(results, expected, case, pairs)
    assert found.right and 0 < found.error
    for index, name in enumerate(("dq", "dk", "dv")):
        wrong = [one * 1.1 if index == place else one for place, one in enumerate(results)]
        found = compare(wrong, expected, case, pairs)
        assert not found.right and found.where.startswith(f"{name} of ")


def test_a_dq_that_is_summed_over_the_batch_is_held_against_the_sum():
    case = small_case(mode=Mode.BROADCAST, direction=Direction.BACKWARD)
    inputs, pairs = cpu_inputs(case), sample_pairs(case)
    prepared = OnCpu("right").prepare(inputs)
    each, dk, dv = prepared.results(prepared.call())
    parts = each.view(len(case.lengths), -1, *each.shape[1:]).float()
    expected = reference(inputs, pairs)
    assert compare([parts.sum(0), dk, dv], expected, case, pairs).right
    found = compare([parts[:-1].sum(0), dk, dv], expected, case, pairs)
    assert not found.right and found.where.startswith("dq of the batch, head ")


# ---- Turns --------------------------------------------------------------------------------------


def test_providers_take_turns_and_each_round_begins_with_another():
    ticks = Ticks()

    def call(name, number, ms):
        def run():
            ticks.calls.append((name, number))
            ticks.now_ms += ms

        return run

    calls = {
        name: [call(name, number, ms + number) for number in range(2)]
        for name, ms in (("a", 1.0), ("b", 10.0), ("c", 100.0))
    }
    turns = interleave(calls, ticks, rounds=4, warm_up_ms=0.0)
    orders = ["".join(name for name, _ in burst[1:2]) for burst in ticks.bursts]
    assert "".join(orders) == "abc" + "abc" + "bca" + "cab" + "abc"
    # The lead is the last set's call, untimed; then every set is timed once.
    assert all([number for _, number in burst] == [0, 1] for burst in ticks.bursts)
    assert {name: len(rounds) for name, rounds in turns.rounds.items()} == dict.fromkeys("abc", 4)
    assert [[lap.device_ms for lap in laps] for laps in turns.rounds["b"]] == [[10.0, 11.0]] * 4


def test_warming_up_lasts_as_long_as_asked_and_is_not_counted():
    ticks = Ticks()

    def run():
        ticks.now_ms += 2.0

    turns = interleave({"a": [run, run]}, ticks, rounds=3, warm_up_ms=20.0)
    assert len(ticks.bursts) == 20 / (2 * 2.0) + 3 and len(turns.rounds["a"]) == 3


def test_who_breaks_off_leaves_the_others_alone():
    ticks = Ticks()

    def broken():
        raise RuntimeError("launch failed\nand a long story")

    turns = interleave({"a": [broken], "b": [lambda: None]}, ticks, rounds=3, warm_up_ms=0.0)
    assert turns.failed == {"a": "RuntimeError: launch failed"}
    assert list(turns.rounds) == ["b"] and len(turns.rounds["b"]) == 3


def test_too_little_memory_ends_the_turns():
    def full():
        raise MemoryError

    with pytest.raises(OutOfMemory):
        interleave(
            {"a": [full]}, Ticks(), rounds=1,
            is_out_of_memory=lambda error: isinstance(error, MemoryError),
        )  # fmt: skip


def test_events_stand_around_every_call_but_the_lead(monkeypatch):
    said = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            said.append("event")
            self.place = len(said)

        def elapsed_time(self, other):
            assert said[-1] == "wait"
            return float(other.place - self.place)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: said.append("wait"))
    calls = [lambda: said.append("one"), lambda: said.append("two")]
    laps = EventClock().burst(lambda: said.append("lead"), calls)
    assert said == ["lead", "event", "one", "event", "event", "two", "event", "wait"]
    assert [lap.device_ms for lap in laps] == [2.0, 2.0]
    assert all(isinstance(lap, Lap) and lap.host_ms >= 0 for lap in laps)


# ---- A case -------------------------------------------------------------------------------------


def test_each_is_checked_before_and_after_and_only_the_right_are_timed():
    ticks = Ticks()
    providers = [
        OnCpu("right", 2.0, ticks=ticks),
        OnCpu("wrong", 1.0, ticks=ticks, mistake="exchanges heads"),
        OnCpu("raises", 1.0, ticks=ticks, error=RuntimeError("no such kernel")),
        OnCpu("unfit", 1.0, ticks=ticks, unfit="not this shape"),
        OnCpu("tires", 1.0, ticks=ticks, mistake="is NaN somewhere", after=4),
        OnCpu("breaks", 1.0, ticks=ticks, error=RuntimeError("late"), after=4),
    ]
    rows = measure(small_case(), providers, cpu_stand(ticks), silent)
    assert [row.provider for row in rows] == [one.name for one in providers]
    found = {row.provider: row for row in rows}
    assert {name: row.status for name, row in found.items()} == {
        "right": Status.MEASURED, "wrong": Status.WRONG, "raises": Status.FAILED,
        "unfit": Status.UNFIT, "tires": Status.WRONG, "breaks": Status.FAILED,
    }  # fmt: skip
    assert found["right"].times.median == 2.0 and len(found["right"].rounds) == 3
    assert found["right"].sets == 2 and 0 < found["right"].error < found["right"].tolerance
    for name in ("wrong", "raises", "unfit", "tires", "breaks"):
        assert found[name].times is None and not found[name].rounds
    assert found["tires"].reason.startswith("after the timing: out of sequence ")
    assert (found["raises"].reason, found["breaks"].reason) == (
        "RuntimeError: no such kernel",
        "RuntimeError: late",
    )
    timed = {name for burst in ticks.bursts for name, _ in burst}
    assert timed == {"right", "tires", "breaks"}
    assert providers[1].count == 1 and providers[3].count == 0


def test_with_too_little_memory_fewer_sets_take_turns_and_then_it_is_said():
    ticks, said = Ticks(), []
    full = OnCpu("full", ticks=ticks, error=torch.OutOfMemoryError("the GPU is full"))
    case = small_case()
    stand = cpu_stand(ticks, l2_bytes=4 * case.call_bytes // 3)
    rows = measure(case, [full, OnCpu("fits", ticks=ticks)], stand, said.append)
    assert [row.status for row in rows] == [Status.NO_MEMORY, Status.MEASURED]
    assert rows[0].reason == "OutOfMemoryError: the GPU is full" and rows[1].sets == 1
    assert [words for words in said if "memory" in words] == [
        "too little memory: 2 input sets take turns",
        "too little memory: 1 input sets take turns",
    ]


def test_memory_that_runs_out_during_the_turns_is_met_in_the_same_way():
    ticks = Ticks()
    late = OnCpu("late", ticks=ticks, error=torch.OutOfMemoryError("full"), after=1)
    (row,) = measure(small_case(), [late], cpu_stand(ticks), silent)
    assert row.status is Status.NO_MEMORY


def test_a_device_that_answers_no_more_ends_the_run():
    ticks = Ticks()

    def release():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    broken = OnCpu("broken", ticks=ticks, error=RuntimeError("launch failed"))
    with pytest.raises(DeviceLost, match="illegal memory access"):
        measure(small_case(), [broken], cpu_stand(ticks, release=release), silent)


def test_sets_fill_the_l2_three_times_and_fit_into_memory():
    case = small_case()
    one, held = case.call_bytes, case.set_bytes
    assert one == (4 * 164) * 2 * 16 * 2 and held > one

    def sets(l2, free=2**50):
        return sets_that_take_turns(case, l2_bytes=l2, free_bytes=free)

    assert sets(0) == sets(one // 3) == 2 and sets(one) == 3 and sets(one + 1) == 4
    assert sets(100 * one, free=int(5.5 * held / 0.8)) == 5
    assert sets(100 * one, free=0) == 1
