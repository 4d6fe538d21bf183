"""Kernel texts on the command line: `run`, `check` and `compile` agree on what is no kernel."""

from __future__ import annotations

import json
import re
import sys

import pytest
from builders import ROOT

from jfagen.cli import main

FWD = (ROOT / "generated" / "fwd.py").read_text()
NO_KERNELS = {
    "syntax": b"def forward(:\n",
    "null": b"x = \0\n",
    "bytes": b"\xff\xfe\n",
    "plain": b"x = 1\n",
    "empty": b"",
}


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Run `jfagen` in this process, in an empty folder; return code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["jfagen", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        text = capsys.readouterr()
        return caught.value.code or 0, text.out, text.err

    return run


@pytest.mark.parametrize("command", ["run", "check", "compile"])
@pytest.mark.parametrize("name", NO_KERNELS)
def test_what_cannot_be_a_kernel_is_a_wrong_call(call, tmp_path, command, name):
    (tmp_path / "y.py").write_bytes(NO_KERNELS[name])
    code, out, err = call(command, "y.py")
    assert code == 2 and not out
    assert err.startswith("error") and "Traceback" not in err
    words = {"syntax": "no Python: line 1", "null": "no Python", "bytes": "byte 0 is not UTF-8"}
    assert words.get(name, "") in err


def test_a_text_that_fails_when_it_is_loaded_is_no_kernel(call, tmp_path):
    text = FWD.replace("GROUPS = tl.constexpr(2)", "GROUPS = nowhere(2)")
    (tmp_path / "y.py").write_text(text)
    code, out, err = call("check", "y.py")
    assert code == 2 and not out and "NameError" in err


def test_a_huge_line_is_clipped(call, tmp_path):
    (tmp_path / "y.py").write_text("x = '" + "y" * 1_000_000 + "'\n")
    code, _, err = call("check", "y.py")
    assert code == 2 and len(err) < 500 and "yyy\u2026" in err


def test_no_kernel_as_json(call, tmp_path):
    (tmp_path / "y.py").write_bytes(NO_KERNELS["syntax"])
    for command in ("check", "compile"):
        code, out, _ = call(command, "y.py", "--format", "json")
        assert code == 2 and "not-an-emitted-kernel" in out
        json.loads(out)


def test_a_kernel_that_is_wrong_or_does_what_is_not_known_is_1(call, tmp_path):
    for old, new in (
        ("tlx.barrier_arrive(out_empty[g])", "pass"),
        ("tlx.barrier_arrive(out_empty[g])", "tlx.frobnicate(out_empty[g])"),
    ):
        assert FWD.count(old) == 1
        (tmp_path / "y.py").write_text(FWD.replace(old, new))
        code, out, err = call("check", "y.py")
        assert code == 1 and not out and "error[" in err
        assert "not-an-emitted-kernel" not in err


#: What only the schedule that the text names, or a second place of the text, can tell.
DEPARTURES = {
    "a store of alpha": (
        "tlx.local_store(alpha_tiles[g]",
        "(lambda *_: None)(alpha_tiles[g]",
        "alpha",
    ),
    "warps that arrive": (
        "alpha_full = tlx.alloc_warp_barrier(GROUPS, num_warps=4)",
        "alpha_full = tlx.alloc_warp_barrier(GROUPS, num_warps=8)",
        "counts the threads of 8 warps",
    ),
    "too few consumers": ("num_consumers=6", "num_consumers=5", "counts 5 consumers; 6 roles"),
    "too many consumers": ("num_consumers=6", "num_consumers=7", "counts 7 consumers; 6 roles"),
    "a depth": ("KV_DEPTH = tl.constexpr(3)", "KV_DEPTH = tl.constexpr(4)", "`kv_full` has 4"),
    "no next tile": ("tile = tlx.clc_consumer(", "tlx.clc_consumer(", "does not end"),
}


@pytest.mark.parametrize("name", DEPARTURES)
def test_a_text_that_departs_from_its_schedule_is_refused(call, tmp_path, name):
    old, new, said = DEPARTURES[name]
    assert old in FWD
    (tmp_path / "y.py").write_text(FWD.replace(old, new, 1))
    code, out, err = call("check", "y.py")
    assert code == 1 and not out and said in err


def test_a_text_that_names_no_schedule_stands_alone(call, tmp_path):
    (tmp_path / "y.py").write_text(FWD.split("\n", 1)[1])
    code, out, _ = call("check", "y.py")
    assert code == 0 and "round-trip  not checked" in out and "proved" not in out


def test_a_text_whose_schedule_is_refused_is_refused(call, tmp_path):
    (tmp_path / "schedules").mkdir()
    (tmp_path / "schedules" / "fwd.sched").write_text("kernel x { 3 }\n")
    (tmp_path / "y.py").write_text(FWD)
    code, _, err = call("check", "y.py")
    assert code == 1 and "schedules/fwd.sched`, its schedule, is refused" in err


def test_a_kernel_and_a_wrong_schedule_are_both_shown(call, tmp_path):
    (tmp_path / "y.py").write_bytes(NO_KERNELS["plain"])
    (tmp_path / "a.sched").write_text("kernel x { 3 }\n")
    code, _, err = call("check", "y.py", "a.sched")
    assert code == 2 and "not-an-emitted-kernel" in err and "a.sched:1:12" in err
    (tmp_path / "y.py").write_text(FWD)
    assert call("check", "y.py", "a.sched")[0] == 1


@pytest.mark.parametrize("name", ["a b.sched", "fwd (2).sched", "é (x).sched (3).sched"])
def test_a_schedule_of_any_name_is_found_again(call, tmp_path, name):
    (tmp_path / name).write_text((ROOT / "schedules" / "fwd.sched").read_text())
    assert call("build", name, "-o", "made")[0] == 0
    kernel = tmp_path / "made" / f"{name.removesuffix('.sched')}.py"
    code, out, _ = call("check", str(kernel.relative_to(tmp_path)))
    assert code == 0 and f"the text does what `{name}` says" in out
    text = kernel.read_text()
    wait = "tlx.barrier_wait(out_empty[g]"
    assert text.count(wait) == 1
    (tmp_path / "y.py").write_text(text.replace(wait, f"(lambda *_: None)({wait[17:]}"))
    assert re.search(rf" --> y.py:\d+ \({re.escape(name)}:\d+\)$", call("check", "y.py")[2], re.M)
