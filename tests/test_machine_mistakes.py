"""Mistakes in a kernel and what the CPU machine says about them."""

from __future__ import annotations

import pytest
from test_machine_kernels import KERNEL, edit, inputs, line_of, run, without

from jfagen.machine import Deadlock, Fault, Kind, Race, happens
from jfagen.machine.happens import Order

ALL_POLICIES = ["random", "late", "at_once", "starve=mma", "starve=drain"]


def only(outcome, kind):
    (report,) = outcome.reports
    assert isinstance(report, kind), report.text()
    return report


def test_a_missing_arrive_is_a_deadlock_with_role_barrier_and_line():
    text = without(KERNEL, "tlx.barrier_arrive(acc_empty[0])")
    outcome = run(text, sms=1)
    assert outcome.kind is Kind.DEADLOCK
    blocked = {entry.place.role: entry for entry in only(outcome, Deadlock).blocked}
    mma = blocked["mma"]
    assert (mma.barrier, mma.slot, mma.phase, mma.completed) == ("acc_empty", 0, 0, 0)
    assert mma.place.line == line_of(text, "tlx.barrier_wait(acc_empty[0]")
    assert mma.place.schedule == "small.sched:4"
    assert "kernel" not in blocked


@pytest.mark.parametrize("policy", ALL_POLICIES)
@pytest.mark.parametrize(
    ("line", "buffer"),
    [
        ("tlx.barrier_wait(full[slot], phase)", "_tiles"),
        ("tlx.barrier_wait(empty[slot], phase ^ 1)", "_tiles"),
        ("tlx.barrier_wait(acc_full[0], count & 1)", "acc_tiles"),
        ("tlx.async_descriptor_store_wait(0)", "out_tiles"),
    ],
)
def test_a_missing_wait_is_found_under_every_schedule(policy, line, buffer):
    outcome = run(without(KERNEL, line), policy=policy, sms=1)
    assert outcome.kind in (Kind.RACE, Kind.FAULT)
    if outcome.kind is Kind.RACE:
        assert buffer in only(outcome, Race).text()


def test_a_race_names_both_lines_and_roles():
    text = without(KERNEL, "tlx.barrier_wait(acc_full[0], count & 1)")
    race = only(run(text, policy="at_once", sms=1), Race)
    sides = {race.first.place.role: race.first, race.second.place.role: race.second}
    assert set(sides) == {"drain", "mma"}
    assert sides["drain"].place.line == line_of(text, "tlx.local_load(acc_tiles[0])")
    assert sides["mma"].place.line == line_of(text, "tlx.async_dot(")
    assert sides["mma"].place.schedule == "small.sched:4"
    assert "columns 0 to 32" in sides["mma"].extent


def test_a_wait_for_the_wrong_phase_passes_early_and_races():
    text = edit(
        KERNEL, "tlx.barrier_wait(full[slot], phase)", "tlx.barrier_wait(full[slot], phase ^ 1)"
    )
    assert run(text).kind in (Kind.RACE, Kind.DEADLOCK)


def test_an_empty_wait_with_the_wrong_phase_deadlocks():
    text = edit(
        KERNEL, "tlx.barrier_wait(empty[slot], phase ^ 1)", "tlx.barrier_wait(empty[slot], phase)"
    )
    blocked = only(run(text), Deadlock).blocked
    assert {("load", "empty")} <= {(entry.place.role, entry.barrier) for entry in blocked}


def test_too_many_arrivals_are_a_fault():
    text = edit(KERNEL, "tlx.barrier_arrive(acc_empty[0])", "tlx.barrier_arrive(acc_empty[0], 2)")
    fault = only(run(text), Fault)
    assert fault.rule == "over-arrival"
    assert "`acc_empty[0]` takes 128 arrivals" in fault.message
    assert fault.place.role == "drain"


def test_an_arrival_while_bytes_are_due_is_a_fault():
    line = "tlx.async_descriptor_load(b_desc, b_tiles[slot], [0, step * K], full[slot])"
    fault = only(run(edit(KERNEL, line, "tlx.barrier_arrive(full[slot])"), policy="late"), Fault)
    assert fault.rule == "over-arrival"


def test_wrong_byte_counts_never_complete():
    text = edit(KERNEL, "2 * (ROWS + COLUMNS) * K", "2 * (ROWS + COLUMNS) * K + 16")
    blocked = only(run(text), Deadlock).blocked
    assert any("16 bytes due" in entry.text() for entry in blocked)


def test_an_unknown_op_is_a_fault_with_its_line():
    text = edit(KERNEL, 'tlx.fence("async_shared")', "tlx.frobnicate(out_tiles[0])")
    fault = only(run(text), Fault)
    assert fault.rule == "unknown-op"
    assert "tlx.frobnicate" in fault.message
    assert fault.place.line == line_of(text, "tlx.frobnicate")


def test_a_python_mistake_is_a_fault_with_its_line():
    text = edit(KERNEL, "values.to(dtype)", "values.no_such_method()")
    fault = only(run(text), Fault)
    assert fault.place.line == line_of(text, "no_such_method")


def test_a_slot_out_of_range_is_a_fault():
    fault = only(
        run(edit(KERNEL, "tlx.local_load(acc_tiles[0])", "tlx.local_load(acc_tiles[1])")), Fault
    )
    assert fault.rule == "index"


