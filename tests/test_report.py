"""The page's content: the order it draws is the proved one, its links hold, its files are files."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import pytest
from builders import ROOT, SHIPPED, STRANGERS, compiled, compiled_text
from pace import slowness
from typer.testing import CliRunner

from jfagen.cli import app
from jfagen.report import page, pictures
from jfagen.report.barriers import phase_rule
from jfagen.report.drawing import Rect
from jfagen.report.links import links
from jfagen.report.page import drawings
from jfagen.report.timeline import Phase, timeline

EVERY = [*SHIPPED, *STRANGERS]


# ---- The order ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_what_lies_in_the_same_place_lives_at_different_levels(name):
    """The picture shows what is proved: overlapping places are never in use together."""
    lives = timeline(compiled(name)).lives
    for one, other in combinations(lives, 2):
        same_place = one.storage is other.storage and one.first < other.stop
        if same_place and other.first < one.stop:
            assert one.done <= other.top or other.done <= one.top, (one, other)


@pytest.mark.parametrize("name", EVERY)
def test_every_op_stands_once_for_each_step_and_group(name):
    program, shown = compiled(name).program, timeline(compiled(name))
    expected = [
        (role.role.name, use.op.name)
        for role in program.role_programs
        for uses, times in ((role.before, 1), (role.loop, shown.steps), (role.after, 1))
        for use in uses
        for _ in range(times * len(use.groups or (-1,)))
    ]
    found = [(shown.lanes[box.lane].split("[")[0], box.words.split("[")[0]) for box in shown.boxes]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("name", EVERY)
def test_barriers_lead_downwards_and_lanes_are_orders(name):
    shown = timeline(compiled(name))
    for arrow in shown.arrows:
        first, second = shown.boxes[arrow.first], shown.boxes[arrow.second]
        assert first.top < arrow.leaves <= arrow.reaches < second.done, arrow
        assert arrow.leaves <= first.done and second.top <= arrow.reaches, arrow
    for lane in range(len(shown.lanes)):
        tops = [box.top for box in shown.boxes if box.lane == lane]
        assert tops == sorted(tops) and len(set(tops)) == len(tops)


def test_a_signal_that_stands_in_another_op_says_whose_it_is():
    """As the table of the barriers has it: dscores arrives, in the text at the end of dq."""
    shown = timeline(compiled("hopper/bwd"))
    hands = {(one.channel, one.hands.split("[")[0]) for one in shown.arrows if one.hands}
    assert hands == {("ds_full", "dscores")}
    assert "ds_full: dscores[0][1], announced in dq[0][0], then " in page(compiled("hopper/bwd"))


def test_narrow_buffers_stand_side_by_side():
    """One column is less than a pixel: it is drawn wider, and hides no neighbour."""
    shapes = drawings(compiled("fwd"))["tmem"].shapes
    rects = [s for s in shapes if isinstance(s, Rect) and s.style.startswith("life") and s.title]
    narrow = [one for one in rects if one.width < 6]
    assert len(narrow) > 4
    for one, other in combinations(narrow, 2):
        apart = one.y >= other.y + other.height or other.y >= one.y + one.height
        assert apart or abs(one.x - other.x) >= one.width, (one, other)


def test_the_phases_of_the_forward_are_those_of_its_schedule():
    shown = timeline(compiled("fwd"))
    phases = {box.words: box.phase for box in shown.boxes}
    last = shown.steps - 1
    assert phases["load_q[0]"] is Phase.BEFORE
    assert phases["qk[0][0]"] is Phase.PROLOGUE, "pv of the step before does not run"
    assert phases["qk[0][1]"] is phases["pv[0][0]"] is Phase.STEADY
    assert phases[f"pv[1][{last}]"] is Phase.EPILOGUE
    assert phases[f"softmax[0][{last}]"] is Phase.TAIL, "the schedule says `peel`"
    assert phases["store_out[1]"] is Phase.AFTER


def test_loads_run_ahead_as_far_as_the_ring_is_deep():
    def lead(depth):
        edit = (("depth 3", f"depth {depth}"),)
        boxes = {box.words: box for box in timeline(compiled("fwd", *edit)).boxes}
        return boxes["load_v[1]"].top - boxes["load_k[0]"].top

    assert lead(3) < lead(2), "with two slots the second v waits for a first use"


@pytest.mark.parametrize("name", EVERY)
def test_the_rule_of_a_phase_is_what_the_kernel_waits_for(name):
    """`^ 1` stands in the rule exactly where the kernel's waits flip the phase."""
    one = compiled(name)
    for channel in one.sync.channels:
        waits = [
            line for line in one.kernel.text.split("\n") if f"barrier_wait({channel.name}[" in line
        ]
        assert waits, channel.name
        flipped = any(" ^ 1)" in line or "_free)" in line for line in waits)
        assert flipped == ("^ 1" in phase_rule(channel)), (channel.name, waits)


