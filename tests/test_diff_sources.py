"""Which texts and which kernels `jfagen diff` compares: files, revisions, several kernels."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from builders import SHIPPED, schedule_text
from review_edits import jfagen
from typer.testing import CliRunner

from jfagen.cli import app
from jfagen.review.versions import Kernel

runner = CliRunner()


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
        (("mine.sched", "--rev", "HEAD~1...HEAD"), 2, "`--rev` takes two dots"),
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


def test_a_hook_of_another_repository_does_not_say_which_file_is_meant(repository, monkeypatch):
    below = repository / "below"
    below.mkdir()
    (below / "mine.sched").write_text(schedule_text("fwd"))
    for arguments in (
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    done = jfagen("diff", "mine.sched", cwd=below)
    assert done.stdout == "mine.sched@HEAD and mine.sched: nothing changed\n"


def test_a_folder_that_is_gone_is_looked_up_in_what_is_left(repository):
    (repository / "mine.sched").unlink()
    done = jfagen("diff", "no/such/file.sched", "--rev", "HEAD~1..HEAD", cwd=repository)
    assert done.returncode == 2 and "'no/such/file.sched' does not exist in 'HEAD~1'" in done.stderr


def test_files_are_called_as_they_were_given(repository):
    below = repository / "below"
    below.mkdir()
    (below / "mine.sched").write_text(schedule_text("fwd"))
    done = jfagen("diff", "mine.sched", "below/mine.sched", cwd=repository)
    assert done.stdout.startswith("mine.sched -> below/mine.sched\n")
    text, old = schedule_text("fwd"), "rescale[g][i]"
    (below / "mine.sched").write_text(text.replace(old, "rescale[0][i] rescale[1][i]"))
    (below / "other one.sched").write_text(text.replace(old, "rescale[0][i] rescale[1][i-1]"))
    done = jfagen("diff", "below/other one.sched", "below/mine.sched", cwd=repository)
    places = re.findall(r"^  ([-+]) .*\((.*):\d+\)$", done.stdout, re.M)
    assert {("-", "other one.sched"), ("+", "mine.sched")} == set(places)


def test_what_a_range_leaves_out_is_head(repository):
    for given, shown in (("..HEAD~1", "HEAD~1"), ("HEAD~1..", "HEAD"), ("..", "HEAD")):
        done = jfagen("diff", "mine.sched", "--rev", given, cwd=repository)
        first = "HEAD~1" if given.startswith("HEAD") else "HEAD"
        assert done.returncode == 0 and f"mine.sched@{first}" in done.stdout, given
        assert f"mine.sched@{shown}" in done.stdout
        assert ("nothing changed" in done.stdout) is (given == "..")


def test_a_link_is_compared_as_the_file_that_it_leads_to(repository, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for link in (repository / "linked.sched", elsewhere / "mine too.sched"):
        link.symlink_to(repository / "mine.sched")
        done = jfagen("diff", link.name, "--rev", "HEAD~1", cwd=link.parent)
        assert done.returncode == 0 and "a ring of 3 slots -> a ring of 2 slots" in done.stdout


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
    assert "\nof 3 other kernels the schedule changes too\n" in text
    assert "a ring of 2 slots -> a ring of 4 slots" in text and "in one of 8 kernels" in text
    assert content["new_kernels"] == content["gone_kernels"] == []


def test_where_the_first_kernel_changes_it_is_compared(tmp_path):
    content, text, _ = of_kernels(tmp_path, r"(smem q.*depth) 2", r"\1 1 (2 if head_dim 64)")
    assert content["compared"] == "" and len(content["also_changed"]) == 3
    assert "compared:" not in text and "in the first of 8 kernels" in text


def test_another_order_of_the_regions_is_no_change(tmp_path):
    after, text = tmp_path / "after.sched", schedule_text("bwd")
    after.write_text(re.sub(r"(  region [^\n]*\n)(  region [^\n]*\n)", r"\2\1", text))
    assert after.read_text() != text
    done = runner.invoke(app, ["diff", "bwd", str(after)])
    assert done.exit_code == 0 and done.stdout.endswith(": nothing changed\n")


def test_kernels_that_turn_out_to_be_the_same_are_not_counted(tmp_path, monkeypatch):
    """What differs in a program need not differ in its kernel: the next one is looked at."""
    monkeypatch.setattr(Kernel, "plain", property(lambda kernel: object()))
    done = runner.invoke(app, ["diff", "hopper/fwd", "hopper/fwd"])
    assert done.exit_code == 0 and done.stdout == "schedules/hopper/fwd.sched: nothing changed\n"
    content, *_ = of_kernels(tmp_path, *DEEPER)
    assert content["compared"].startswith("the kernel with head_dim 64;")
    assert len(content["also_changed"]) == 5, "those behind it are not looked at"


def test_a_kernel_that_changes_in_comments_only_does_not_hide_another(tmp_path):
    before = tmp_path / "before.sched"
    text = schedule_text("hopper/fwd").replace("m 64 x 2 as g", "m 64 x 1 as g")
    text = text.replace("turn { qk[g][i]  pv[g][i-1] }", "qk[g][i]  pv[g][i-1]")
    before.write_text(text)
    after = tmp_path / "after.sched"
    after.write_text(text.replace("{ load_q[g] }", "{ load_q[0] }"))
    done = runner.invoke(app, ["diff", str(before), str(after)])
    assert done.exit_code == 0 and "0 lines outside comments changed" in done.stdout
    assert "other kernel" not in done.stdout
    after.write_text(re.sub(*DEEPER, after.read_text()))
    done = runner.invoke(app, ["diff", str(before), str(after)])
    assert "compared: the kernel with head_dim 64; the first one is the same" in done.stdout
    assert "a ring of 2 slots -> a ring of 4 slots" in done.stdout


def test_a_demand_that_changes_no_kernel_is_said_of_the_schedule(tmp_path):
    content, text, _ = of_kernels(tmp_path, r"(  reg s\[g\] )", r"  apart { k, v }\n\1")
    assert content["sections"] == [] and len(content["also_changed"]) == 7
    assert "of 7 other kernels the schedule changes too" in text and "no line changed" in text


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
    assert done[1].stdout == "schedules/fwd.sched@HEAD: nothing changed\n"
    (repository / "mine.sched").unlink()
    done = jfagen("diff", "mine.sched", "--rev", "HEAD~1", cwd=repository)
    assert done.returncode == 2 and "there is no schedule `mine.sched`" in done.stderr
