"""`jfagen diff`: what it says of the edits that people make first, and how small those are."""

from __future__ import annotations

import json
import re
from difflib import SequenceMatcher
from pathlib import Path
from time import perf_counter

import pytest
from builders import SHIPPED, compiled, compiled_text, edited, schedule_text
from pace import slowness
from review_edits import EDITS, OTHER_ORDER, jfagen, renamed

from jfagen.diagnostics import CompileError
from jfagen.review import Part, compare, facts_of
from jfagen.review.forms import as_json, as_markdown, as_text
from jfagen.review.kernel_lines import sections


def found(edit):
    """The comparison of a shipped schedule with what an edit makes of it."""
    name, changes = EDITS[edit]
    before, after = compiled(name), compiled(name, *changes)
    return compare(
        facts_of(before, f"schedules/{name}.sched"), facts_of(after, f"{edit.split()[-1]}.sched")
    )


def words(comparison, part):
    return [f"{one.name}: {one.words}" for one in comparison.changes if one.part is part]


@pytest.mark.parametrize("edit", EDITS)
def test_what_an_edit_changes_in_words(edit, golden):
    golden.check(as_text(found(edit)) + "\n")


def test_a_rotation_is_said_to_be_the_same_sequence():
    offset, order = words(found("3 rotated"), Part.PIPELINE)
    assert offset == "mma: `pv[0]`: 1 step behind -> in its own step"
    assert order.endswith("the same sequence, only a lap begins elsewhere")
    assert not any("same sequence" in one for one in words(found("3 not pipelined"), Part.PIPELINE))


def test_renamed_things_are_recognised():
    role = found("a role is renamed")
    assert words(role, Part.ROLES) == ["fixer: was called `correction`"]
    assert {one.part for one in role.changes} == {Part.ROLES} and not role.figures
    buffer = found("a buffer is renamed")
    assert words(buffer, Part.BUFFERS) == ["pairs: was called `kv`"]
    assert words(buffer, Part.BARRIERS) == [] and not buffer.figures


def test_a_role_may_be_called_as_another_part_of_the_kernel():
    """Or as a word of the language: `tl.store` is no role."""
    one, other = compiled("fwd"), compiled("fwd", *renamed("fwd", "store", "host"))
    same = compare(facts_of(one, "a"), facts_of(other, "b"))
    assert words(same, Part.ROLES) == ["host: was called `store`"]
    assert same.sections == ()
    named = renamed("fwd", "mma", "host")
    order = tuple(line.replace("mma", "host") for line in EDITS["3 not pipelined"][1][0])
    moved = compare(*(facts_of(compiled("fwd", *named, *e), "a") for e in ((), (order,))))
    assert [(section.name, section.role) for section in moved.sections] == [("host", True)]


def code(text):
    """Lines that are code, without places in the schedule."""
    body = text[text.index('"""\n\nimport') :]
    lines = [re.sub(r" \([^()\s]+\.sched:\d+\)", "", line).rstrip() for line in body.split("\n")]
    return [line for line in lines if line.strip() and not line.strip().startswith("#")]


def changed_lines(before, after):
    """Lines of the first text that are gone, and of the second that are new."""
    old, new = code(before), code(after)
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(old[a:b], new[c:d]) for kind, a, b, c, d in changes if kind != "equal"]


#: The most lines outside comments that an edit may change in the kernel.
MOST = {
    "1 a ring of two": 1,
    "1 a ring of four, out over q": 25,
    "2 rescale in softmax": 45,
    "3 rotated": 34,
    "3 not pipelined": 67,
    "4 no peel": 17,
    "5 whole": 10,
    "5 four slices": 1,
    "6 one group": 116,
    "7 given, static": 38,
    "7 longest first, zigzag": 30,
    "8 a deeper stage": 10,
    "8 a stage in place of registers": 49,
    "9 dq over dp": 45,
    "9 dq over the scores": 99,
    "11 to Hopper": 393,
    "a role is renamed": 1,
    "a buffer is renamed": 25,
    "buffers in another order": 8,
}


def test_edits_change_few_lines_of_the_kernel(capsys):
    counts = {}
    for edit, (name, changes) in EDITS.items():
        pieces = changed_lines(compiled(name).kernel.text, compiled(name, *changes).kernel.text)
        counts[edit] = sum(max(len(old), len(new)) for old, new in pieces)
    with capsys.disabled():
        print("\nlines outside comments that an edit changes in the kernel:")
        print("".join(f"  {edit:34}{count:4}\n" for edit, count in counts.items()), end="")
    assert {edit: n for edit, n in counts.items() if n > MOST[edit]} == {}
    assert counts.keys() == MOST.keys()