# ---- Links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_every_line_of_the_schedule_that_makes_code_is_linked_both_ways(name):
    one = compiled(name)
    found, program = links(one), one.program
    making = {use.span.line for role in program.role_programs for use in role.uses()}
    making |= {role.span.line for role in program.roles}
    memory = [buffer for buffer in program.buffers if str(buffer.storage) != "reg"]
    making |= {buffer.span.line for buffer in memory}
    assert making <= set(found.starts)
    kernel = one.kernel.text.split("\n")
    assert all(1 <= line <= len(kernel) for line in found.source_of)
    for source, starts in found.starts.items():
        assert all(found.source_of[start] == source for start in starts)
    roles = range(max(role_comments(kernel)[0], 1), max(found.source_of) + 1)
    silent = [kernel[line - 1] for line in roles if line not in found.source_of]
    assert all(not line.strip() or "async_task" in line for line in silent), silent


def test_a_file_may_have_any_name():
    text = compiled("fwd").program.source.text
    named = [links(compiled_text(text, path)) for path in ("fwd.sched", "a schedule (1).sched")]
    assert named[0] == named[1]


def role_comments(kernel):
    """Return the lines that begin a role, by their comment in the roles' indentation."""
    return [n for n, line in enumerate(kernel, 1) if re.match(r" {8}# \w.*\.sched:\d+\)$", line)]


def test_an_op_leads_to_its_code_and_a_ring_to_its_constant():
    one = compiled("fwd")
    found, kernel = links(one), one.kernel.text.split("\n")
    schedule = one.program.source.text.split("\n")
    ring = next(n for n, line in enumerate(schedule, 1) if "depth 3" in line)
    assert any(kernel[start - 1].startswith("KV_DEPTH") for start in found.starts[ring])
    step = next(n for n, line in enumerate(schedule, 1) if "pv[0][i-1]" in line)
    code = [kernel[line - 1] for line, source in found.source_of.items() if source == step]
    assert sum("tlx.async_dot(" in line for line in code) == 4


# ---- The page and its files --------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_a_page_is_one_file_and_says_what_holds(name):
    one = compiled(name)
    text = page(one)
    assert text.startswith("<!doctype html>") and text.rstrip().endswith("</html>")
    for outside in ("http:", "https:", "//cdn", "@import", "url("):
        assert outside not in text.replace("data:,", "")
    for rule, verdict in one.proof.verdicts.items():
        assert f">{rule}</th>" in text and verdict.word in text
    for channel in one.sync.channels:
        assert text.count(channel.name) > 2
    assert "nothing was measured or run" in text
    assert ("Tensor memory" in text) == bool(one.placement.columns)


def test_what_orders_beside_the_channels_is_said():
    assert "cluster launch control" in page(compiled("fwd"))
    assert "the turns of consumer" in page(compiled("hopper/fwd"))
    assert "the rendezvous of compute" in page(compiled("bwd"))
    assert "Not in the graph" not in page(compiled("ladder/01_simple"))


