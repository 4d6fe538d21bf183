"""Edits of Hopper's backward: order of the matmuls, waits, rings, barriers of two loads, tiles."""

from __future__ import annotations

import re

import pytest
from builders import compiled, compiled_text, edited

from jfagen.diagnostics import CompileError, render_all
from jfagen.machine.trial import Problem, run_trial
from jfagen.readback import ReadbackError, verify_text
from jfagen.toolchain import compile_text

COMMENT = "  # p's registers are free before st claims more"
LOOP = f"""peel  dpt[g][j]  probs[g][j]  dv[g][j]  dscores[g][j]
      dq[g][j-1]  wait dv[g][j]  dk[g][j]  st[g][j+1]{COMMENT}
      reduce_dq[g][j-1]
"""
SIMPLE = """peel  st[g][j]  dpt[g][j]  probs[g][j]  dv[g][j]  dscores[g][j]
      dq[g][j]  dk[g][j]
      reduce_dq[g][j]
"""
EARLY = """peel  dpt[g][j]  probs[g][j]  dv[g][j]  dscores[g][j]
      dk[g][j]  wait dv[g][j]  dq[g][j]  st[g][j+1]
      reduce_dq[g][j]
"""
REGION = "region sent[g] { dv_out over dk_out }"
#: dq through a slice in SMEM and TMA, which lies where dv and dk leave later.
STAGED = (
    (
        "reduce_dq[g][j-1]\n",
        "reduce_dq[g][j-1] in slices of 64 (32 if head_dim 64) through stage\n",
    ),
    ("  smem dv_out[g]", "  smem stage[g]  : f32[m, d/2]\n  smem dv_out[g]"),
    (REGION, "region sent[g] { stage over dv_out over dk_out }"),
)
EDITS = {
    "as it is": (),
    "dq through a stage": STAGED,
    "one step after the other": ((LOOP, SIMPLE),),
    "st a step early": ((LOOP, EARLY),),
    "steps from the first on": (("over q staggered", "over q"),),
    "tiles as given": (("valid by q_length with", "valid with"),),
    "tiles in a zigzag": (("deal round_robin", "deal zigzag"),),
    "a barrier for every load": (
        ("load_q[j] with load_lse[j]  load_do[j] with load_delta[j]",
         "load_q[j]  load_lse[j]  load_do[j]  load_delta[j]"),
    ),
    "dO before q": (
        ("load_q[j] with load_lse[j]  load_do[j] with load_delta[j]",
         "load_do[j] with load_delta[j]  load_q[j] with load_lse[j]"),
    ),
    "rings of two": (
        ("smem q         : dtype[m, d]  depth 3", "smem q         : dtype[m, d]  depth 2"),
        ("smem lse       : f32[m]  depth 3", "smem lse       : f32[m]  depth 2"),
        ("smem do        : dtype[m, d]  depth 3", "smem do        : dtype[m, d]  depth 2"),
        ("smem delta     : f32[m]  depth 3", "smem delta     : f32[m]  depth 2"),
    ),
    "no peel": (("peel  dpt", "dpt"),),
}  # fmt: skip
#: Room for results and for two slices on their way at once, and for rings of one slot of dS.
NARROW = {
    "results apart": ((f"  {REGION}\n", ""),),
    "two slices on their way": (
        STAGED[0],
        ("  smem dv_out[g]", "  smem stage[g]  : f32[m, d/2]  depth 2\n  smem dv_out[g]"),
        (f"  {REGION}\n", ""),
    ),
    "dq over dk_out alone": (*STAGED[:2], (REGION, "region sent[g] { stage over dk_out }")),
}  # fmt: skip
ONLY_64 = ("head_dim in {128, 64}", "head_dim in {64}")
PACKED = (64, 0, 130, 65, 200)


def right(text, *, queries=None, head_dim=128):
    lengths = (200, 5, 0, 129, 64)
    problem = Problem(
        lengths=lengths, queries=130, query_lengths=queries, heads=1, head_dim=head_dim
    )
    for seed, policy in enumerate(("late", "at_once", "random")):
        result = run_trial(text, problem, policy=policy, sms=2, seed=seed, nan_neighbours=True)
        assert result.right, (policy, result.errors, result.outcome.text())


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_proved_and_sums_the_right_gradients(edit):
    right(compiled("hopper/bwd", *EDITS[edit]).kernel.text)


@pytest.mark.parametrize(
    "edit", ["as it is", "dq through a stage", "tiles as given", "one step after the other"]
)
def test_packed_queries_too(edit):
    only = ("q in {broadcast, jagged}", "q jagged")
    right(compiled("hopper/bwd", only, *EDITS[edit]).kernel.text, queries=PACKED)


@pytest.mark.parametrize("edit", NARROW)
def test_where_results_wait_is_free(edit):
    right(compiled("hopper/bwd", ONLY_64, *NARROW[edit]).kernel.text, head_dim=64)


def refusal(*edits):
    with pytest.raises(CompileError) as caught:
        compiled_text(edited("hopper/bwd", *edits))
    return render_all(caught.value.diagnostics)


def test_registers_say_where_to_wait():
    """ptxas runs all matmuls one by one where their registers do not fit (its remark C7512)."""
    said = refusal(("  wait dv[g][j]", ""))
    assert "take 224 registers a thread, there is room for 216" in said
    assert "help: write `wait dv[g][j]` before `st[g][j+1]`" in said


def test_results_apart_do_not_fit():
    said = refusal((f"  {REGION}\n", ""))
    assert "shared memory needs 264,384 bytes" in said


