"""Trials of backward kernels: every verdict, on host functions that stand for kernels."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import typer
from test_machine_run import HOST as FORWARD_HOST
from typer.testing import CliRunner

from jfagen.cli.run import run as run_command
from jfagen.machine.backward_trial import BACKWARD
from jfagen.machine.failure import failure_from_json
from jfagen.machine.forward_trial import FORWARD
from jfagen.machine.problem import Owner, Problem, owned_indices
from jfagen.machine.scheduler import parse_policy
from jfagen.machine.shrink import Case, problem_text, shrink
from jfagen.machine.trial import PROCEDURES, UnknownAlgorithm, procedure_of, run_trial

# What a right kernel would return: torch in float32, one sequence after the other.
HOST = """
import torch

ALGORITHM = "attention.backward"


def backward(dout, q, k, v, out, lse, kv_offsets, *, scale=None, sms=None, tiles=None):
    q_offsets = None
    factor = q.shape[-1] ** -0.5
    f = torch.Tensor.float
    dq, dk, dv = (torch.zeros_like(x, dtype=torch.float32) for x in (q, k, v))
    ends = kv_offsets.tolist()
    for b in range(len(ends) - 1):
        at = slice(ends[b], ends[b + 1])
        mine = slice(None) if q_offsets is None else slice(*q_offsets[b : b + 2].tolist())
        index = b if q_offsets is None else mine
        if at.start == at.stop or mine.start == mine.stop is not None:
            continue
        logs = lse[b] if q_offsets is None else lse[mine].T
        p = (torch.einsum("mhd,nhd->hmn", f(q[mine]), f(k[at])) * factor - logs[:, :, None]).exp()
        delta = (f(dout[index]) * f(out[index])).sum(2).T
        ds = p * (torch.einsum("mhd,nhd->hmn", f(dout[index]), f(v[at])) - delta[:, :, None])
        dq[mine] += torch.einsum("hmn,nhd->mhd", ds, f(k[at])) * factor
        dk[at] = torch.einsum("hmn,mhd->nhd", ds, f(q[mine])) * factor
        dv[at] = torch.einsum("hmn,mhd->nhd", p, f(dout[index]))
    # edit
    return dq.to(q.dtype), dk.to(q.dtype), dv.to(q.dtype)
