"""The README: its commands, tests and paths exist, and what it shows is what the commands print.

Blocks after `<!-- shown: NAME -->` are made anew by `pytest tests/test_readme.py --update-golden`.
"""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import torch
import typer
from builders import ROOT, compiled, compiled_text, edited, schedule_text
from test_backward_edits import WIDE
from test_deletions import deletions
from typer.testing import CliRunner

import jfagen
from jfagen.cli import app
from jfagen.cli.status import status_block
from jfagen.diagnostics import CompileError, render_all
from jfagen.review import compare, facts_of, forms
from jfagen.toolchain import compile_text
from jfagen.toolchain.report import as_text

README = ROOT / "README.md"
SLICES = ("slices 2", "slices 4")
REFUSED = {
    "smem": ("depth 3", "depth 4"),
    "order": (
        "pv[0][i-1]  qk[0][i]  pv[1][i-1]  qk[1][i]",
        "qk[0][i]  qk[1][i]  pv[0][i-1]  pv[1][i-1]",
    ),
}
#: The public forward that the README names, measured once with the toolchain that it names.
PUBLIC = {
    "spills, bytes stored / loaded": "68 / 108",
    "registers: softmax, correction, issuing roles": "168, 152, 24",
    "softmax loop, a step without mask": "500",
    "softmax loop, a masked step": "",
    "MMA loop": "218",
    "correction loop": "172",
    "all instructions": "3,284",
    "SMEM, bytes": "230,148",
    "TMEM, columns": "512",
}
#: What differs from run to run.
UNSTEADY = re.compile(r"\d+\.\d+ s\b")


def text():
    return README.read_text(encoding="utf-8")


def fenced(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text(), re.M | re.S)


def inline():
    prose = re.sub(r"^```.*?^```$", "", text(), flags=re.M | re.S)
    return re.findall(r"`([^`\n]+)`", prose)


def place(name):
    """Return where the block or table under the mark of this name stands, without its fence."""
    mark = rf"<!-- shown: {name} -->\n"
    found = re.search(rf"{mark}```\w+\n(.*?)\n```\n", text(), re.S)
    table = re.search(rf"{mark}(\|.*?)\n\n", text(), re.S)
    assert found or table, f"the README has no mark `shown: {name}`"
    return (table or found).span(1)


def shown(name):
    """Return that block or table."""
    start, stop = place(name)
    return text()[start:stop]


def check(golden, name, expected):
    """Compare a block of the README with what it should show, or write it anew."""
    old = shown(name)
    if golden.update and UNSTEADY.sub("", old) != UNSTEADY.sub("", expected):
        start, stop = place(name)
        README.write_text(text()[:start] + expected + text()[stop:], encoding="utf-8")
        old = shown(name)
    assert UNSTEADY.sub("", old) == UNSTEADY.sub("", expected)


# ---- What it names ------------------------------------------------------------------------------


def command_lines():
    lines = [line for block in fenced("sh") for line in block.splitlines()]
    calls = [*lines, *inline(), *workflow_calls()]
    return sorted({call for call in calls if call.startswith("jfagen ")})


def workflow_calls():
    """Return the calls in workflows, without where their output goes."""
    return re.findall(r"\bjfagen [a-z][^>\n]*", "".join(fenced("yaml")))


@pytest.mark.parametrize("line", command_lines())
def test_every_call_of_jfagen_is_one_that_the_command_line_takes(line):
    root = typer.main.get_command(app)
    _, *arguments = shlex.split(line)
    if arguments[0].startswith("-"):
        assert arguments[0] in {option for p in root.params for option in p.opts}
        return
    command = root.commands[arguments[0]]
    if rest := arguments[1:]:
        command.make_context(arguments[0], rest)