def test_what_a_user_names_is_escaped():
    """Comments of a schedule are the only free text of a page."""
    text = page(compiled("fwd", ("# key rows per step", "# <script>alert(1)</script> & more")))
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize("name", ["fwd", "hopper/bwd"])
def test_pictures_are_files_of_their_own(name):
    shown = drawings(compiled(name))
    files = {one.name: one.content for one in pictures(compiled(name))}
    assert set(files) == {f"{drawing}.{kind}" for drawing in shown for kind in ("svg", "png")}
    for drawing in shown.values():
        root = ElementTree.fromstring(files[f"{drawing.name}.svg"])
        spaced = "{http://www.w3.org/2000/svg}"
        assert root.tag == f"{spaced}svg" and root.find(f"{spaced}title").text == drawing.title
        assert not root.findall(f".//{spaced}a"), "no links where there is no page"
        png = files[f"{drawing.name}.png"]
        assert png.startswith(b"\x89PNG\r\n")
        width, height = struct.unpack(">II", png[16:24])
        assert abs(width - 2 * drawing.width) <= 2 and abs(height - 2 * drawing.height) <= 2


def test_the_page_is_the_same_bytes_under_any_hash_seed(tmp_path):
    texts = set()
    for seed in ("0", "1"):
        out = tmp_path / f"{seed}.html"
        call = [sys.executable, "-m", "jfagen", "report", "fwd", "-o", str(out)]
        subprocess.run(call, check=True, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": seed})
        texts.add(out.read_bytes())
    assert len(texts) == 1


@pytest.mark.parametrize("name", ["bwd", "hopper/bwd"])
def test_a_report_takes_less_than_three_seconds(name, tmp_path, capsys):
    call = [sys.executable, "-m", "jfagen", "report", name, "-o", str(tmp_path / "page.html")]
    seconds = []
    while len(seconds) < 6 and min(seconds, default=9.0) > 2.9:  # others may be at work
        start = time.perf_counter()
        subprocess.run(call, check=True, cwd=ROOT, capture_output=True)
        seconds.append(time.perf_counter() - start)
    with capsys.disabled():
        print(f"\nreport {name}: {min(seconds):.2f} s")
    assert min(seconds) < 3.0 * slowness()


# ---- The command -------------------------------------------------------------------------------


def report(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_report_writes_the_page_and_its_pictures(tmp_path):
    done = report("fwd", "-o", tmp_path / "x.html", "--pictures", tmp_path / "pictures")
    assert done.exit_code == 0
    assert (tmp_path / "x.html").read_text() == page(compiled("fwd"))
    names = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert names == {f"{n}.{k}" for n in drawings(compiled("fwd")) for k in ("svg", "png")}
    assert all(str(tmp_path / "pictures" / name) in done.output for name in names)


def test_report_takes_any_of_the_kernels(tmp_path):
    done = report("hopper/fwd", "--kernel", "jfa_fwd_hopper_fp16", "-o", tmp_path / "x.html")
    assert done.exit_code == 0
    assert "<h1>jfa_fwd_hopper_fp16</h1>" in (tmp_path / "x.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nonesuch",), 2, "there is no schedule `nonesuch`"),
        (("fwd", "-o", "."), 2, "it is a folder"),
        (("fwd", "-o", "missing/x.html"), 2, "its folder does not exist"),
        (("fwd", "--kernel", "jfa"), 2, "the schedule makes jfa_fwd"),
        (("bad.sched",), 1, "unknown word `wraps`"),
    ],
)
def test_a_wrong_call_writes_nothing(arguments, code, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad = (ROOT / "schedules" / "fwd.sched").read_text().replace("warps 4", "wraps 4", 1)
    (tmp_path / "bad.sched").write_text(bad)
    done = subprocess.run(
        [sys.executable, "-m", "jfagen", "report", *arguments], capture_output=True, text=True
    )
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.sched"]
