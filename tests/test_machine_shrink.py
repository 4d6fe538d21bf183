"""A failing run made short: the problem, the interleaving, the saved file and its replay."""

from __future__ import annotations

import json
from functools import lru_cache

import pytest
import typer
from builders import ROOT
from test_machine_run import HOST, LEAK, WRONG
from typer.testing import CliRunner

from jfagen.cli.run import run as run_command
from jfagen.machine import Policy, PolicyName, parse_policy
from jfagen.machine.failure import Failure, failure_from_json
from jfagen.machine.loader import Keep
from jfagen.machine.problem import Problem
from jfagen.machine.shrink import Case, count_holds, problem_text, shrink
from jfagen.machine.timeline import timeline_text
from jfagen.machine.trial import run_trial

KERNEL = (ROOT / "generated" / "fwd.py").read_text()
WHOLE = Problem(lengths=(0, 1, 127, 128, 129, 0, 300, 517))
ROLES = ("correction", "softmax", "mma", "load", "store")


def without(line):
    lines = KERNEL.split("\n")
    found = [i for i, text in enumerate(lines) if text.strip() == line]
    lines[found[0]] = lines[found[0]].replace(line, "pass")
    return "\n".join(lines)


def case(policy="random", problem=WHOLE, **how):
    return Case(problem=problem, sms=2, seed=0, policy=parse_policy(policy), **how)


@lru_cache
def shrunk_without(line):
    return shrink(without(line), case(), roles=ROLES)


OUT_WAIT = "tlx.barrier_wait(out_empty[g], tile_phase ^ 1)"
OUT_ARRIVE = "tlx.barrier_arrive(out_empty[g])"


@pytest.mark.parametrize("policy", ["random", "late", "at_once", "starve=mma"])
def test_holds_repeat_an_interleaving_exactly(policy):
    problem = Problem(lengths=(130, 0, 257))
    for seed in range(2):
        how = {"seed": seed, "keep": Keep.CHOICES}
        first = run_trial(KERNEL, problem, policy=policy, **how).outcome
        holds = Policy(name=PolicyName.DEFAULT, holds=first.choices)
        again = run_trial(KERNEL, problem, policy=holds, **how).outcome
        assert first.trace == again.trace
        assert first.choices == again.choices
        assert first.events == again.events


def test_without_holds_every_seed_runs_in_the_same_order():
    traces = {
        run_trial(
            KERNEL, Problem(lengths=(130,)), policy=Policy(name=PolicyName.DEFAULT), seed=s
        ).outcome.trace
        for s in range(3)
    }
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("line", "kind", "sequences", "holds"),
    [
        ("tlx.barrier_wait(kv_full[k_slot], k_phase)", "race", 1, 0),
        ("tlx.barrier_wait(alpha_full[g], step_phase)", "race", 1, 0),
        ("tlx.barrier_wait(s_full[g], step_phase)", "race", 1, 2),
        (OUT_WAIT, "race", 2, 2),
        ("tlx.barrier_wait(kv_empty[v_slot], v_phase ^ 1)", "race", 1, 1),
        (OUT_ARRIVE, "deadlock", 2, 0),
    ],
)
def test_a_deleted_wait_or_arrive_shrinks_to_almost_nothing(line, kind, sequences, holds):
    shrunk = shrunk_without(line)
    assert shrunk.complete
    assert shrunk.before.failure == shrunk.result.failure == kind
    problem = shrunk.case.problem
    assert len(problem.lengths) <= sequences and max(problem.lengths) <= 257
    assert (problem.queries, shrunk.case.sms) == (1, 1) and problem.heads <= 2
    assert count_holds(shrunk.result) <= holds < count_holds(shrunk.before)


def test_the_same_input_ends_in_the_same_run():
    first, second = shrunk_without(OUT_WAIT), shrink(without(OUT_WAIT), case(), roles=ROLES)
    assert (first.case, first.runs) == (second.case, second.runs)
    assert first.result.outcome.trace == second.result.outcome.trace


