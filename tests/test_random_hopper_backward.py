"""The prover against brute force on random backwards of Hopper, and on wrong texts."""

from __future__ import annotations

import pytest
from brute_verdicts import brute_verdict
from builders import compiled
from random_hopper_backward import hopper_backward_schedules
from test_hopper_backward_edits import STAGED
from test_random_schedules import campaign

SCHEDULES, CHUNKS, CHUNK = 20, 4, 150

#: Wrong edits of the text, and what they may show as.
BROKEN = [
    ("tlx.barrier_wait(k_full[0], tile_phase)", "pass", {"race", "stale"}),
    ("tlx.barrier_wait(v_full[g], tile_phase)", "pass", {"race", "stale"}),
    ("tlx.barrier_wait(do_and_delta_full[do_slot], do_phase)", "pass", {"race", "stale"}),
    ("tlx.barrier_wait(ds_full[ds_1_ago_slot], ds_1_ago_phase)", "pass", {"race", "stale"}),
    ("tlx.barrier_wait(ds_empty[ds_slot], ds_phase ^ 1)", "pass", {"race", "phase"}),
    ("tlx.barrier_arrive(q_empty[q_slot])", "pass", {"hang"}),
    ("tlx.barrier_arrive(k_empty[0])", "pass", {"hang"}),
    ("tlx.barrier_arrive(ds_full[ds_slot])", "pass", {"hang"}),
    ("tile_phase ^ 1", "tile_phase", {"hang"}),
    ("tlx.barrier_expect_bytes(q_and_lse_full[q_slot], LSE_BYTES)", "pass", {"hang", "phase"}),
    ("tlx.async_descriptor_store_wait(0)", "pass", {"race"}),
    ("Q_DEPTH = tl.constexpr(3)", "Q_DEPTH = tl.constexpr(1)", {"hang"}),
    ("ds_tiles[g * DS_DEPTH + ds_slot], dst", "ds_tiles[ds_slot], dst", {"race", "stale"}),
    ("ds_tiles[g * DS_DEPTH", "ds_tiles[(1 - g) * DS_DEPTH", {"stale"}),
    ("ds_tiles[DS_DEPTH + ds_1_ago_slot]", "ds_tiles[ds_1_ago_slot]", {"stale"}),
    ("k_tiles[1 + only_slot]", "k_tiles[only_slot]", {"stale"}),
    ("k_tiles[g + only_slot]", "k_tiles[only_slot]", {"stale"}),
    ("(dst, q_tiles[q_slot]", "(dst, q_tiles[(q_slot + 1) % Q_DEPTH]", {"stale", "race"}),
    ("(pt, do_tiles[do_slot]", "(pt, do_tiles[(do_slot + 1) % DO_DEPTH]", {"stale", "race"}),
    ("(pt, do_tiles[do_slot]", "(pt, q_tiles[q_slot]", {"stale"}),
    ("lse_tiles[lse_slot])\n", "lse_tiles[0])\n", {"stale", "race"}),
    (
        "dk_desc,\n                        dk_out_tiles[g]",
        "dv_desc,\n" + " " * 24 + "dk_out_tiles[g]",
        {"stale"},
    ),
]


@pytest.mark.parametrize(("old", "new", "kinds"), BROKEN)
def test_brute_force_sees_what_is_broken(old, new, kinds):
    text = compiled("hopper/bwd").kernel.text
    assert old in text
    trouble = brute_verdict(text.replace(old, new), 0, 2, 1)
    assert trouble is not None and trouble.kind in kinds, str(trouble)


@pytest.mark.parametrize("wait", ["STAGE_DEPTH - 1", "0"])
def test_brute_force_sees_a_stage_or_a_result_written_too_early(wait):
    text = compiled("hopper/bwd", *STAGED).kernel.text
    wait = f"tlx.async_descriptor_store_wait({wait})"
    assert wait in text
    trouble = brute_verdict(text.replace(wait, "pass"), 0, 2, 1)
    assert trouble is not None and trouble.kind == "race", str(trouble)


def check(tally):
    """Assert that nothing disagrees; registers refuse more moved ops than tensor memory does."""
    assert not tally.disagreements, "\n\n".join(tally.disagreements)
    assert tally.counts["refused by the checker"] <= tally.counts["schedules"] // 5
    assert tally.counts["accepted"] >= tally.counts["schedules"] // 5


def test_prover_and_brute_force_agree_on_hoppers_backwards(capsys):
    examples = hopper_backward_schedules()
    check(campaign(3000, SCHEDULES, capsys, examples, pairs=3, triples=2))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(CHUNKS))
def test_prover_and_brute_force_agree_on_hundreds_of_them(number, capsys):
    check(campaign(3001 + number, CHUNK, capsys, hopper_backward_schedules()))
