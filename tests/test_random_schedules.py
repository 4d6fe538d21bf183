"""The prover against brute force on random schedules.

Every schedule goes through the real parser, checker, passes and prover. Its kernel's text, or the
text that it would have, is run in many orders by `brute_force.py`, which shares nothing with the
prover. Accepted kernels are compared once more with one channel changed. The quick part compares
about 200 texts; the slow one 3,000 schedules, and sends some texts through the CPU machine.
"""

from __future__ import annotations

import random
import re
import sys
import time
from pathlib import Path

import pytest
from brute_force import examine
from brute_found import FOUND, TWICE_EMPTY
from brute_verdicts import (
    Tally,
    brute_verdict,
    changed_kernel,
    compare,
    forced_kernel,
    prover_verdict,
)
from builders import SHIPPED, compiled, edited
from hypothesis import HealthCheck, Phase, given, seed, settings
from random_backward import backward_schedules
from random_schedules import schedules

from jfagen.diagnostics import CompileError, SourceFile
from jfagen.driver import compile_source
from jfagen.machine import trial
from jfagen.readback import ReadbackError, prove_text
from jfagen.readback.kernel_text import parse_kernel

#: Schedules of the slow run: chunks of their own seeds, so that several processes share them.
CHUNKS, CHUNK = 20, 150
QUICK_CHUNKS, QUICK_CHUNK = 2, 50
BACKWARDS, BACKWARD_CHUNKS = 30, 4
MACHINE_CHUNKS, MACHINE_CHUNK = 4, 40
PROGRESS = 50
#: Every so many schedules all pairs and many triples of tiles are run.
THOROUGH_EVERY, THOROUGH = 25, {"pairs": 36, "triples": 30}

#: One group, P apart and four deep, K and V in rings of their own: pv runs three steps behind.
LATE_VALUES = """kernel late_values {
  algorithm attention.forward
  target sm_100a
  problem { head_dim 128  dtype bf16  q broadcast  kv jagged  mask none }
  tile { m 128  n 64 }
  role correction { warps 4  default }
  role softmax    { warps 4  registers 184 }
  role mma        { warps 1  registers 24 }
  role load       { warps 1  registers 24 }
  role store      { warps 1  registers 24 }
  smem q   : bf16[m, d]
  smem k   : bf16[n, d]  depth 2
  smem v   : bf16[n, d]  depth 2
  smem out : bf16[m, d]
  tmem s     : f32[m, n]
  tmem p     : bf16[m, n]  depth 4
  tmem alpha : f32[m]
  tmem row_sum, row_max : f32[m]
  tmem acc   : f32[m, d]
  apart { s, p }
  load { load_q }
  loop i over kv {
    load       { load_k[i]  load_v[i] }
    mma        { qk[i]  pv[i-3] }
    softmax    { softmax[i] }
    correction { rescale[i] }
  }
  softmax    { publish_stats }
  correction { finish }
  store      { store_out }
  tiles { persistent  next static deal round_robin }
}
"""


def for_each(examples, number, count, work):
    """Call `work` with `count` random schedules that depend on `number` alone."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(examples)
    def run(text):
        work(text)

    run()


def campaign(number, count, capsys, examples=None, **effort):
    """Compare both verdicts on `count` schedules; return the tally after printing it."""
    tally = Tally()
    start = time.perf_counter()

    def work(text):
        done = tally.counts["schedules"]
        thorough = THOROUGH if done % THOROUGH_EVERY == THOROUGH_EVERY - 1 else {}
        compare(text, tally, number * 100_000 + done, **{**effort, **thorough})
        if (done + 1) % PROGRESS == 0:
            say(
                capsys,
                f"chunk {number}: {done + 1} schedules, {tally.counts['texts']} texts, "
                f"{tally.counts['texts that fail']} of them fail, "
                f"{len(tally.disagreements)} disagreements, {time.perf_counter() - start:.0f} s",
            )

    for_each(schedules() if examples is None else examples, number, count, work)
    say(capsys, f"chunk {number}:\n{tally.lines()}")
    return tally


def say(capsys, words):
    """Print now, from a process of pytest-xdist too: its standard error is the terminal's."""
    with capsys.disabled():
        print(f"\n{words}", file=sys.stderr, flush=True)


def check(tally):
    """Assert that nothing disagrees and that the mix is worth comparing."""
    assert not tally.disagreements, "\n\n".join(tally.disagreements)
    counts = tally.counts
    assert counts["refused by the checker"] + counts["too large"] <= counts["schedules"] // 10
    assert 0.3 <= counts["texts that fail"] / counts["texts"] <= 0.7