def test_the_table_of_commands_names_all_and_only_what_exists():
    root = typer.main.get_command(app)
    rows = dict(re.findall(r"^\| `jfagen (\w+)[^|]*\| (.*) \|$", text(), re.M))
    assert set(rows) == set(root.commands)
    for name, row in rows.items():
        known = {option for p in root.commands[name].params for option in p.opts}
        named = {word for word in re.findall(r"`(-[\w-]*)", row) if word != "-"}
        options = {option for option in known if option.startswith("--")}
        assert named <= known, name
        assert options - {"--output"} <= named, name


def test_every_test_that_it_names_exists():
    named = {word for word in inline() if re.fullmatch(r"test_\w+", word)}
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").glob("*.py"))
    defined = set(re.findall(r"^def (test_\w+)", tests, re.M))
    assert named and named <= defined, named - defined


def test_every_path_that_it_names_exists():
    starts = {path.name for path in ROOT.iterdir()} | {".ci"}
    named = {
        word
        for word in inline()
        if word.split("/")[0] in starts and re.fullmatch(r"[\w./-]+", word)
    }
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_room_and_every_rule_is_named():
    rooms = {f"jfagen/{path.parent.name}/" for path in (ROOT / "jfagen").glob("*/__init__.py")}
    assert rooms - set(inline()) == set()
    assert set(compiled("fwd").proof.verdicts) - set(inline()) == set()


def test_the_ladder_is_complete():
    steps = {path.relative_to(ROOT).as_posix() for path in (ROOT / "schedules").rglob("*.sched")}
    assert steps <= set(inline())


def test_it_stays_short():
    """One page: language, two targets, two algorithms, proofs, PyTorch, a model, measurements."""
    assert len(text().splitlines()) <= 900


def test_the_loop_of_a_consumer_is_what_the_kernel_has(golden):
    kernel = compiled("hopper/fwd").kernel.text
    loop = re.search(r"( +)# full steps: no mask\n(.*?)\n\1# the masked tail", kernel, re.S)[2]
    check(golden, "hopper-loop", loop)


def test_the_installation_is_the_one_that_is_tested():
    (first, tests, *_) = fenced("sh")
    script = (ROOT / ".ci" / "run").read_text().replace("--quiet ", "")
    wanted = [line for line in first.splitlines() if line.startswith("pip ")] + tests.splitlines()
    places = [script.find(line) for line in wanted]
    assert -1 not in places and places == sorted(places), wanted


# ---- What it shows ------------------------------------------------------------------------------


def in_order(lines, whole):
    """Whether the lines stand in the text, in this order, with others between them."""
    rest = iter(whole.splitlines())
    return all(line in rest for line in lines if line)


def test_the_excerpts_are_of_the_schedule_and_of_its_kernel():
    names = ("fwd", "hopper/fwd")
    for name, schedule in zip(names, fenced("sched"), strict=True):
        assert in_order(schedule.splitlines(), schedule_text(name))
    for name, kernel in zip(names, fenced("python")[:2], strict=True):
        assert kernel in compiled(name).kernel.text


def test_the_calls_of_the_page_run():
    """The example of `jfagen.attention`, on the CPU."""
    calls = fenced("python")[2]
    packed, single = torch.randn(9, 2, 64), torch.randn(4, 2, 64)
    kv_offsets, q_offsets = torch.tensor([0, 5, 9]), torch.tensor([0, 3, 9])
    names = {"jfagen": jfagen, "k": packed, "v": packed, "kv_offsets": kv_offsets}
    first, *others = calls.splitlines()
    exec(first, names | {"q": single})
    names |= {"q": packed, "q_offsets": q_offsets}
    exec("\n".join(others), names)
    assert names["out"].shape == (9, 2, 64) and names["lse"].shape == (9, 2)


def test_the_layer_of_the_example_is_the_one_that_is_trained(golden):
    source = (ROOT / "jfagen" / "examples" / "taste.py").read_text()
    reader = source.split("class Reader(")[1].split("\nclass ")[0]
    check(golden, "example-layer", reader[reader.index("    def forward(") :].rstrip())


def test_the_status_block_is_what_build_prints(golden):
    block = status_block(compiled("fwd"), Path("generated/fwd.py"), written=False)
    check(golden, "status", block)


