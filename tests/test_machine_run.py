"""Trials against the reference, and the `jfagen run` command."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import typer
from builders import ROOT
from typer.testing import CliRunner

from jfagen.cli.run import run as run_command
from jfagen.machine.forward_trial import make_inputs
from jfagen.machine.problem import Problem
from jfagen.machine.trial import run_trial
from jfagen.reference import attention, round_to_bfloat16

# A host function without a kernel: what a right, a wrong and a leaking kernel would return.
HOST = """
import torch


def forward(q, k, v, kv_offsets, *, scale=None, sms=None):
    m, h, d = q.shape
    bounds = kv_offsets.tolist()
    out = torch.zeros((len(bounds) - 1, m, h, d), dtype=q.dtype)
    lse = torch.full((len(bounds) - 1, h, m), float("-inf"))
    for b, (lo, hi) in enumerate(zip(bounds, bounds[1:])):
        if lo == hi:
            continue
        s = torch.einsum("mhd,nhd->hmn", q.float(), k[lo:hi].float()) * d**-0.5
        out[b] = torch.einsum("hmn,nhd->mhd", s.softmax(2), v[lo:hi].float()).to(q.dtype)
        lse[b] = s.logsumexp(2)
    return out, lse
"""
FWD = (ROOT / "generated" / "fwd.py").read_text()
LEAK = HOST.replace("    return out", "    out += 0 * v.float().sum().to(q.dtype)\n    return out")
WRONG = HOST.replace("* d**-0.5", "* d**-0.4")
SMALL = Problem(lengths=(0, 5, 3, 4), queries=8, heads=2, head_dim=16)


def without(text, line):
    assert text.count(line) == 1
    return text.replace(line, "pass")


def test_a_right_kernel_is_right_with_and_without_nan_neighbours():
    assert run_trial(HOST, SMALL).right
    assert run_trial(HOST, SMALL, nan_neighbours=True).right


def test_a_wrong_kernel_is_wrong():
    result = run_trial(WRONG, SMALL)
    assert not result.right
    out = result.errors[0]
    assert (out.name, out.within) == ("out", False)


def test_a_kernel_that_lets_a_neighbour_in_is_found_with_nan_neighbours_only():
    assert run_trial(LEAK, SMALL).right
    result = run_trial(LEAK, SMALL, nan_neighbours=True)
    assert result.leak
    assert not result.right


def test_rising_keys_move_the_running_maximum():
    problem = Problem(lengths=(300,), queries=64, heads=1, rising=True)
    q, k = (make_inputs(problem, 0)[name].double()[:, 0] for name in ("q", "k"))
    scores = q @ k.T * 128**-0.5 / np.log(2)
    growth = scores[:, 256:].amax(1) - scores[:, :128].amax(1)
    assert growth.max() > 8


def test_a_result_that_is_nan_is_wrong():
    text = HOST.replace("    return out", "    out[1, 0, 0, 0] = float('nan')\n    return out")
    assert not run_trial(text, SMALL).right


def test_the_reference_agrees_with_torch():
    inputs = make_inputs(SMALL, 0)
    q, k, v = (inputs[name].double() for name in ("q", "k", "v"))
    out, lse = attention(q.numpy(), k.numpy(), v.numpy(), inputs["kv_offsets"].numpy())
    theirs = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(0, 1), k[:5].transpose(0, 1), v[:5].transpose(0, 1)
    )
    np.testing.assert_allclose(out[1], theirs.transpose(0, 1).numpy(), rtol=1e-12)
    assert (out[0] == 0).all()
    assert (lse[0] == -np.inf).all()


def test_the_rounded_reference_differs_by_a_bfloat16_rounding():
    inputs = make_inputs(SMALL, 0)
    q, k, v = (inputs[name].float().numpy() for name in ("q", "k", "v"))
    offsets = inputs["kv_offsets"].numpy()
    exact, exact_lse = attention(q, k, v, offsets)
    rounded, rounded_lse = attention(q, k, v, offsets, rounded=True)
    assert 0 < np.abs(rounded - exact).max() < 2**-6
    assert np.array_equal(round_to_bfloat16(rounded), rounded)
    assert np.array_equal(rounded_lse, exact_lse)


def test_rounding_agrees_with_torch():
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    theirs = torch.from_numpy(values).to(torch.bfloat16).double().numpy()
    assert np.array_equal(round_to_bfloat16(values), theirs)


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    app = typer.Typer()
    app.command()(run_command)

    def run(text, *options):
        path = tmp_path / "kernel.py"
        path.write_text(text)
        small = ["--lengths", "0,5,3,4", "--queries", "8", "--head-dim", "16"]
        return CliRunner().invoke(app, [str(path), *small, *options])

    return run


def test_run_prints_errors_and_bounds_and_exits_0(call):
    result = call(HOST, "--seeds", "3", "--nan-neighbours")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split()[:4] for line in lines[:3]] == [
        ["seed", str(seed), "random", "right"] for seed in range(3)
    ]
    assert "simulated 3 runs: 3 right" in lines[3]
    assert "bound" in lines[3]
    assert "\x1b" not in result.stdout


def test_run_exits_1_when_a_result_is_wrong(call):
    result = call(WRONG)
    assert result.exit_code == 1
    assert "wrong" in result.stdout


def test_run_prints_a_fault_and_exits_1(call):
    result = call("def forward(**_):\n    raise ValueError('no')\n")
    assert result.exit_code == 1
    assert "fault (host)" in result.stdout


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--lengths", "1,x"], "lengths `1,x`"),
        (["--lengths", "1,-2"], "negative"),
        (["--policy", "sometimes"], "policy `sometimes`"),
        (["--policy", "starve="], "policy `starve=`"),
    ],
)
def test_a_wrong_call_exits_2_with_one_line(call, options, word):
    result = call(HOST, *options)
    assert result.exit_code == 2
    assert word in result.stderr
    assert len(result.stderr.splitlines()) == 1


ROLES = """
import triton
import triton.language.extra.tlx as tlx

