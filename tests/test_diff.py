"""`jfagen diff`: what it says of the edits that people make first, and how small those are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from difflib import SequenceMatcher
from pathlib import Path
from time import perf_counter

import pytest
from builders import ROOT, SHIPPED, compiled, compiled_text, edited, schedule_text
from pace import slowness
from review_edits import EDITS, OTHER_ORDER, renamed
from typer.testing import CliRunner

from jfagen.cli import app
from jfagen.diagnostics import CompileError
from jfagen.review import Part, compare, facts_of
from jfagen.review.forms import as_json, as_markdown, as_text

runner = CliRunner()


def found(edit):
    """The comparison of a shipped schedule with what an edit makes of it."""
    name, changes = EDITS[edit]
    before, after = compiled(name), compiled(name, *changes)
    return compare(
        facts_of(before, f"schedules/{name}.sched"), facts_of(after, f"{edit.split()[-1]}.sched")
    )


def jfagen(*arguments, cwd=ROOT):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "jfagen", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
    )
    assert "Traceback" not in done.stderr
    return done


def words(comparison, part):
    return [f"{one.name}: {one.words}" for one in comparison.changes if one.part is part]


@pytest.mark.parametrize("edit", EDITS)
def test_what_an_edit_changes_in_words(edit, golden):
    golden.check(as_text(found(edit)) + "\n")


def test_a_rotation_is_said_to_be_the_same_sequence():
    (said,) = words(found("3 rotated"), Part.PIPELINE)
    assert said.endswith("the same sequence, only a lap begins elsewhere")
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
    assert {section.name for section in same.sections} == {"tables"}, "columns of other widths"
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
def test_no_line_is_replaced_by_itself(edit):
    hunks = [hunk for section in found(edit).sections for hunk in section.hunks]
    for hunk in hunks:
        both = set(hunk.before) & set(hunk.after)
        assert not [line for line in both if not line.startswith("# ...")]


def test_a_name_that_the_kernel_has_anyway_is_not_taken_for_the_buffers():
    """`kv_offsets` is the tensor's name, whatever the buffers are called."""
    assert [section.name for section in found("a buffer is renamed").sections] == ["tables"]


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


@pytest.fixture
def repository(tmp_path):
    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    file = tmp_path / "mine.sched"
    for depth in (3, 2):
        file.write_text(schedule_text("fwd").replace("depth 3", f"depth {depth}"))
        git("add", ".")
        git("commit", "-qm", f"depth {depth}")
    return tmp_path


def test_a_file_against_what_it_was(repository):
    done = jfagen("diff", "mine.sched", "--rev", "HEAD~1", cwd=repository)
    assert done.returncode == 0
    assert done.stdout.startswith("mine.sched@HEAD~1 -> mine.sched\n")
    assert "a ring of 3 slots -> a ring of 2 slots" in done.stdout
    assert jfagen("diff", "mine.sched", cwd=repository).stdout.endswith("nothing changed\n")
    (repository / "mine.sched").unlink()
    done = jfagen("diff", "mine.sched", "--rev", "HEAD~1..HEAD", cwd=repository)
    assert done.stdout.startswith("mine.sched@HEAD~1 -> mine.sched@HEAD\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("fwd", "fwd", "--rev", "HEAD"), 2, "give a second schedule or `--rev`, not both"),
        (("mine.sched", "--rev", "nothing"), 2, "error: invalid object name 'nothing'"),
        (("mine.sched", "--rev=-x"), 2, "`-x` is no revision"),
        (("mine.sched", "broken.sched"), 1, "error["),
        (("broken.sched", "mine.sched"), 1, "error["),
        (("mine.sched", "nowhere.sched"), 2, "there is no schedule `nowhere.sched`"),
        (("untracked.sched", "--rev", "HEAD"), 2, "untracked.sched"),
    ],
)
def test_what_cannot_be_compared_is_said_once(repository, arguments, code, said):
    (repository / "broken.sched").write_text(schedule_text("fwd").replace("qk[0][i]", "qq[0][i]"))
    (repository / "untracked.sched").write_text(schedule_text("fwd"))
    done = jfagen("diff", *arguments, cwd=repository)
    assert done.returncode == code and not done.stdout, done.stdout
    assert said in done.stderr
    assert ("help: " in done.stderr) is (arguments[0] != "fwd" and "nowhere.sched" not in arguments)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_schedule_under_another_name_is_the_same(name, tmp_path):
    """Also where names of other lengths move comments, and lines have other numbers."""
    copy = tmp_path / "sp é and a name that is longer than comments are.sched"
    for text in (schedule_text(name), "\n" * 1000 + schedule_text(name)):
        copy.write_text(text)
        for pair in ((name, copy), (copy, name)):
            done = runner.invoke(app, ["diff", *map(str, pair)])
            assert done.exit_code == 0 and done.stdout.count("\n") == 1, done.stdout
            assert done.stdout.endswith(": nothing changed\n") and copy.name in done.stdout


def test_a_revision_with_a_name_of_any_length(repository):
    name = "a b " * 20 + "é.sched"
    (repository / name).write_text(schedule_text("bwd"))
    subprocess.run(["git", "add", "."], cwd=repository, check=True)
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, "commit", "-qm", "long"], cwd=repository, check=True)
    (repository / name).write_text("# a comment\n" + schedule_text("bwd"))
    done = jfagen("diff", name, "--rev", "HEAD", cwd=repository)
    assert done.stdout == f"{name}@HEAD and {name}: nothing changed\n"
    (repository / name).write_text(schedule_text("bwd").replace("m[g]", "nothing[g]", 1) + "?")
    done = jfagen("diff", name, cwd=repository)
    assert done.returncode == 1 and f"--> {name}:" in done.stderr


