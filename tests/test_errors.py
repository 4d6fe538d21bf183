"""Bad schedules: each is a forward schedule with one mistake, and gives one true finding.

The files are `tests/errors/NAME.sched`, with the whole rendered text in `NAME.txt`.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from functools import cache

import pytest
from builders import ROOT, compiled, edited
from error_repairs import REPAIRS

from jfagen.cli import main
from jfagen.diagnostics import CompileError, Diagnostic, SourceFile, render, render_all
from jfagen.driver import compile_instances, compile_source
from jfagen.passes.channels import SyncPlan
from jfagen.proof import make_subject
from jfagen.proof.rules import live

ERRORS = ROOT / "tests" / "errors"
NAMES = sorted(path.stem for path in ERRORS.glob("*.sched"))
#: Findings that no schedule can cause, only a channel that is wrong: `test_proof.py` makes those.
PROOF_ONLY = {"deadlock", "never-written", "race", "round-trip"}
NOT_ABOUT_SCHEDULES = {"toolchain", "machine", "cli", "readback", "bench", "doctor", "runtime"}
NOT_ABOUT_SCHEDULES |= {"editor"}
#: Of findings that the parser reports, these need no advice: the message says what is expected.
PLAIN = {"syntax", "not-text"}


def findings(text, path="a.sched"):
    with pytest.raises(CompileError) as caught:
        compile_source(SourceFile(path=path, text=text))
    return caught.value.diagnostics


@cache
def findings_of(name) -> tuple[Diagnostic, ...]:
    path = ERRORS / f"{name}.sched"
    with pytest.raises(CompileError) as caught:
        compile_instances(SourceFile.from_path(path, path.name))
    return caught.value.diagnostics


@pytest.mark.parametrize("name", NAMES)
def test_every_bad_schedule_gives_its_text(name, golden):
    golden.check(render_all(findings_of(name)) + "\n", ERRORS / f"{name}.txt")


@pytest.mark.parametrize("name", NAMES)
def test_one_mistake_is_one_finding(name):
    assert len(findings_of(name)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_form_of_a_finding(name):
    (found,) = findings_of(name)
    first = found.message[0]
    assert first == "`" or first.islower() or first.isdigit()
    for said in (found.message, found.label.message, *found.helps):
        assert not said.endswith((".", "!")) and "\n" not in said
    assert found.helps or found.id in PLAIN
    assert len(set(found.helps)) == len(found.helps)
    for label in (found.label, *(note.label for note in found.notes if note.label)):
        assert "\n" not in label.span.text, "the caret covers one line"
        assert label.span.text or found.id in ("no-kernel", "syntax")


def test_a_text_without_its_schedule_is_left_over():
    texts = {path.stem for path in ERRORS.glob("*.txt")}
    assert texts - set(NAMES) == {"a_wrong_channel_deadlocks"}


def reported_ids():
    """Return every id in the package: the strings that reporting calls get."""
    found = set()
    for path in (ROOT / "jfagen").rglob("*.py"):
        if path.parts[-2] in NOT_ABOUT_SCHEDULES:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            place = {"report": 0, "unknown": 0, "_missing": 1}.get(name)
            given = [k.value for k in node.keywords if k.arg == "id" and name == "Diagnostic"]
            given += node.args[place : place + 1] if place is not None else []
            found |= {v.value for v in given if isinstance(v, ast.Constant)}
    return found


def test_every_id_has_a_file_and_every_file_an_id_of_the_package():
    shown = {found.id for name in NAMES for found in findings_of(name)}
    assert shown == reported_ids() - PROOF_ONLY
    assert not shown & PROOF_ONLY


def test_ids_are_words():
    for id in reported_ids():
        assert id.replace("-", "").isalpha() and id.islower()


# ---- Advice is true ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(REPAIRS))
def test_what_the_help_says_mends_the_schedule(name):
    said, *_ = REPAIRS[name]
    (found,) = findings_of(name)
    assert any(said in advice for advice in found.helps), found.helps
    compile_source(mended(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REPAIRS))
def test_what_the_help_says_mends_every_instance(name):
    compile_instances(mended(name))


def mended(name) -> SourceFile:
    _, *edits = REPAIRS[name]
    text = (ERRORS / f"{name}.sched").read_text()
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return SourceFile(path="schedules/edited.sched", text=text)


def test_every_bad_schedule_with_advice_of_one_edit_is_mended_somewhere():
    """What cannot be mended by the help's own words: those that need a decision or a name."""
    advised = {name for name in NAMES if findings_of(name)[0].helps}
    assert len(advised - set(REPAIRS)) < 10


# ---- Known answers -----------------------------------------------------------------------------

OUT_OVER_Q = ("  load { load_q[g] }", "  region io[g] { out over q }\n\n  load { load_q[g] }")


@pytest.mark.parametrize("depth", [4, 5])
def test_a_deeper_ring_is_refused_with_its_bytes_and_fits_with_out_over_q(depth):
    deeper = ("depth 3", f"depth {depth}")
    (found,) = findings(edited("fwd", deeper))
    shown = render(found)
    assert f"buffers take {131_072 + 32_768 * depth:,} bytes" in shown
    assert "region io[g] { out over q }" in shown and "the next `q` waits until `out`" in shown
    assert compiled("fwd", deeper, OUT_OVER_Q).resources.smem_bytes < 232_448


def test_two_mistakes_are_two_findings_in_the_order_of_their_places():
    text = edited("fwd", ("warps 4  default", "warps 3  default"), ("depth 3", "depth 0"))
    assert [found.id for found in findings(text)] == ["bad-warps", "bad-depth"]


def test_a_misspelt_declaration_hides_nothing_else():
    text = edited("fwd", ("tmem alpha[g] ", "tmem alfa[g] "), ("registers 184", "registers 180"))
    assert [found.id for found in findings(text)] == ["bad-registers", "unknown-value"]


def test_a_wrong_channel_deadlocks_with_role_barrier_and_lines(golden):
    """No schedule gets here: the prover shows its witness for a channel that was made wrong."""
    one = compiled("fwd")
    ends = next(c for c in one.sync.channels if c.name == "kv_full").waits
    early = tuple(end for end in ends if end.site.op == "qk")
    channels = tuple(
        replace(c, slices=1, waits=early) if c.name == "p_full" else c for c in one.sync.channels
    )
    found = live.check(make_subject(one.plan, one.placement, SyncPlan(channels=channels)))
    golden.check(render_all(found) + "\n", ERRORS / "a_wrong_channel_deadlocks.txt")


# ---- Through the command -----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_build_refuses_with_1_and_writes_nothing(name, tmp_path, monkeypatch, capsys):
    command = ["jfagen", "build", str(ERRORS / f"{name}.sched"), "-o", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as caught:
        main()
    said = capsys.readouterr()
    assert caught.value.code == 1
    assert f"error[{findings_of(name)[0].id}]" in said.err
    assert not said.out and not list(tmp_path.iterdir())
