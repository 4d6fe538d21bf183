"""`jfagen balance`: what it prints and writes, and that a wrong call writes nothing."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys

import pytest
from builders import ROOT
from matplotlib.image import imread

from jfagen.balance.lengths import read_lengths
from jfagen.balance.picture import DOTS_PER_INCH, SIZE_INCHES
from jfagen.balance.wrong import WrongInput
from jfagen.cli import main


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Run `jfagen balance` in this process, in an empty folder, on 80 columns without colour."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["jfagen", "balance", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return caught.value.code or 0, said.out, said.err

    return run


# ---- what is shown -----------------------------------------------------------------------------


def test_table_and_heat_map(call, golden):
    code, out, err = call("--lengths", "1000,10,10,0,600,300,5000,20", "--sms", 70)
    assert code == 0 and not err
    golden.check(out)


def test_everything_shown_is_called_predicted(call, tmp_path):
    code, out, err = call("--density", 0.25, "--batch", 9, "--png", "a.png", "--json", "a.json")
    assert code == 0 and "predicted, not measured" in out and "default_rng(0)" in out
    assert err.splitlines() == ["wrote a.png (predicted)", "wrote a.json (predicted)"]
    assert not re.search(r"(?<!not )measured", out + err)
    assert json.loads((tmp_path / "a.json").read_text())["kind"] == "predicted"


def test_a_narrow_terminal_gets_shorter_lines(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = call("--lengths", "300,5", "--sms", 30)
    cells = [line for line in out.splitlines() if re.match(r" (given| {5}) +\d+  ", line)]
    assert [len(line) for line in cells[:2]] == [40, 18]


def test_json_on_standard_output_stands_alone(call):
    code, out, err = call("--lengths", "5,300", "--sms", 2, "--heads", 1, "--json", "-")
    assert code == 0 and not err
    assert json.loads(out)["deals"][0]["loads"] == pytest.approx([10.8, 10.8])


def test_the_picture_has_its_size_and_one_colour_scale(call, tmp_path):
    assert call("--lengths", "5,300,0,9000", "--png", "a.png")[0] == 0
    height, width, _ = imread(tmp_path / "a.png").shape
    assert (width, height) == tuple(round(inch * DOTS_PER_INCH) for inch in SIZE_INCHES)
    first = (tmp_path / "a.png").read_bytes()
    assert call("--lengths", "5,300,0,9000", "--png", "a.png")[0] == 0
    assert (tmp_path / "a.png").read_bytes() == first


def test_help(call):
    code, out, _ = call("--help")
    assert code == 0 and all(
        word in out for word in ("zigzag", "greedy", "--density", "default_rng")
    )


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colour_goes_to_terminals_only_where_it_is_wanted(no_color):
    import pty

    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    arguments = ["balance", "--lengths", "5,300", "--sms", "3"]
    with subprocess.Popen(
        [sys.executable, "-m", "jfagen", *arguments],
        stdout=theirs,
        cwd=ROOT,
        env=environment | {"TERM": "xterm-256color"} | ({"NO_COLOR": no_color} if no_color else {}),
    ) as process:
        process.wait()
    os.close(theirs)
    assert (b"\x1b[" in os.read(ours, 8_000)) is not bool(no_color)
    os.close(ours)


@pytest.mark.parametrize("how", [[], ["--json", "-"]], ids=["table", "json"])
def test_a_closed_pipe_is_no_failure(how):
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "jfagen", "balance", "--lengths", "5,300", *how]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, cwd=ROOT)
    os.close(theirs)
    assert done.returncode == 0 and not done.stderr


# ---- lengths -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["5\n0\n300\n", "# lengths\r\n5\r\n\r\n 0 # none\r\n300", "[5, 0,\n 300]\n", "# a\n[5,0,300]"],
)
def test_a_file_of_lengths(text, tmp_path):
    (tmp_path / "lengths").write_bytes(text.encode())
    assert read_lengths(str(tmp_path / "lengths"), io.BytesIO()) == (5, 0, 300)
    assert read_lengths("-", io.BytesIO(text.encode())) == (5, 0, 300)
    assert read_lengths("5, 0,300", io.BytesIO()) == (5, 0, 300)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        (b"5\n# a\n-3\n", "standard input:3", "`-3` is negative"),
        (b"5\n2.5\n", "standard input:2", "`2.5` is no whole number"),
        (b"5, 6\n", "standard input:1", "`5, 6` is no whole number"),
        ("٣\n".encode(), "standard input:1", "is no whole number"),
        (b"5\n99999999999\n", "standard input:2", "more than 2147483647 key rows"),
        (b"9" * 9_999, "standard input:1", "more than 2147483647 key rows"),
        (b"# a\n\n", "standard input", "holds no length"),
        (b"[]", "standard input", "holds no length"),
        (b"[5,\n 6,\n\n -7]", "standard input:4", "`-7` is negative"),
        (b"[5,\n true]", "standard input:2", "`true` is no whole number"),
        (b"[5,\n [6]]", "standard input:2", "`[6]` is no whole number"),
        (b"[5,\n 6", "standard input:2", "no JSON"),
        (b"[" * 99_999, "standard input", "nested too deep"),
        (b"[" + b"9" * 9_999 + b"]", "standard input", "a number is too long"),
        (b"5\n\xff", "standard input:2", "no UTF-8"),
        (b"0\n" * 2**23 + b"0", "standard input", "more than 16,777,216 bytes"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_what_is_no_length_is_refused_with_its_line(text, place, reason):
    with pytest.raises(WrongInput) as caught:
        read_lengths("-", io.BytesIO(text))
    assert caught.value.place == place and reason in caught.value.reason and caught.value.help


def test_standard_input_that_is_closed():
    with pytest.raises(WrongInput, match="standard input: is closed"):
        read_lengths("-", None)
    assert read_lengths("5", None) == (5,)


# ---- calls that are wrong ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--lengths: there are no lengths"),
        (["--lengths", "bad"], "bad:2: `x` is no whole number"),
        (["--lengths", "nosuch"], "`nosuch`: no such file"),
        (["--lengths", "."], "`.`: is a directory"),
        (["--lengths", "5,x"], "--lengths, number 2: `x` is no whole number"),
        (["--lengths", "5,,6"], "--lengths, number 2: there is no number"),
        (["--lengths", "-5"], "--lengths, number 1: `-5` is negative"),
        (["--lengths", ""], "--lengths: holds no length"),
        (["--lengths", "5", "--density", "0.5"], "--density: excludes --lengths"),
        (["--lengths", "5", "--seed", "1"], "--seed: no lengths are drawn"),
        (["--lengths", "5", "--self", "--queries", "7"], "--self: excludes --queries"),
        (["--lengths", "0,0", "--self"], "--self: no sequence has a query row"),
        (["--lengths", "5", "--heads", "9999999"], "at most 4,194,304 are dealt"),
        (["--lengths", "5", "--sms", "4097"], "--sms: 4097 is more than 4096"),
        (["--lengths", "5", "--fixed", "nan"], "--fixed: `nan` is no cost"),
        (["--lengths", "5", "--rows", "9" * 30], "--rows: 9"),
        (["--density", "2"], "--density: 2 is not from 0 to 1"),
        (["--density", "1", "--max-length", "9" * 20], "--max-length: 9"),
        (["--lengths", "5", "--png", "no/a.png"], "--png `no/a.png`: there is no folder `no`"),
        (["--lengths", "5", "--png", "."], "--png `.`: is a folder"),
        (["--lengths", "5", "--png", "/dev/null"], "--png `/dev/null`: is no plain file"),
        (["--lengths", "5", "--json", "a", "--png", "/proc/a.png"], "--png `/proc/a.png`: "),
        (["--lengths", "5", "--json", "a", "--png", "a"], "is the file of --png too"),
        (["--lengths", "bad", "--json", "bad"], "is the file of --lengths too"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_a_wrong_call_says_where_why_and_what_to_do(call, tmp_path, arguments, words):
    (tmp_path / "bad").write_text("5\nx\n")
    code, out, err = call(*arguments)
    error, advice = err.splitlines()
    assert code == 2 and not out
    assert error.startswith("error: ") and words in error and advice.startswith("help: ")
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]
    assert (tmp_path / "bad").read_text() == "5\nx\n"


@pytest.mark.parametrize("option", ["--sms", "--heads", "--queries", "--rows", "--keys"])
def test_there_is_at_least_one_of_everything(call, option):
    code, out, err = call("--lengths", "5", option, 0)
    assert code == 2 and not out and f"'{option}'" in err and "balance -h" in err