def of_kernels(tmp_path, old, new, *more, before="hopper/fwd"):
    """What `diff` says of an edit of a schedule that makes several kernels, as JSON and text."""
    after = tmp_path / "after.sched"
    text = schedule_text("hopper/fwd")
    assert re.search(old, text)
    after.write_text(re.sub(old, new, text))
    said = [
        runner.invoke(app, ["diff", str(before), str(after), "--format", one, *more])
        for one in ("json", "text", "markdown")
    ]
    assert [one.exit_code for one in said] == [0, 0, 0]
    return json.loads(said[0].stdout), said[1].stdout, said[2].stdout


DEEPER = (r"(smem k .*depth 2)", r"\1 (4 if head_dim 64)")


def test_the_first_kernel_that_differs_is_compared(tmp_path):
    content, text, markdown = of_kernels(tmp_path, *DEEPER)
    line = "compared: the kernel with head_dim 64; the first one is the same\n"
    assert line in text and line in markdown
    assert content["compared"].startswith("the kernel with head_dim 64;") and not content["same"]
    assert content["also_changed"] == [
        "head_dim 64, dtype fp16",
        "q jagged, head_dim 64",
        "q jagged, head_dim 64, dtype fp16",
    ]
    assert "\n3 other kernels change too\n" in text
    assert "a ring of 2 slots -> a ring of 4 slots" in text and "in one of 8 kernels" in text
    assert content["new_kernels"] == content["gone_kernels"] == []


def test_where_the_first_kernel_changes_it_is_compared(tmp_path):
    content, text, _ = of_kernels(tmp_path, r"(smem q.*depth) 2", r"\1 1 (2 if head_dim 64)")
    assert content["compared"] == "" and len(content["also_changed"]) == 3
    assert "compared:" not in text and "in the first of 8 kernels" in text


def test_new_and_gone_kernels_are_told(tmp_path):
    content, text, markdown = of_kernels(tmp_path, r"head_dim in .*", "head_dim 128")
    assert content["new_kernels"] == [] and len(content["gone_kernels"]) == 4
    assert content["gone_kernels"][0] == "head_dim 64" and not content["same"]
    assert "gone kernels: head_dim 64; " in text and "- gone kernels: head_dim 64; " in markdown
    assert content["also_changed"] == content["sections"] == []
    few = tmp_path / "few.sched"
    few.write_text(
        (tmp_path / "after.sched").read_text().replace("q in {broadcast, jagged}", "q broadcast")
    )
    content, text, _ = of_kernels(tmp_path, *DEEPER, before=few)
    assert len(content["new_kernels"]) == 6 and content["gone_kernels"] == []
    assert {one["part"] for one in content["changes"]} == {"kernel"}


def test_another_order_of_the_values_only_makes_another_first(tmp_path):
    content, text, _ = of_kernels(tmp_path, r"dtype in .*", "dtype in {fp16, bf16}")
    assert content["changes"] == [
        {
            "part": "kernel",
            "name": "first kernel",
            "words": "that with dtype bf16 -> that with dtype fp16",
        },
        {"part": "kernel", "name": "dtype", "words": "bf16 or fp16 -> fp16 or bf16"},
    ]
    assert content["sections"] == content["figures"] == content["also_changed"] == []
    assert content["new_kernels"] == content["gone_kernels"] == []
    assert "compared: the kernel with " in text and not content["same"]


def test_kernels_without_a_value_in_common(tmp_path):
    text = re.sub(r"dtype in .*", "dtype bf16", schedule_text("hopper/fwd"))
    (tmp_path / "bf16.sched").write_text(text)
    content, _, _ = of_kernels(
        tmp_path, r"dtype in .*", "dtype fp16", before=tmp_path / "bf16.sched"
    )
    assert content["compared"] == "the first kernels, which have other values"
    assert len(content["new_kernels"]) == len(content["gone_kernels"]) == 4


@pytest.mark.parametrize("depth", ["0 if head_dim 64", "40 if head_dim 64", "4 if head_dim 32"])
def test_a_kernel_that_is_refused_ends_the_comparison(tmp_path, depth):
    file = tmp_path / "refused one.sched"
    file.write_text(re.sub(DEEPER[0], rf"\1 ({depth})", schedule_text("hopper/fwd")))
    for pair in (("hopper/fwd", file), (file, "hopper/fwd"), (file, file)):
        done = jfagen("diff", *pair)
        assert done.returncode == 1 and not done.stdout, depth
        assert done.stderr.count("error[") == 1 and "refused one.sched:" in done.stderr


def test_revisions_of_a_bundled_schedule_and_of_one_that_is_gone(repository):
    done = [runner.invoke(app, ["diff", "fwd", "--rev", rev]) for rev in ("HEAD", "HEAD..HEAD")]
    assert [one.exit_code for one in done] == [0, 0], done
    assert done[1].stdout == "fwd.sched@HEAD: nothing changed\n"
    (repository / "mine.sched").unlink()
    done = jfagen("diff", "mine.sched", "--rev", "HEAD~1", cwd=repository)
    assert done.returncode == 2 and "there is no schedule `mine.sched`" in done.stderr


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