@pytest.mark.parametrize("budget", [{"steps": 4000}, {"steps": 0}, {"seconds": 0}])
def test_a_budget_that_is_used_up_still_gives_a_run_that_fails(budget):
    text = without(OUT_WAIT)
    shrunk = shrink(text, case(problem=Problem(lengths=(130, 0, 257))), **budget)
    assert not shrunk.complete
    assert shrunk.result.failure == "race"
    holds = Policy(name=PolicyName.DEFAULT, holds=shrunk.result.outcome.choices)
    again = run_trial(text, shrunk.case.problem, sms=shrunk.case.sms, policy=holds)
    assert again.outcome.trace == shrunk.result.outcome.trace


def test_wrong_results_leaks_and_faults_shrink_as_what_they_are():
    small = Problem(lengths=(0, 5, 3, 4), queries=8, heads=2, head_dim=16)
    wrong = shrink(WRONG, case(problem=small))
    assert wrong.result.failure == "wrong result"
    assert (wrong.case.problem.queries, wrong.case.problem.heads) == (1, 1)
    assert len(wrong.case.problem.lengths) == 1
    leak = shrink(LEAK, case(problem=small, nan_neighbours=True))
    assert leak.result.failure == "neighbours leak"
    assert leak.case.nan_neighbours and leak.case.problem.lengths == (1, 1)
    fault = shrink(HOST.replace("    m, h, d", "    m, h"), case(problem=small))
    assert fault.result.failure == "fault (host)"
    assert shrink(HOST, case(problem=small)) is None


def test_a_timeline_tells_role_line_schedule_and_op():
    outcome = shrunk_without(OUT_WAIT).result.outcome
    lines = timeline_text(outcome.events, outcome.reports).splitlines()
    assert lines[0].split() == ["choice", "role", "line", "schedule", "op"]
    for role in ("correction", "softmax[0]", "mma", "load", "store"):
        assert 1 <= sum(f" {role} of CTA 0 " in line for line in lines) <= 6
    first = next(line for line in lines if line.endswith("<- first access of the race"))
    assert "completes: async_descriptor_store(out_tiles[0])" in first
    assert "fwd.sched:" in first
    assert lines[-1].endswith("<- second access of the race")
    numbers = [int(line.split()[0]) for line in lines[1:]]
    assert numbers == sorted(numbers)
    assert any("put off: " in line for line in lines)


def test_a_blocked_wait_is_last_and_still_waits():
    outcome = shrunk_without(OUT_ARRIVE).result.outcome
    lines = timeline_text(outcome.events, outcome.reports).splitlines()
    correction = [line for line in lines if " correction of CTA 0 " in line]
    assert correction[-1].endswith("barrier_wait(out_empty[0], 0) -- still waits")


# ---- the command -------------------------------------------------------------------------------


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(run_command)

    def run(text, *options):
        (tmp_path / "kernel.py").write_text(text)
        return CliRunner().invoke(app, ["kernel.py", *options])

    return run


BROKEN = without("tlx.barrier_wait(kv_full[k_slot], k_phase)")


def test_shrink_saves_a_failure_that_replay_repeats(call, tmp_path):
    said = call(BROKEN, "--shrink", "--lengths", "130,0,5", "--seeds", "2")
    assert said.exit_code == 1, said.output
    assert "shortest run that fails" in said.stdout
    assert "--lengths 1 --queries 1 --heads 1 --head-dim 128 --sms 1" in said.stdout
    assert "0 off the default order; before: " in said.stdout
    assert "last events of each role before the race:" in said.stdout
    assert "shrinking: " in said.stderr and "shrinking: " not in said.stdout
    failure = failure_from_json((tmp_path / "kernel.failure.json").read_text())
    assert failure.kind == "race" and failure.report.startswith("race: ")
    again = call(BROKEN, "--replay", "kernel.failure.json")
    assert again.exit_code == 1
    assert (
        "still fails: race, expected race, with the same report; the kernel is the same"
        in again.stdout
    )
    assert failure.report in again.stdout