@pytest.mark.parametrize("number", range(QUICK_CHUNKS))
def test_prover_and_brute_force_agree(number, capsys):
    check(campaign(1000 + number, QUICK_CHUNK, capsys, pairs=4, triples=2))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(CHUNKS))
def test_prover_and_brute_force_agree_on_thousands(number, capsys):
    check(campaign(number, CHUNK, capsys, pairs=8, triples=6))


def check_backwards(tally):
    """Assert that nothing disagrees, and that enough was accepted to be worth comparing."""
    assert not tally.disagreements, "\n\n".join(tally.disagreements)
    assert tally.counts["refused by the checker"] <= tally.counts["schedules"] // 10
    assert tally.counts["accepted"] >= tally.counts["schedules"] // 10


def test_prover_and_brute_force_agree_on_backwards(capsys):
    check_backwards(campaign(2000, BACKWARDS, capsys, backward_schedules()))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(BACKWARD_CHUNKS))
def test_prover_and_brute_force_agree_on_hundreds_of_backwards(number, capsys):
    check_backwards(campaign(2001 + number, CHUNK, capsys, backward_schedules()))


@pytest.mark.slow
def test_the_machine_agrees_on_backwards(capsys):
    """What the prover accepts sums the right gradients in every order that is tried."""
    right = 0

    def work(text):
        nonlocal right
        try:
            kernel = compile_source(SourceFile(path="random.sched", text=text)).kernel.text
        except CompileError:
            return
        problem = trial.Problem(lengths=(129, 0, 64, 300), queries=130, heads=1, head_dim=64)
        for policy in ("late", "at_once", "random"):
            result = trial.run_trial(kernel, problem, policy=policy, sms=2)
            assert result.right, (text, policy, result.errors, result.outcome.text())
        right += 1

    for_each(backward_schedules(), 3000, MACHINE_CHUNK, work)
    say(capsys, f"{right} of {MACHINE_CHUNK} random backwards accepted, all of them right")
    assert right >= MACHINE_CHUNK // 10


@pytest.mark.slow
@pytest.mark.parametrize("number", range(MACHINE_CHUNKS))
def test_the_machine_agrees_too(number, capsys):
    """What the prover accepts gives right results; what hangs by brute force is not accepted."""
    lengths = (200, 64, 0, 517, 130)
    problem = trial.Problem(lengths=lengths, queries=128, heads=1, head_dim=64, rising=True)
    tally = Tally()

    def enter(kind, schedule, kernel, refused):
        try:
            parse_kernel(kernel)
        except ReadbackError:  # the rings of the plan leave nothing to spell
            assert refused
            tally.counts["refused, without a text"] += 1
            return
        machine = None
        for policy in ("late", "at_once"):
            result = trial.run_trial(kernel, problem, policy=policy, sms=1)
            if not result.right and machine is None:
                machine = f"{policy}: {result.outcome.text()}"
        brute = brute_verdict(kernel, number, 4, 2)
        tally.counts["texts on the machine"] += 1
        tally.counts[f"{kind}, {'stopped or wrong' if machine else 'right'}"] += 1
        if not refused and (machine or brute):
            tally.disagree(f"{kind}, not refused", schedule, machine or brute)
        if brute is not None and brute.kind == "hang":
            shown = "shown" if machine else "not shown by this problem"
            tally.counts[f"hangs by brute force, {shown}"] += 1

    def work(text):
        verdict = prover_verdict(text)
        if not verdict.kernel:
            return
        enter("refused" if verdict.refused else "accepted", text, verdict.kernel, verdict.refused)
        choose = random.Random(number * 1000 + tally.counts["texts on the machine"])
        changed = changed_kernel(verdict.compiled, choose) if verdict.compiled else None
        if changed is not None:
            enter("changed", text, changed.kernel, changed.findings)

    for_each(schedules(), 2000 + number, MACHINE_CHUNK, work)
    say(capsys, f"machine, chunk {number}:\n{tally.lines()}")
    assert not tally.disagreements, "\n\n".join(tally.disagreements)


# ---- The case that only the fourth key block shows -----------------------------------------------


def compile_text(text):
    return compile_source(SourceFile(path="late_values.sched", text=text))


def test_values_three_steps_late_hang_from_the_fourth_key_block_on():
    kernel = parse_kernel(forced_kernel(SourceFile(path="late_values.sched", text=LATE_VALUES)))
    kinds = [examine(kernel, [(steps,)]) for steps in range(9)]
    assert [found.kind if found else "" for found in kinds] == [""] * 4 + ["hang"] * 5


def test_values_three_steps_late_are_refused_with_their_cycle():
    with pytest.raises(CompileError) as caught:
        compile_text(LATE_VALUES)
    (found,) = caught.value.diagnostics
    assert found.id == "order-cycle"
    assert "has to come first" in found.message
    assert len(found.notes) >= 2
    assert any("before" in help for help in found.helps)
    assert "give `v` a depth of 3" in found.helps