def differing(old, new):
    """Return the lines of a changed text that are new, or both with their signs."""
    pairs = list(zip(old.splitlines(), new.splitlines(), strict=True))
    return [(before, after) for before, after in pairs if before != after]


def test_the_edit_gives_the_diffs_that_are_shown(golden):
    pairs = differing(schedule_text("fwd"), edited("fwd", SLICES))
    lines = [f"{sign}{x}" for pair in pairs for sign, x in zip("-+", pair, strict=True)]
    check(golden, "slices-schedule", "\n".join(lines))
    facts = [
        facts_of(one, title)
        for one, title in (
            (compiled("fwd"), "schedules/fwd.sched@HEAD"),
            (compiled("fwd", SLICES), "schedules/fwd.sched"),
        )
    ]
    check(golden, "slices-diff", forms.as_text(compare(*facts)))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_the_refusals_are_what_build_prints(name, golden):
    with pytest.raises(CompileError) as caught:
        compiled_text(edited("fwd", REFUSED[name]), "schedules/fwd.sched")
    check(golden, f"refused-{name}", render_all(caught.value.diagnostics).rstrip())


def test_what_the_prose_says_of_two_edits_is_so():
    old = compiled("fwd").sync
    region = ("  load { load_q[g] }", "  region io[g] { out over q }\n\n  load { load_q[g] }")
    shared = compiled("fwd", REFUSED["smem"], region).sync
    gone = names(old) - names(shared)
    assert gone == {"q_empty", "out_empty", "s_after_finish"}
    assert names(shared) - names(old) == {"q_after_store_out"}
    assert f"{shared.barriers} barriers in {len(shared.channels)} channels" in text()
    moved = compiled(
        "fwd",
        ("  tmem alpha[g] : f32[m]", "  reg alpha[g] : f32[m]"),
        ("(p, alpha, row_sum", "(p, row_sum"),
        ("peel  softmax[g][i] }", "peel  softmax[g][i]  rescale[g][i] }"),
        ("    correction { rescale[g][i] }\n", ""),
    ).sync
    assert "p_full" in names(old) - names(moved)


def names(sync):
    return {channel.name for channel in sync.channels}


def test_the_simulation_is_what_run_prints(golden):
    result = CliRunner().invoke(app, ["run", "fwd"], env={"NO_COLOR": "1"})
    check(golden, "run", result.output.rstrip())


def test_the_deletions_are_as_many_as_the_text_has():
    rows = re.findall(r"^\| `(\w+)` \| ([\d |]+) \|$", shown("deletions"), re.M)
    assert [name for name, _ in rows] == ["fwd", "bwd"]
    for name, numbers in rows:
        total, *outcomes = map(int, numbers.split("|"))
        assert total == len(list(deletions(compiled(name).kernel.text))) == sum(outcomes), name


@cache
def measured(*edits):
    return compile_text(compiled("fwd", *edits).kernel.text, name="fwd")


def loop(one, role, index=0):
    return [loop for loop in one.loops if loop.role == role][index].instructions


def test_the_compile_is_what_compile_prints(golden):
    whole = as_text(measured()).split("\n\nper lap")[0]
    check(golden, "compile", whole)


def test_the_measured_figures_are_those_of_the_cubin(golden):
    one = measured()
    limits = {role.name: role.registers_found for role in one.roles}
    figures = [
        f"{one.spills.store_bytes} / {one.spills.load_bytes}",
        f"{limits['softmax']}, {limits['correction']}, {limits['mma']}",
        str(loop(one, "softmax")),
        str(loop(one, "softmax", 1)),
        str(loop(one, "mma")),
        str(loop(one, "correction")),
        f"{one.instructions:,}",
        f"{one.resources.smem_bytes:,}",
        str(one.resources.tmem_columns),
    ]
    rows = [
        f"| {what} | {ours} | {theirs} |"
        for (what, theirs), ours in zip(PUBLIC.items(), figures, strict=True)
    ]
    head = ["| static figure | jfagen `fwd` | public TLX forward |", "| --- | --- | --- |"]
    check(golden, "measured", "\n".join([*head, *rows]))


