"""The command line: exit codes, what goes where, and that no call ends in a traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest
from builders import ROOT, edited, schedule_text
from hypothesis import given, settings
from hypothesis import strategies as st

import jfagen
from jfagen.cli import main
from jfagen.diagnostics import CompileError, SourceFile, as_dict, render_all, render_line
from jfagen.driver import compile_source

COMMANDS = ("build", "check", "run", "compile", "explain", "fmt", "profile")
BAD = ("depth 3", "depth 0")


@dataclass(frozen=True)
class Said:
    """How a call ended and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Run `jfagen` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["jfagen", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        text = capsys.readouterr()
        assert "Traceback" not in text.err
        return Said(caught.value.code or 0, text.out, text.err)

    return run


def write(path, *edits):
    path.write_text(edited("fwd", *edits))
    return path


def command(*arguments, cwd, **environment):
    """Run the real command."""
    return subprocess.run(
        [sys.executable, "-m", "jfagen", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


# ---- build -------------------------------------------------------------------------------------


def test_build_writes_the_kernel_and_says_what_was_proved(call, tmp_path):
    said = call("build", "fwd", "-o", "out")
    assert said.code == 0 and not said.err
    assert "schedules/fwd.sched -> out/fwd.py" in said.out
    assert re.search(r"live +proved", said.out) and re.search(r"SMEM +229,648 of 232,448", said.out)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["fwd.py"]
    compile((tmp_path / "out" / "fwd.py").read_text(), "fwd.py", "exec")


def test_an_unchanged_kernel_keeps_its_time(call, tmp_path):
    call("build", "fwd", "-o", "out")
    kernel = tmp_path / "out" / "fwd.py"
    os.utime(kernel, (1_000, 1_000))
    said = call("build", "fwd", "-o", "out")
    assert said.code == 0 and "(unchanged)" in said.out
    assert kernel.stat().st_mtime == 1_000


def test_several_files_are_written_all_or_none(call, tmp_path):
    write(tmp_path / "good.sched")
    write(tmp_path / "bad.sched", BAD)
    said = call("build", "good.sched", "bad.sched", "-o", "out")
    assert said.code == 1 and "bad.sched:21:35" in said.err
    assert not said.out and not (tmp_path / "out").exists()
    assert call("build", "good.sched", "fwd", "-o", "out").code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"good.py", "fwd.py"}


def test_findings_of_all_files_are_shown(call, tmp_path):
    for name in ("a", "b"):
        write(tmp_path / f"{name}.sched", BAD)
    said = call("check", "a.sched", "b.sched")
    assert said.code == 1 and "a.sched:21:35" in said.err and "b.sched:21:35" in said.err


def test_check_of_a_build_names_the_stale_file_and_the_command_that_renews_it(call, tmp_path):
    write(tmp_path / "a.sched")
    assert call("build", "a.sched", "-o", "out").code == 0
    assert call("build", "a.sched", "-o", "out", "--check") == Said(0, "", "")
    before = (tmp_path / "out" / "a.py").read_bytes()
    write(tmp_path / "a.sched", ("depth 3", "depth 2"))
    said = call("build", "a.sched", "-o", "out", "--check")
    assert said.code == 3 and not said.out
    assert "out/a.py is stale" in said.err and "jfagen build a.sched -o out" in said.err
    assert (tmp_path / "out" / "a.py").read_bytes() == before
    assert call("build", "a.sched", "-o", "out").code == 0
    assert call("build", "a.sched", "-o", "out", "--check").code == 0


def test_check_of_a_build_names_only_the_schedules_whose_kernels_are_not_theirs(call, tmp_path):
    names = ["a.sched", "b b.sched", "c.sched"]
    for name in names:
        write(tmp_path / name)
    assert call("build", *names).code == 0
    write(tmp_path / "b b.sched", ("depth 3", "depth 2"))
    said = call("build", *names, "--check")
    assert said == Said(3, "", "generated/b b.py is stale\nrun `jfagen build 'b b.sched'`\n")
    (tmp_path / "generated" / "c.py").write_text("mine")
    said = call("build", *names, "--check")
    assert "generated/c.py is not a generated file\n" in said.err and "a.py" not in said.err
    assert said.err.endswith("run `jfagen build 'b b.sched' c.sched --force`\n")


def test_check_of_a_build_names_the_stale_instances(call, tmp_path):
    two = ("dtype bf16", "dtype in {bf16, fp16}")
    kinds = [("q[g]   : bf16", "q[g]   : dtype"), ("kv     : bf16", "kv     : dtype")]
    kinds += [("out[g] : bf16", "out[g] : dtype"), ("p[g]     : bf16", "p[g]     : dtype")]
    write(tmp_path / "a.sched", two, *kinds)
    assert call("build", "a.sched").code == 0
    (tmp_path / "generated" / "a_fp16.py").unlink()
    said = call("build", "a.sched", "--check")
    assert said == Said(3, "", "generated/a_fp16.py is missing\nrun `jfagen build a.sched`\n")


def test_check_of_a_build_that_never_was(call, tmp_path):
    said = call("build", "fwd", "--check")
    assert said.code == 3 and "generated/fwd.py is missing" in said.err
    assert not list(tmp_path.iterdir())


def test_a_kernel_edited_by_hand_is_kept_without_force(call, tmp_path):
    call("build", "fwd", "-o", "out")
    kernel = tmp_path / "out" / "fwd.py"
    generated = kernel.read_text()
    kernel.write_text(generated + "# mine\n")
    said = call("build", "fwd", "-o", "out")
    assert said.code == 1 and "edited by hand" in said.err and "--force" in said.err
    assert kernel.read_text().endswith("# mine\n")
    assert call("build", "fwd", "-o", "out", "--force").code == 0
    assert kernel.read_text() == generated


def test_a_file_that_nobody_generated_is_kept_without_force(call, tmp_path):
    kernel = tmp_path / "out" / "fwd.py"
    kernel.parent.mkdir()
    kernel.write_text("print('mine')\n")
    assert call("build", "fwd", "-o", "out").code == 1
    assert kernel.read_text() == "print('mine')\n"


# ---- calls that are wrong ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["build", "nosuch"],
        ["check", "nosuch.sched"],
        ["check", "."],
        ["explain", "nosuch"],
        ["run", "nosuch"],
        ["run", "nosuch.py"],
        ["compile", "nosuch"],
        ["fmt", "nosuch"],
        ["check", "kernel.py"],
        ["build"],
        ["frob"],
        ["build", "fwd", "--chek"],
        ["check", "fwd", "--format", "xml"],
        ["explain", "fwd", "nosuch"],
        ["run", "fwd", "--lengths", "5,x"],
        ["run", "fwd", "--policy", "never"],
    ],
    ids=" ".join,
)
def test_a_wrong_call_ends_in_2_with_a_word_to_standard_error(call, arguments, tmp_path):
    said = call(*arguments)
    assert said.code == 2 and said.err.strip() and not said.out
    wrong = [word for word in arguments[1:] if word not in ("fwd", "--format", "--lengths")]
    assert not wrong or wrong[-1].lstrip("-") in said.err or arguments[1] == "kernel.py"
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_read(call, tmp_path):
    (tmp_path / "a.sched").symlink_to("/proc/self/mem")  # fails when read, for any user
    said = call("check", "a.sched")
    assert said.code == 2 and "a.sched" in said.err