@pytest.mark.parametrize(
    "edit",
    [
        ("qk[i]  pv[i-3]", "pv[i-3]  qk[i]"),
        ("smem v   : bf16[n, d]  depth 2", "smem v   : bf16[n, d]  depth 3"),
    ],
)
def test_what_the_refusal_proposes_is_accepted_and_lives(edit):
    text = LATE_VALUES.replace(*edit)
    assert text != LATE_VALUES
    assert brute_verdict(compile_text(text).kernel.text, 0, 8, 4) is None


# ---- What random schedules have found ------------------------------------------------------------


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_agreed_on(name):
    tally = Tally()
    compare(FOUND[name], tally, 0, pairs=36, triples=30)
    assert not tally.disagreements, tally.disagreements[0]


def test_an_empty_tile_is_written_once():
    verdict = prover_verdict(TWICE_EMPTY)
    problem = trial.Problem(lengths=(0, 64), queries=256, heads=1, head_dim=64)
    assert verdict.refused or trial.run_trial(verdict.kernel, problem, sms=1).right


# ---- Brute force itself --------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_brute_force_finds_nothing_in_what_is_shipped(name):
    assert brute_verdict(compiled(name).kernel.text, 0, 2, 1) is None


@pytest.mark.parametrize("name", ["ladder/06_slices", "ladder/08_zigzag"])
def test_a_barrier_for_every_dependence_is_no_reason_to_hang(name):
    """What refused schedules are given must not be what makes them hang."""
    text = forced_kernel(SourceFile(path="random.sched", text=edited(name)))
    assert brute_verdict(text, 0, 2, 1) is None


S_FULL = "tlx.barrier_wait(s_full[g], step_phase)"
BROKEN = [
    (S_FULL, "pass", {"race", "stale", "phase"}),
    (S_FULL, "tlx.barrier_wait(s_full[g], 0)", {"stale", "hang"}),
    ("tlx.barrier_arrive(alpha_full[g])", "pass", {"hang"}),
    ("q_tiles[1],", "q_tiles[0],", {"stale", "race"}),
    ("use_acc=(step > 1) if piece == 0 else True", "use_acc=True", {"stale"}),
    ("KV_DEPTH = tl.constexpr(3)", "KV_DEPTH = tl.constexpr(1)", {"hang"}),
]


HOPPER_BROKEN = [
    ("tlx.barrier_wait(k_full[k_slot], k_phase)", "pass", {"race"}),
    ("tlx.barrier_arrive(v_empty[v_slot])", "pass", {"hang"}),
    ("tlx.named_barrier_wait(TURN_BARRIER + g, TURN_THREADS)", "pass", {"phase"}),
    ("(g + 1) % GROUPS", "g", {"phase", "hang"}),
    ("k_phase ^ 1", "k_phase", {"hang"}),
]


@pytest.mark.parametrize(("old", "new", "kinds"), HOPPER_BROKEN)
def test_brute_force_sees_what_is_broken_on_hopper(old, new, kinds):
    text = compiled("hopper/fwd").kernel.text
    assert old in text
    trouble = brute_verdict(text.replace(old, new), 0, 2, 1)
    assert trouble is not None and trouble.kind in kinds
    try:
        assert prove_text(text.replace(old, new))
    except ReadbackError:
        pass


@pytest.mark.parametrize(
    "pending", ["s = tlx.async_dot_wait(1, s)", "acc = tlx.async_dot_wait(0, acc)"]
)
def test_a_result_that_was_not_waited_for_cannot_be_read(pending):
    text = compiled("hopper/fwd").kernel.text
    weaker = re.sub(r"wait\((\d)", lambda found: f"wait({int(found[1]) + 1}", pending)
    with pytest.raises(ReadbackError, match="used before the role has waited"):
        prove_text(text.replace(pending, weaker))


@pytest.mark.parametrize(("old", "new", "kinds"), BROKEN)
def test_brute_force_sees_what_is_broken(old, new, kinds):
    text = compiled("ladder/08_zigzag").kernel.text
    assert old in text
    found = brute_verdict(text.replace(old, new), 0, 2, 1)
    assert found is not None and found.kind in kinds, str(found)


@pytest.mark.parametrize(
    "name", ["force", "machine", "code", "meaning", "gradients", "hopper_gradients"]
)
def test_brute_force_shares_only_the_parser_with_the_prover(name):
    lines = (Path(__file__).parent / f"brute_{name}.py").read_text().splitlines()
    ours = {line.split()[1] for line in lines if re.match(r"(from|import) jfagen", line)}
    assert ours <= {"jfagen.readback.kernel_text", "jfagen.readback.trace"}