COUNT = 2


@triton.jit
def kernel(MANY: tl.constexpr):
    with tlx.async_tasks():
        # rescale: the correction
        with tlx.async_task("default"):
            pass
        # softmax[g]: two replicas
        with tlx.async_task(num_warps=4, replicate=COUNT):
            pass
        # store: as many as the caller wants
        with tlx.async_task(num_warps=1, replicate=MANY):
            pass

        with tlx.async_task(num_warps=1):
            pass
"""


@pytest.mark.parametrize(
    "role", ["rescale", "softmax", "softmax[1]", "store", "store[3]", "role 3", "kernel"]
)
def test_a_role_of_the_text_may_be_starved(call, role):
    assert call(ROLES + HOST, "--policy", f"starve={role}").exit_code == 0


@pytest.mark.parametrize(
    ("role", "word"),
    [
        ("softmaks", "did you mean `softmax`?"),
        ("softmax[2]", "did you mean `softmax[1]`?"),
        ("softmax[g]", "did you mean `softmax"),
        ("rescale[0]", "did you mean `rescale`?"),
        ("store[x]", "did you mean `store`?"),
        ("xyz", "the roles are rescale, softmax, softmax[0], softmax[1], store, role 3, kernel"),
    ],
)
def test_an_unknown_role_is_a_wrong_call(call, role, word):
    result = call(ROLES + HOST, "--policy", f"starve={role}")
    assert result.exit_code == 2 and not result.stdout
    assert f"no role is called `{role}`: {word}" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_roles_of_a_schedule_are_those_of_its_kernel():
    app = typer.Typer()
    app.command()(run_command)
    result = CliRunner().invoke(app, ["fwd", "--policy", "starve=mam"])
    assert result.exit_code == 2
    assert result.stderr == "error: no role is called `mam`: did you mean `mma`?\n"


def test_help_says_what_each_policy_does():
    app = typer.Typer()
    app.command()(run_command)
    words = " ".join(CliRunner().invoke(app, ["--help"]).stdout.replace("│", " ").split())
    for policy in ("`random`", "`late` lets", "`at_once`", "`starve=ROLE`"):
        assert policy in words


def test_a_note_is_printed_and_counted(call):
    text = without(FWD, 'tlx.fence("async_shared")')
    result = call(text, "--lengths", "130", "--head-dim", "128")
    assert result.exit_code == 0, result.output
    (note,) = [line for line in result.stdout.splitlines() if "out_tiles" in line]
    assert note.startswith("note: no proxy fence after the store of `out_tiles` by role `corr")
    assert note.count(", line ") == 2 and "TMA store by role `store`, line " in note
    assert "simulated 1 runs: 1 right, 1 with notes, " in result.stdout


def test_a_missing_file_exits_2():
    app = typer.Typer()
    app.command()(run_command)
    result = CliRunner().invoke(app, ["nowhere.py"])
    assert result.exit_code == 2
    assert "`nowhere.py`" in result.stderr


def test_a_file_without_a_kernel_exits_2(call):
    result = call("x = 1\n")
    assert result.exit_code == 2
    assert "no function `forward`" in result.stderr


def test_a_file_that_imports_what_is_missing_exits_2(call):
    result = call("import no_such_module_at_all\n")
    assert result.exit_code == 2
    assert "no_such_module_at_all" in result.stderr