"""
PACKED_HOST = (
    HOST.replace("kv_offsets, *,", "kv_offsets, q_offsets, *,").replace(
        "    q_offsets = None\n", ""
    )
    + '\nSIGNATURE = {"q_offsets": "*i32"}\n'
)
SHARED = Problem(lengths=(0, 5, 3, 4), queries=8, heads=2, head_dim=16)
PACKED = Problem(lengths=(0, 5, 3, 4, 6), query_lengths=(2, 9, 4, 3, 0), heads=2, head_dim=16)
MODES = {"shared": (HOST, SHARED), "packed": (PACKED_HOST, PACKED)}
each_mode = pytest.mark.parametrize(("text", "problem"), MODES.values(), ids=MODES)


def edited(text, line):
    return text.replace("# edit", line)


def names_wrong(result):
    return [error.name for error in result.errors if not error.within]


@each_mode
@pytest.mark.parametrize("rising", [False, True])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_right_gradients_are_right_with_and_without_nan_neighbours(text, problem, rising, dtype):
    problem = replace(problem, rising=rising, dtype=dtype)
    for seed in range(3):
        result = run_trial(text, problem, seed=seed, nan_neighbours=bool(seed))
        assert result.right, result.errors
        assert [error.name for error in result.errors] == ["dq", "dk", "dv"]
        assert all(0 < error.error <= error.bound for error in result.errors)


@each_mode
@pytest.mark.parametrize("name", ["dq", "dk", "dv"])
@pytest.mark.parametrize("change", ["*= 1.1", "[3] = 0", "[3, 0, 0] = float('nan')"])
def test_one_wrong_gradient_is_named(text, problem, name, change):
    """Row 3 is of the second sequence in all of them."""
    result = run_trial(edited(text, name + change), problem)
    assert result.failure == "wrong result"
    assert names_wrong(result) == [name]


def test_a_short_sequence_with_large_gradients_hides_no_long_one():
    problem = Problem(lengths=(1, 300), queries=64, heads=1, head_dim=16)
    assert run_trial(HOST, problem).right
    assert names_wrong(run_trial(edited(HOST, "dv[200:301] = 0"), problem)) == ["dv"]


@each_mode
@pytest.mark.parametrize("name", ["dk", "dv"])
def test_rows_past_the_last_offset_are_exactly_zero(text, problem, name):
    text = edited(text, f"{name}[kv_offsets[-1]] = 1e-6")
    assert names_wrong(run_trial(text, problem)) == [name]


@pytest.mark.parametrize(
    ("line", "name"),
    [("dk[-5] = 1e-6", "dk"), ("dv[-5] = 1e-6", "dv"), ("dq[1] = 1e-6", "dq")],
    ids=["keys without queries", "keys without queries, dv", "queries without keys"],
)
def test_what_a_sequence_lacks_leaves_exact_zeros(line, name):
    assert names_wrong(run_trial(edited(PACKED_HOST, line), PACKED)) == [name]


@each_mode
@pytest.mark.parametrize("outputs", ["dq, dk", "dq, dk, dv, dv", "dq[:1], dk[:1], dv[:1]"])
def test_too_few_or_misshapen_results_are_wrong(text, problem, outputs):
    result = run_trial(edited(text, f"return {outputs}"), problem)
    assert result.failure == "wrong result" and names_wrong(result) == ["dq", "dk", "dv"]


# ---- neighbours --------------------------------------------------------------------------------


@each_mode
@pytest.mark.parametrize("seen", ["k", "v", "dout", "out", "lse.clamp(-99)"])
@pytest.mark.parametrize("name", ["dk", "dv"])
def test_a_neighbour_that_gets_in_is_found_with_nan_neighbours_only(text, problem, seen, name):
    text = edited(text, f"{name} += 0 * {seen}.sum()")
    assert run_trial(text, problem).right
    result = run_trial(text, problem, nan_neighbours=True)
    assert result.leak and result.failure == "neighbours leak" and not result.right


def test_packed_queries_and_their_gradient_have_neighbours_too():
    for line in ("dk += 0 * q.float().sum()", "dq += 0 * k.float().sum()"):
        assert run_trial(edited(PACKED_HOST, line), PACKED, nan_neighbours=True).leak


def test_the_gradient_of_shared_queries_may_be_nan_where_a_neighbour_is():
    result = run_trial(HOST, SHARED, nan_neighbours=True)
    assert result.right and np.isnan(result.outcome.outputs[0]).all()


@pytest.mark.parametrize(
    ("name", "factor", "leaks"),
    [("dq", 1 + 2**-8, False), ("dq", 1.1, True), ("dk", 1 + 2**-8, True), ("dv", 1.01, True)],
)
def test_only_what_is_summed_in_any_order_may_differ_in_its_last_bit(name, factor, leaks):
    text = edited(PACKED_HOST, f"{name} *= {factor} if v.isnan().any() else 1")
    result = run_trial(text, PACKED, nan_neighbours=True)
    assert result.leak is leaks and result.right is not leaks


def test_every_tensor_of_a_neighbour_is_poisoned_and_nothing_else():
    inputs = BACKWARD.make_inputs(PACKED, 0)
    poisoned, kept = BACKWARD.poison(inputs)
    assert kept == [0, 1, 3]
    for name, owner in BACKWARD.owners.items():
        rows = poisoned[name].flatten(1).isnan().any(1).nonzero().flatten().tolist()
        assert rows == owned_indices(owner, inputs, [2, 4]), name
        assert not inputs[name].isnan().any()
    shared, _ = BACKWARD.poison(BACKWARD.make_inputs(SHARED, 0))
    assert not shared["q"].isnan().any()
    assert owned_indices(Owner.RESULTS, shared, [2]) == [2]


# ---- inputs and the choice of a procedure ------------------------------------------------------


@each_mode
def test_the_inputs_are_those_that_a_forward_leaves(text, problem):
    inputs = BACKWARD.make_inputs(problem, 0)
    out, lse = inputs["out"], inputs["lse"]
    assert inputs["dout"].shape == out.shape and out.dtype == torch.bfloat16
    assert lse.dtype == torch.float32 and inputs["q"].dtype == torch.bfloat16
    assert list(inputs["k"].shape) == [sum(problem.lengths) + 3, 2, 16]
    assert not torch.equal(inputs["dout"].flatten()[:64], inputs["q"].flatten()[:64])
    assert torch.isneginf(lse).any()


def test_a_text_says_how_it_is_tried():
    assert set(PROCEDURES) == {"attention.forward", "attention.backward"}
    assert procedure_of(HOST) is BACKWARD
    for text in (FORWARD_HOST, 'ALGORITHM = "attention.forward"\n', "not Python\n"):
        assert procedure_of(text) is FORWARD
    for text in ('ALGORITHM = "attention.sideways"\n', "ALGORITHM = choose()\n"):
        with pytest.raises(UnknownAlgorithm, match=r"sideways|choose\(\)"):
            procedure_of(text)


# ---- shrinking and the command -----------------------------------------------------------------


def test_a_wrong_backward_shrinks_and_sequences_keep_their_queries():
    text = edited(PACKED_HOST, "dk *= 1.1")
    case = Case(problem=PACKED, sms=2, seed=0, policy=parse_policy("random"))
    shrunk = shrink(text, case)
    assert shrunk.complete and shrunk.result.failure == "wrong result"
    problem = shrunk.case.problem
    assert len(problem.lengths) == len(problem.query_lengths) == 1
    assert problem.heads == 1 and problem.query_lengths[0] == 1
    assert f"--query-lengths {problem.query_lengths[0]} " in problem_text(shrunk.case)
    assert "--queries" not in problem_text(shrunk.case)


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(run_command)

    def run(text, *options):
        (tmp_path / "kernel.py").write_text(text)
        return CliRunner().invoke(app, ["kernel.py", "--head-dim", "16", *options])

    return run


def test_run_prints_the_error_and_bound_of_each_gradient(call):
    small = ("--lengths", "0,5,3", "--queries", "8", "--seeds", "2", "--nan-neighbours")
    result = call(HOST, *small, "--rising", "--policy", "late")
    assert result.exit_code == 0, result.output
    words = result.stdout.splitlines()[0].split()
    assert words[:4] == ["seed", "0", "late", "right"]
    assert [words[at] for at in (4, 8, 12)] == ["dq", "dk", "dv"]
    assert all(words[at] == "(bound" for at in (6, 10, 14))
    assert "simulated 2 runs: 2 right" in result.stdout


@pytest.mark.parametrize(
    ("lengths", "queries"), [("0,5,3,0", "4,0,2,0"), ("0", "0"), ("0,0", "3,0"), ("4,1", "0,0")]
)
def test_sequences_without_keys_or_queries_are_tried(call, lengths, queries):
    result = call(PACKED_HOST, "--lengths", lengths, "--query-lengths", queries, "--nan-neighbours")
    assert result.exit_code == 0, result.output
    assert call(PACKED_HOST, "--lengths", lengths).exit_code == 0


def test_an_unknown_algorithm_is_one_clear_line(call, tmp_path):
    text = HOST.replace("attention.backward", "attention.sideways")
    words = (
        "error: no kernel of `attention.sideways` can be tried, only of `attention.forward` and"
        " `attention.backward`\n"
    )
    result = call(text)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", words)


def test_a_backward_text_without_its_function_is_one_clear_line(call):
    result = call('ALGORITHM = "attention.backward"\n')
    assert result.exit_code == 2 and "no function `backward`" in result.stderr


@each_mode
def test_a_failure_of_a_backward_is_saved_and_repeated(call, tmp_path, text, problem):
    broken = edited(text, "dv *= 1.1")
    said = call(broken, "--shrink", "--lengths", "0,5,3", "--seeds", "2")
    assert said.exit_code == 1, said.output
    saved = tmp_path / "kernel.failure.json"
    failure = failure_from_json(saved.read_text())
    assert failure.kind == "wrong result"
    packed = failure.case.problem.query_lengths is not None
    assert packed == (problem is PACKED)
    app = typer.Typer()
    app.command()(run_command)
    repeat = ["kernel.py", "--replay", str(saved)]
    assert "still fails: wrong result" in CliRunner().invoke(app, repeat).stdout
    (tmp_path / "kernel.py").write_text(text)
    mended = CliRunner().invoke(app, repeat)
    assert mended.exit_code == 0 and "no longer fails" in mended.stdout
    (tmp_path / "kernel.py").write_text(text.replace("attention.backward", "attention.sideways"))
    refused = CliRunner().invoke(app, repeat)
    assert refused.exit_code == 2 and "attention.sideways" in refused.stderr


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"query_lengths": [1]}, "1 `query_lengths` for 2"),
        ({"query_lengths": [1, -1]}, "`query_lengths` is not a list"),
        ({"dtype": "fp8"}, "`dtype` is 'fp8', not bf16 or fp16"),
    ],
)
def test_a_saved_problem_keeps_its_queries_and_type(changes, word):
    problem = {"lengths": [3, 4], "queries": 8, "heads": 1, "head_dim": 16, "rising": False}
    content = {
        "format": 1, "kernel": "ab", "sms": 1, "seed": 0, "nan_neighbours": False,
        "step_bound": 9, "choices": [], "kind": "race", "report": [], "problem": problem,
    }  # fmt: skip
    old = failure_from_json(json.dumps(content)).case.problem
    assert (old.query_lengths, old.dtype) == (None, "bf16")
    content["problem"] = {**problem, "query_lengths": [0, 2], "dtype": "fp16"}
    failure = failure_from_json(json.dumps(content))
    assert (failure.case.problem.query_lengths, failure.case.problem.dtype) == ((0, 2), "fp16")
    assert failure_from_json(failure.as_json()) == failure
    content["problem"] = {**problem, **changes}
    with pytest.raises(ValueError, match=word):
        failure_from_json(json.dumps(content))


def test_offsets_are_in_order_and_the_rest_is_no_sequences():
    inputs = BACKWARD.make_inputs(PACKED, 0)
    for name, rows in (("kv_offsets", "k"), ("q_offsets", "q")):
        ends = inputs[name].tolist()
        assert all(low <= high for low, high in pairwise(ends))
        assert len(inputs[rows]) == ends[-1] + 3