def test_buffers_in_another_order_move_their_own_lines_only():
    pieces = changed_lines(*(compiled("fwd", *e).kernel.text for e in ((), EDITS[OTHER_ORDER][1])))
    gone = sorted(line for old, _ in pieces for line in old)
    made = sorted(line for _, new in pieces for line in new)
    assert gone == made
    assert all(re.search(r"\b(q|kv)_|\b(Q|KV)_", line) for line in gone)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_deeper_or_shallower_ring_changes_at_most_6_lines(name):
    """Of every shipped schedule, ring by ring, as far as the result is legal."""
    text, kernel = schedule_text(name), compiled(name).kernel.text
    for line in re.findall(r"^  (?:smem|tmem) .*?  depth \d.*$", text, re.M):
        depth = int(re.search(r"depth (\d)", line)[1])
        for other in {max(depth - 1, 2), depth + 1} - {depth}:
            edit = text.replace(line, line.replace(f"depth {depth}", f"depth {other}"))
            try:
                after = compiled_text(edit, f"schedules/{name}.sched").kernel.text
            except CompileError:
                continue
            pieces = changed_lines(kernel, after)
            assert sum(max(len(old), len(new)) for old, new in pieces) <= 6, (line, other, pieces)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_renamed_role_changes_only_its_own_lines(name):
    for role in [role.name for role in compiled(name).program.roles]:
        after = compiled(name, *renamed(name, role, "janitor")).kernel.text
        for old, new in changed_lines(compiled(name).kernel.text, after):
            mine = [re.sub(rf"(?<![a-z]){role}(?![a-z])", "janitor", line.lower()) for line in old]
            assert mine == [line.lower() for line in new], role
            assert all("janitor" in line.lower() for line in new)


@pytest.mark.parametrize("edit", EDITS)
def test_a_block_that_moved_stands_together_before_and_after(edit):
    name, changes = EDITS[edit]
    texts = [compiled(name).kernel.text, compiled(name, *changes).kernel.text]
    before, after = (text.split("\n") for text in texts)
    for section in found(edit).sections:
        for block in section.moved:
            size = len(block.lines)
            assert list(block.lines) == after[block.at_after - 1 :][:size]
            old = before[block.at_before - 1 :][:size]
            if not any(words(found(edit), part) for part in (Part.ROLES, Part.BUFFERS)):
                assert [x.strip() for x in old] == [x.strip() for x in block.lines]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_section_of_a_kernel_is_found(name):
    """A template that calls one otherwise would make two of them one."""
    program, text = compiled(name).program, compiled(name).kernel.text
    roles = [f"role {role.name}" for role in program.roles]
    plain = ["tables", "constants", "functions", "allocations"]
    assert sorted(sections(text)) == sorted([*plain, *roles, "host"])


@pytest.mark.parametrize("edit", EDITS)
def test_no_line_is_replaced_by_itself(edit):
    hunks = [hunk for section in found(edit).sections for hunk in section.hunks]
    for hunk in hunks:
        both = set(hunk.before) & set(hunk.after)
        assert not [line for line in both if not line.startswith("# ...")]


def test_a_name_that_the_kernel_has_anyway_is_not_taken_for_the_buffers():
    """`kv_offsets` is the tensor's name, whatever the buffers are called."""
    assert found("a buffer is renamed").sections == ()


def test_places_are_of_the_first_slot_where_there_are_several():
    said = words(found("11 to Hopper"), Part.PLACES) + words(found("9 dq over dp"), Part.PLACES)
    assert any("bytes of the first slot " in one for one in said)
    assert any(re.search(r": (bytes|columns) \d", one) for one in said)


def test_nothing_changed_is_one_line(tmp_path):
    done = jfagen("diff", "fwd", "fwd")
    assert done.returncode == 0 and done.stdout == "schedules/fwd.sched: nothing changed\n"
    copy = tmp_path / "copy.sched"
    copy.write_text(schedule_text("fwd").replace("tile {", "tile\n\n  {"))
    done = jfagen("diff", "fwd", copy)
    assert done.stdout == "schedules/fwd.sched and copy.sched: nothing changed\n"
    done = jfagen("diff", "fwd", copy, "--format", "json")
    assert json.loads(done.stdout)["same"] is True


def test_json_says_everything():
    content = json.loads(as_json(found("1 a ring of two")))
    assert content["schema"] == 1 and content["same"] is False
    assert {"part": "buffers", "name": "kv", "words": "a ring of 3 slots -> a ring of 2 slots"} in (
        content["changes"]
    )
    assert {"name": "SMEM, bytes", "before": 229648, "after": 196864} in content["figures"]
    assert content["rules"]["race"] == ["proved", "proved"]
    assert [section["name"] for section in content["sections"]] == ["tables", "constants"]
    assert [section["changed"] for section in content["sections"]] == [0, 1]


def test_markdown_fits_a_comment(golden):
    golden.check(as_markdown(found("1 a ring of two")))
    longest = as_markdown(found("11 to Hopper"))
    assert len(longest) < 65_536 and longest.count("```") % 2 == 0


def test_a_comparison_is_quick(tmp_path, capsys):
    deeper = tmp_path / "deeper.sched"
    name, changes = EDITS["8 a deeper stage"]
    deeper.write_text(edited(name, *changes))
    times = {}
    for pair in (("bwd", "hopper/bwd"), (name, deeper)):
        runs = []
        while len(runs) < 5 and min(runs, default=9) > 1.4:
            start = perf_counter()
            assert jfagen("diff", *pair).returncode == 0
            runs.append(perf_counter() - start)
        times[" ".join(Path(one).name for one in pair)] = min(runs)
    with capsys.disabled():
        print("\nseconds of a comparison:")
        print("".join(f"  {pair:24}{s:.2f}\n" for pair, s in times.items()), end="")
    assert max(times.values()) < 2.5 * slowness(), "1.5 on two idle cores; here one may be taken"