#: Figure -> what the public backward has: `sass_stats` of its cubin, fbtriton 3.7.4.
PUBLIC_BACKWARD = {
    "spills, bytes stored / loaded": "0 / 0",
    "compute loop, a step without mask": "183",
    "compute loop, a masked step": "",
    "MMA loop": "281",
    "reduce loop": "159",
    "`BAR.SYNC` a lap: compute, reduce": "12, 8",
    "SMEM, bytes": "149,508",
    "TMEM, columns": "512",
}


def backward_figures(*edits):
    one = compile_text(compiled("bwd", *edits).kernel.text, name="bwd")
    loops = {role: [x for x in one.loops if x.role == role] for role in ("compute", "reduce")}
    barriers = [str(loops[role][0].counts.get("BAR.SYNC", 0)) for role in loops]
    return [
        f"{one.spills.store_bytes} / {one.spills.load_bytes}",
        str(loop(one, "compute")),
        str(loop(one, "compute", 1)),
        str(loop(one, "mma")),
        str(loop(one, "reduce")),
        ", ".join(barriers),
        f"{one.resources.smem_bytes:,}",
        str(one.resources.tmem_columns),
    ]


def test_the_backward_s_figures_are_those_of_the_cubin(golden):
    columns = [backward_figures(), backward_figures(*WIDE), PUBLIC_BACKWARD.values()]
    rows = [
        f"| {' | '.join((what, *figures))} |"
        for what, *figures in zip(PUBLIC_BACKWARD, *columns, strict=True)
    ]
    head = [
        "| static figure | `bwd`, 64 queries a step | the same with 128 | public TLX, 64 |",
        "| --- | --- | --- | --- |",
    ]
    check(golden, "backward-measured", "\n".join([*head, *rows]))


def test_the_sentence_on_hopper_s_backward_is_measured():
    one = compile_text(compiled("hopper/bwd").kernel.text, name="bwd")
    laps = [x for x in one.loops if x.role == "consumer" and x.innermost]
    assert laps and not any(x.counts.get(word) for x in laps for word in ("LDL", "STL"))
    assert not one.findings
    sentence = (
        f"no spill in a loop ({one.spills.store_bytes} bytes stored outside of them), no matmul "
        f"serialized, {one.resources.smem_bytes:,} bytes of SMEM, {laps[0].instructions} "
        f"instructions a lap for {laps[0].counts['MMA']} wgmma"
    )
    assert sentence in text()


def test_the_backward_s_loop_and_columns_are_those_of_the_schedule(golden):
    source = schedule_text("bwd")
    (loop_text,) = re.findall(r"  loop j over q \{\n.*?\n  \}\n", source, re.S)
    check(golden, "backward-loop", loop_text.rstrip())
    columns = [
        re.search(r"Tensor memory, columns:\n\n(.*?)\n\n", compiled("bwd", *e).kernel.text, re.S)[1]
        for e in ((), WIDE)
    ]
    titles = ("64 queries a step:", "128 queries a step:")
    blocks = [f"{title}\n{text}" for title, text in zip(titles, columns, strict=True)]
    check(golden, "backward-columns", "\n".join(blocks))


def test_the_loop_of_hopper_s_backward_is_that_of_the_schedule(golden):
    loop = re.search(r"  loop j over q staggered.*?\n  \}\n", schedule_text("hopper/bwd"), re.S)[0]
    check(golden, "hopper-backward-loop", loop.rstrip())


@pytest.mark.slow
def test_the_price_of_the_edit_is_measured(golden):
    lines = [
        f"slices {count}: {one.spills.store_bytes} bytes stored, {one.spills.load_bytes} loaded; "
        f"softmax loop {loop(one, 'softmax')}, MMA loop {loop(one, 'mma')} instructions"
        for count, one in ((2, measured()), (4, measured(SLICES)))
    ]
    check(golden, "slices-measured", "\n".join(lines))