def test_a_folder_that_cannot_be_written(call, tmp_path):
    (tmp_path / "out").write_text("a file")
    said = call("build", "fwd", "-o", "out")
    assert said.code == 2 and "out" in said.err


# ---- check, explain, help ----------------------------------------------------------------------


def test_findings_as_json(call, tmp_path):
    write(tmp_path / "a.sched", BAD, ("warps 4  default", "warps 3  default"))
    said = call("check", "a.sched", "--format", "json")
    assert said.code == 1 and not said.err
    warps, depth = json.loads(said.out)["findings"]
    assert (warps["id"], depth["id"]) == ("bad-warps", "bad-depth")
    assert depth["path"] == "a.sched" and depth["severity"] == "error"
    assert (depth["line"], depth["column"], depth["end_line"]) == (21, 35, 21)
    assert depth["help"] == ["write `depth 2` or more"]
    nothing = {"schema": "jfagen.check/1", "findings": []}
    assert json.loads(call("check", "fwd", "--format", "json").out) == nothing


def test_check_writes_nothing(call, tmp_path):
    said = call("check", "fwd")
    assert said.code == 0 and "race" in said.out and not list(tmp_path.iterdir())


def test_timings(call):
    assert re.search(r"to proof +[\d.]+ ms", call("check", "fwd", "--timings").out)


def test_the_version(call):
    assert call("--version") == Said(0, f"jfagen {jfagen.__version__}\n", "")


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help(call, name):
    said = call(*filter(None, [name, "--help"]))
    assert said.code == 0 and f"jfagen {name}".strip() in said.out and "Usage" in said.out
    assert name or all(word in said.out for word in COMMANDS)


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ("tmem", "columns used"),
        ("smem", "bytes of buffers"),
        ("barriers", "none redundant"),
        ("overlaps", "s and p"),
        ("p", "s and p"),
        ("live", "assumptions"),
    ],
)
def test_explain_of_a_schedule(call, what, word):
    said = call("explain", "fwd", what)
    shared = "p and s" if what == "p" else word
    assert said.code == 0 and shared in said.out