def test_replay_of_a_mended_kernel_says_that_it_no_longer_fails(call):
    call(BROKEN, "--shrink", "--lengths", "130")
    mended = call(KERNEL, "--replay", "kernel.failure.json")
    assert mended.exit_code == 0
    assert "no longer fails: expected race; the kernel has changed since" in mended.stdout
    other = call(without("tlx.barrier_arrive(out_full[g])"), "--replay", "kernel.failure.json")
    assert other.exit_code == 1
    assert "in another way: deadlock, expected race, with another report" in other.stdout


def test_nothing_is_written_when_nothing_fails(call, tmp_path):
    said = call(KERNEL, "--shrink", "--lengths", "130,0")
    assert said.exit_code == 0
    assert "shortest" not in said.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["kernel.py"]


def saved(**changes):
    holds = (("load@0 step 3", "load@0 step 3", "mma@0 operation 1"),)
    failure = Failure(
        case=Case(
            problem=Problem(lengths=(5,)),
            sms=1,
            seed=0,
            policy=Policy(name=PolicyName.DEFAULT, holds=holds),
            step_bound=9,
        ),
        digest="ab",
        kind="race",
        report="race: x\n  y",
    )
    content = json.loads(failure.as_json())
    assert content["choices"] == [["load@0 step 3 x 2", "mma@0 operation 1"]]
    assert failure_from_json(failure.as_json()) == failure
    content.update(changes)
    return json.dumps({name: value for name, value in content.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "is no JSON"),
        ("{", "is no JSON (line 1)"),
        ("[]", "is no saved failure"),
        ("{}", "is no saved failure"),
        ("\0", "is no JSON"),
        (saved(format=7), "has format 7"),
        (saved(problem=None), "lacks `problem`"),
        (saved(problem=[]), "`problem` is no object"),
        (saved(problem={"lengths": [1, -2]}), "`lengths`"),
        (saved(problem={"lengths": [True]}), "`lengths`"),
        (saved(problem={"lengths": [1], "keys": 1}), "unknown `keys`"),
        (saved(sms=0), "`sms` is 0"),
        (saved(sms="1"), "`sms` is no whole number"),
        (saved(choices=[1]), "`choices`"),
        (saved(choices=[["a x b"]]), "`a x b`"),
        (saved(choices={}), "`choices` is no list"),
        (saved(report=[1]), "`report`"),
        (saved(step_bound=10**5, kind=3), "`kind` is no text"),
    ],
)
def test_a_file_that_is_no_saved_failure_is_one_clear_line(call, tmp_path, text, word):
    (tmp_path / "bad.json").write_text(text)
    said = call(HOST, "--replay", "bad.json")
    assert said.exit_code == 2 and not said.stdout
    assert word in said.stderr and "`bad.json`" in said.stderr
    assert len(said.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--replay", "nowhere.json"], "`nowhere.json`"),
        (["--replay", "."], "`.`"),
        (["--replay", "ok.json", "--seed", "3"], "--seed and --replay"),
        (["--replay", "ok.json", "--shrink"], "--shrink and --replay"),
        (["--replay", "ok.json", "--nan-neighbours"], "--nan-neighbours and --replay"),
    ],
)
def test_a_wrong_call_of_replay_is_one_line(call, tmp_path, options, word):
    (tmp_path / "ok.json").write_text(saved())
    said = call(HOST, *options)
    assert said.exit_code == 2 and not said.stdout
    assert word in said.stderr
    assert len(said.stderr.splitlines()) == 1


def test_the_saved_form_is_known():
    assert problem_text(failure_from_json(saved()).case).startswith("--lengths 5 --queries 256")
