"""What `jfagen run` is given: the head dimension of the text, numbers out of bounds, no kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import typer
from builders import ROOT
from typer.testing import CliRunner

from jfagen.cli.inputs import MOST_BYTES, MOST_KEY_ROWS, MOST_SEED, check_size
from jfagen.cli.run import run as run_command
from jfagen.machine.declared import declared_head_dim
from jfagen.machine.trial import Problem

#: A host function that says which head dimension it was given.
HOST = "def forward(q, **_):\n    raise ValueError(f'head_dim {q.shape[2]}')\n"
SIGNATURE = (
    "SIGNATURE = {'k_desc': 'tensordesc<bf16[1,32]>', 'q_desc': 'tensordesc<bf16[128,64]>'}\n"
)


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Run `jfagen run` on a text, in an empty folder."""
    monkeypatch.setenv("NO_COLOR", "1")
    app = typer.Typer()
    app.command()(run_command)

    def run(text, *options):
        path = tmp_path / "kernel.py"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return CliRunner().invoke(app, [str(path), *options])

    return run


# ---- the head dimension ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import x\nHEAD_DIM = tl.constexpr(64)\n", 64),
        ("HEAD_DIM = 32\n" + SIGNATURE, 32),
        (SIGNATURE, 64),
        ("SIGNATURE = {'q': '*bf16'}\n", None),
        ("x = 1\n", None),
    ],
)
def test_the_head_dimension_that_a_text_declares(text, said):
    assert declared_head_dim(text) == said


@pytest.mark.parametrize("name", ["fwd.py", "ladder/07_groups.py"])
def test_an_emitted_kernel_declares_its_head_dimension(name):
    text = (ROOT / "generated" / name).read_text()
    assert f"HEAD_DIM = tl.constexpr({declared_head_dim(text)})" in text


@pytest.mark.parametrize(
    ("text", "options", "used"),
    [
        ("HEAD_DIM = 64\n", [], 64),
        ("HEAD_DIM = 64\n", ["--head-dim", "64"], 64),
        (SIGNATURE, [], 64),
        ("", [], 128),
        ("", ["--head-dim", "32"], 32),
    ],
)
def test_run_takes_the_head_dimension_of_the_text(call, text, options, used):
    result = call(text + HOST, *options, "--lengths", "5")
    assert f"head_dim {used}" in result.stdout


def test_another_head_dimension_than_the_text_has_is_a_wrong_call(call):
    result = call("HEAD_DIM = 64\n" + HOST, "--head-dim", "128")
    assert result.exit_code == 2 and not result.stdout
    assert result.stderr == ("error: the kernel is built for head_dim 64, not for --head-dim 128\n")


# ---- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seed", "9" * 23], ("9" * 23, str(MOST_SEED))),
        (["--seed", str(MOST_SEED), "--seeds", "2"], (str(MOST_SEED + 1), str(MOST_SEED))),
        (["--seeds", "9" * 15], ("9" * 15, "1000000")),
        (["--lengths", "99999999999"], ("99999999999", str(MOST_KEY_ROWS))),
        (["--lengths", "9" * 20], ("9" * 20, str(MOST_KEY_ROWS))),
        (["--lengths", "9" * 5000], ("9" * 5000, str(MOST_KEY_ROWS))),
        (["--lengths", f"{MOST_KEY_ROWS},1"], (str(MOST_KEY_ROWS + 1), str(MOST_KEY_ROWS))),
        (["--heads", "100000", "--lengths", "5"], ("100000 heads", str(MOST_BYTES))),
        (["--queries", "9" * 12, "--lengths", "0"], ("9" * 12, str(MOST_BYTES))),
        (["--lengths", "400000"], ("400000", str(MOST_BYTES))),
        (["--lengths", "\u0663"], ("`\u0663`", "whole numbers")),
        (["--lengths", "1_0"], ("`1_0`", "whole numbers")),
        (["--lengths", "5,"], ("`5,`", "whole numbers")),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_a_number_out_of_bounds_is_one_line(call, options, words):
    result = call(HOST, *options)
    assert result.exit_code == 2 and not result.stdout
    assert all(word in result.stderr for word in words)
    assert len(result.stderr.splitlines()) == 1


def test_the_largest_seed_and_blanks_between_lengths_are_taken(call):
    result = call(HOST, "--seed", str(MOST_SEED), "--lengths", " 5, 007 ")
    assert result.exit_code == 1 and f"seed {MOST_SEED}" in result.stdout


def test_problems_of_everyday_size_are_taken():
    check_size(Problem(lengths=(0, 1, 127, 8192), queries=2048, heads=2))
    check_size(Problem(lengths=(0,), queries=1, heads=1, head_dim=16))


def test_a_saved_failure_is_bound_as_well(call, tmp_path):
    saved = tmp_path / "a.json"
    result = call("def forward(**_):\n    raise ValueError\n", "--lengths", "5", "--shrink")
    assert result.exit_code == 1
    content = json.loads((tmp_path / "kernel.failure.json").read_text())
    content["problem"]["heads"] = 10**9
    saved.write_text(json.dumps(content))
    result = call(HOST, "--replay", str(saved))
    assert result.exit_code == 2 and str(MOST_BYTES) in result.stderr


# ---- what cannot be a kernel -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\ndef forward(:\n", "is no Python: line 2: invalid syntax"),
        ("x = \0\n", "is no Python: source code string cannot contain null bytes"),
        (b"x = 1\n\xff\n", "is no text: byte 6 is not UTF-8"),
        ("x = 1\n", "has no function `forward`"),
    ],
)
def test_a_file_that_cannot_be_a_kernel_is_a_wrong_call(call, text, words):
    result = call(text)
    assert result.exit_code == 2 and not result.stdout
    assert words in result.stderr and "kernel.py" in result.stderr
    assert len(result.stderr.splitlines()) == 1


# ---- progress ----------------------------------------------------------------------------------


def test_a_single_run_shows_on_the_terminal_that_it_works(tmp_path):
    import pty

    (tmp_path / "kernel.py").write_text(HOST)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "jfagen", "run", "kernel.py", "--lengths", "5"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
    ) as process:
        out = process.stdout.read()
    os.close(theirs)
    assert b"simulating" in os.read(ours, 4_000)
    assert b"simulating" not in out and b"fault (host)" in out
    os.close(ours)