def test_explain_of_a_rule(call):
    said = call("explain", "live")
    assert said.code == 0 and "deadlock" in said.out and "assumptions" in said.out


def test_an_unknown_topic_names_those_that_there_are(call):
    said = call("explain", "fwd", "nosuch")
    assert "barriers" in said.err and "capacity" in said.err


# ---- the real command --------------------------------------------------------------------------


def test_the_command_refuses_without_a_traceback_and_writes_nothing(tmp_path):
    write(tmp_path / "a.sched", BAD)
    done = command("build", "a.sched", "-o", "out", cwd=tmp_path)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith("error[bad-depth]: depth must be 1 to 16, got 0\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.sched"]


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colour_goes_to_terminals_only_and_not_where_it_is_unwanted(tmp_path, no_color):
    import pty

    write(tmp_path / "a.sched", BAD)
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    with subprocess.Popen(
        [sys.executable, "-m", "jfagen", "check", "a.sched"],
        stderr=theirs,
        cwd=tmp_path,
        env=environment | ({"NO_COLOR": no_color} if no_color else {}),
    ) as process:
        process.wait()
    os.close(theirs)
    assert (b"\x1b[" in os.read(ours, 4_000)) is not bool(no_color)
    os.close(ours)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["explain", "fwd"], 0),
        (["build", "fwd", "-o", "out"], 0),
        (["check", "fwd", "--format", "json"], 0),
        (["--help"], 0),
        (["check", "a.sched", "--format", "json"], 1),
    ],
    ids=lambda value: str(value),
)
def test_a_closed_pipe_is_no_traceback_and_no_failure(tmp_path, arguments, code):
    write(tmp_path / "a.sched", BAD)
    ours, theirs = os.pipe()
    os.close(ours)
    with subprocess.Popen(
        [sys.executable, "-m", "jfagen", *arguments],
        stdout=theirs,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        os.close(theirs)
        said = process.stderr.read()
    assert process.returncode == code and not said


@pytest.mark.parametrize(("arguments", "code"), [(["check", "a.sched"], 1), (["check", "no"], 2)])
def test_a_closed_standard_error_changes_no_exit_code(tmp_path, arguments, code):
    write(tmp_path / "a.sched", BAD)
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [sys.executable, "-m", "jfagen", *arguments],
        stderr=theirs,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(theirs)
    assert done.returncode == code


# ---- any text ----------------------------------------------------------------------------------

FORWARD = schedule_text("fwd")
TOKENS = re.findall(r"#[^\n]*|\s+|[A-Za-z_][\w.]*|\d+|->|.", FORWARD)
PLACES = [i for i, token in enumerate(TOKENS) if not token.isspace() and token[0] != "#"]
LINES = FORWARD.splitlines(keepends=True)
WORDS = ("0", "1", "4", "128", "g", "i", "[0]", "[g]", "tune", "reg", "depth 2", "peel", "{", "}")


@st.composite
def edited_forward(draw):
    """The forward schedule with one to three tokens or lines deleted, doubled or exchanged."""
    by_line = draw(st.booleans())
    pieces = list(LINES if by_line else TOKENS)
    places = range(len(LINES)) if by_line else PLACES
    for _ in range(draw(st.integers(1, 3))):
        one, other = draw(st.sampled_from(places)), draw(st.sampled_from(places))
        match draw(st.sampled_from(("delete", "double", "swap", "copy", "word"))):
            case "delete":
                pieces[one] = ""
            case "double":
                pieces[one] += " " + pieces[one]
            case "swap":
                pieces[one], pieces[other] = pieces[other], pieces[one]
            case "copy":
                pieces[one] = pieces[other]
            case "word":
                pieces[one] = f" {draw(st.sampled_from(WORDS))} "
    return "".join(pieces)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(edited_forward())
def test_any_edit_builds_or_is_refused_with_findings_inside_the_file(text):
    source = SourceFile(path="a.sched", text=text)
    try:
        compile_source(source)
    except CompileError as error:
        assert error.diagnostics
        for found in error.diagnostics:
            assert 0 <= found.label.span.start <= found.label.span.end <= len(text)
            json.dumps(as_dict(found))
            assert found.id in render_line(found)
        assert render_all(error.diagnostics, color=True)