def test_a_loop_without_end_is_reported():
    text = edit(
        KERNEL, "tlx.tcgen05_commit(acc_full[0])", "while step == step:\n                    pass"
    )
    fault = only(run(text, step_bound=5000), Fault)
    assert fault.rule == "livelock"


def test_a_request_after_a_refusal_is_a_fault():
    text = edit(
        KERNEL,
        "tlx.clc_producer(tiles, (count & 1) ^ 1, multi_ctas=False)",
        "tlx.clc_producer(tiles, (count & 1) ^ 1, multi_ctas=False, k=0)\n"
        "                tlx.clc_producer(more, (count & 1) ^ 1, multi_ctas=False)",
    )
    text = edit(
        text,
        "tiles = tlx.clc_create_context(num_consumers=3)",
        "tiles = tlx.clc_create_context(num_consumers=3)\n"
        "    more = tlx.clc_create_context(num_consumers=3)",
    )
    fault = only(run(text, given=inputs(tiles=1), policy="at_once"), Fault)
    assert fault.rule == "clc"


def test_a_result_stored_twice_is_a_fault():
    line = "tlx.async_descriptor_store(out_desc, out_tiles[0], [tile * ROWS, 0])"
    text = edit(KERNEL, line, f"{line}\n                {line}")
    fault = only(run(text, sms=1), Fault)
    assert fault.rule == "double-write"
    assert "2048 elements" in fault.message


def test_a_missing_fence_is_only_noted():
    text = edit(KERNEL, 'tlx.fence("async_shared")', "pass")
    # The role that issues the store is the one that wrote, so the compiler fences for it.
    assert run(text).notes == ()


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("(ROWS, COLUMNS), tl.float32, 1,", "(ROWS, COLUMNS), tl.float32, 17,", "tmem-capacity"),
        ("(ROWS, K), dtype, DEPTH)", "(ROWS, K), dtype, 60)", "smem-capacity"),
    ],
)
def test_memory_that_does_not_fit_is_a_fault(old, new, rule):
    assert only(run(edit(KERNEL, old, new)), Fault).rule == rule


def test_one_default_role_is_needed():
    text = edit(KERNEL, 'tlx.async_task("default")', "tlx.async_task(num_warps=4, registers=64)")
    assert only(run(text), Fault).rule == "roles"


def test_a_store_that_nobody_waits_for_before_the_end_is_a_fault():
    text = without(KERNEL, "tlx.async_descriptor_store_wait(0)")
    fault = only(run(text, given=inputs(tiles=1)), Fault)
    assert fault.rule == "unfinished-store"
    assert fault.place.line == line_of(text, "tlx.async_descriptor_store(")


def test_a_mistake_in_the_host_function_is_a_fault():
    fault = only(run(edit(KERNEL, "rows, depth = a.shape", "rows, depth = a")), Fault)
    assert fault.rule == "host"


EIGHT = edit(KERNEL, "num_warps=4)\n    return out", "num_warps=8)\n    return out")
EIGHT = edit(EIGHT, "alloc_warp_barrier(1, num_warps=4)", "alloc_warp_barrier(1, num_warps=8)")
EIGHT = edit(
    EIGHT,
    "    acc_tiles = tlx.local_alloc((ROWS, COLUMNS), tl.float32, 1, tlx.storage_kind.tmem)",
    "    spec = tlx.storage_alias_spec(storage=tlx.storage_kind.tmem)\n"
    "    tmem = tlx.storage_kind.tmem\n"
    "    acc_tiles = tlx.local_alloc((ROWS, COLUMNS), tl.float32, 1, tmem, reuse=spec)\n"
    "    narrow = tlx.local_alloc((ROWS, COLUMNS), dtype, 1, tmem, reuse=spec)",
)
OVERWRITE = "                tlx.local_store(narrow[0], values.to(dtype))\n"
EIGHT = edit(
    EIGHT,
    "                tlx.barrier_arrive(acc_empty[0])",
    OVERWRITE + "                tlx.barrier_arrive(acc_empty[0])",
)


def test_eight_warps_that_overwrite_what_they_read_need_a_rendezvous():
    race = only(run(EIGHT), Race)
    assert race.first.place.role == race.second.place.role == "drain"
    assert race.second.place.line == line_of(EIGHT, OVERWRITE.strip())
    meet = edit(EIGHT, OVERWRITE, f"                tlx.named_barrier_wait(9, 256)\n{OVERWRITE}")
    assert run(meet).kind is Kind.RESULTS


@pytest.mark.parametrize("line", ["", "tlx.barrier_wait(acc_full[0], count & 1)"])
def test_shortening_the_happens_before_sets_changes_nothing(line, monkeypatch):
    text = without(KERNEL, line) if line else KERNEL
    given = inputs(tiles=9)
    usual = [run(text, given=given, seed=seed) for seed in range(4)]
    drops = []
    compact = Order.compact

    def counted(order, actors, sets):
        compact(order, actors, sets)
        drops.append(order.base)

    monkeypatch.setattr(happens, "_COMPACT_EVERY", 4)
    monkeypatch.setattr(Order, "compact", counted)
    short = [run(text, given=given, seed=seed) for seed in range(4)]
    assert [(o.kind, o.trace, o.reports) for o in short] == [
        (o.kind, o.trace, o.reports) for o in usual
    ]
    assert line or max(drops) > 50
