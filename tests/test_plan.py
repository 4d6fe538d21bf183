"""The plan: sites, laps, and what an unrolling holds."""

from __future__ import annotations

from builders import compiled

from jfagen.planning import EventKind, laps, unroll


def test_every_op_runs_once_for_each_of_its_steps_whatever_its_offset():
    plan = compiled("fwd").plan
    for steps in (1, 2, 5):
        unrolled = unroll(plan, (steps,))
        ran = [(site.op, site.group, step) for site, _, step in unrolled.end if site.slice == 0]
        for op in ("qk", "pv", "softmax", "rescale"):
            for group in (0, 1):
                points = len(plan.sites[op, group])
                slices = {site.slice for site in plan.sites[op, group]}
                once = points - len(slices) + 1
                for step in range(steps):
                    assert ran.count((op, group, step)) == once, (op, group, step)


def test_laps_cover_the_prologue_and_the_epilogue():
    mma = compiled("fwd").program.program_of("mma")
    assert list(laps(mma, 1)) == [0, 1]
    assert list(laps(mma, 3)) == [0, 1, 2, 3]


def test_a_tile_without_steps_takes_part_in_nothing_but_the_tile_channel():
    unrolled = unroll(compiled("fwd").plan, (0, 0))
    kinds = {event.kind for event in unrolled.events}
    assert kinds == {EventKind.ASK, EventKind.ANSWER, EventKind.TAKE}
    assert not unroll(compiled("ladder/08_zigzag").plan, (0,)).events


def test_slices_are_sites_of_their_own():
    plan = compiled("fwd").plan
    assert [site.slice for site in plan.sites["pv", 0]] == [0, 1]
    whole = compiled("fwd", ("  slices 2", "")).plan
    assert [site.slice for site in whole.sites["pv", 0]] == [0]