def test_a_stage_without_a_place_is_refused_and_every_help_mends_it():
    said = refusal(*STAGED[:2])
    assert "shared memory needs 264,384 bytes" in said
    joined = [f"dv_out over dk_out over {name}" for name in ("k", "v", "stage")]
    for words in joined:
        assert f"help: write `region sent[g] {{ {words} }}`: it saves 32,768 bytes" in said
        compiled("hopper/bwd", *STAGED[:2], (REGION, f"region sent[g] {{ {words} }}"))
    assert said.rstrip().endswith("help: `do` and `delta` fit with `depth 1`")
    depths = (
        ("smem do        : dtype[m, d]  depth 3", "smem do        : dtype[m, d]"),
        ("smem delta     : f32[m]  depth 3", "smem delta     : f32[m]"),
    )
    compiled("hopper/bwd", *STAGED[:2], *depths)


def test_slices_of_what_lies_in_registers_say_why_they_are_whole():
    said = refusal((STAGED[0][0], STAGED[0][1].replace("64 (32", "32 (32")), *STAGED[1:])
    assert "slices of 32 columns of `dq`, which is 64 wide" in said
    assert "note: from registers a tile goes out whole, as its threads hold it" in said


def test_a_stage_that_nothing_goes_through_is_refused():
    said = refusal(STAGED[1])
    assert said.startswith("error[unknown-value]: there is no value `stage`"), said
    assert said.count("error[") == 1


def test_dq_straight_from_registers_has_no_stage_no_fence_and_no_tma():
    """`reduce_dq` alone: no tile in SMEM, no fence and no store of TMA, in no kind of lap."""
    text, staged = (compiled("hopper/bwd", *edit).kernel.text for edit in ((), STAGED))
    calls = text.count("add_rows(dq, flat_part(block, head, heads, g), dq_acc)")
    assert calls == staged.count("stage_tiles[g], flat_rows(dq_acc)") == 4
    assert "stage_tiles" not in text and 'store_reduce="add"' not in text
    assert staged.count('tlx.fence("async_shared")') - text.count('tlx.fence("async_shared")') == 4


def test_a_ring_of_one_slot_of_ds_hangs():
    """dS of a step is written before dq reads that of the step before."""
    assert "error[" in refusal(
        ("smem ds[g]     : dtype[n, m]  depth 2", "smem ds[g]     : dtype[n, m]")
    )


def test_one_fence_serves_what_is_written_and_what_is_read():
    """The toolchain has a fence before matmuls that read what warps store, unless one is there."""
    text = compiled("hopper/bwd").kernel.text
    lap = text[text.index("# full steps: no mask") : text.index("# the masked tail")]
    lines = [line.strip() for line in lap.splitlines()]
    stored = next(i for i, line in enumerate(lines) if "local_store(ds_tiles" in line)
    multiplied = next(
        i for i, line in enumerate(lines) if line.startswith("dq_acc = tlx.async_dot(")
    )
    handed = lines.index("tlx.barrier_arrive(ds_full[ds_slot])")
    assert lines[multiplied - 1] == 'tlx.fence("async_shared")'
    assert not any("fence" in line for line in lines[stored : multiplied - 1] if line[0] != "#")
    assert stored < multiplied < handed


ADD = 'tl.atomic_add(dq + numbers, flat_rows(dq_acc), sem="relaxed")'
LAST_ADD = "add_rows(dq, flat_part(block, head, heads, g), dq_acc)\n                    # finish_dv"


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        (ADD, "tl.store(dq + numbers, flat_rows(dq_acc))", "global store accumulating `dq`"),
        (LAST_ADD, "# finish_dv", "global store accumulating `dq`"),
        (ADD, ADD.replace('relaxed"', 'relaxed", scope="cta"'), "are not seen by others"),
    ],
)
def test_an_add_that_is_none_or_is_left_out_is_noticed_in_the_text(written, instead, said):
    one = compiled("hopper/bwd")
    assert one.kernel.text.count(written) == 1
    text = one.kernel.text.replace(written, instead)
    try:
        found = [one.message for one in verify_text(one.plan, one.placement, one.sync, text)]
    except ReadbackError as error:
        found = [error.message]
    assert any(said in message for message in found), found


LAPS = {
    "the first step": "# full steps: no mask",
    "full steps: no mask": "# the masked tail",
    "the masked tail": "# the last step",
    "the last step": "# what the last step leaves",
}
ACTION = re.compile(r"( *)(?:\w+ = )?(?:tlx\.(?!local_load)\w+|add_rows)\(.*\)\n")


@pytest.mark.parametrize("lap", LAPS)
def test_every_action_of_every_kind_of_lap_is_held_to_the_schedule(lap):
    """Laps with and without a mask are different lines; one kind was once not looked at."""
    one = compiled("hopper/bwd")
    text = one.kernel.text
    start, stop = text.index(f"# {lap}\n"), text.index(LAPS[lap])
    actions = [
        found for found in ACTION.finditer(text, start, stop) if "local_trans" not in found[0]
    ]
    assert len(actions) > 12
    for found in actions:
        broken = f"{text[: found.start()]}{found[1]}pass\n{text[found.end() :]}"
        try:
            noticed = verify_text(one.plan, one.placement, one.sync, broken)
        except ReadbackError:
            continue
        assert noticed, found[0]


@pytest.mark.slow
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_compiles_with_its_matmuls_in_flight(edit):
    report = compile_text(compiled("hopper/bwd", *EDITS[edit]).kernel.text)
    assert report.findings == (), report.findings
