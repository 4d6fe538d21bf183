"""The hooks for other repositories: each is a command that exists and does what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest
from builders import ROOT, edited, schedule_text

#: The keys of a hook that are used here, and what they may be.
KEYS = {
    "id": r"[a-z-]+",
    "name": r".+",
    "description": r"[a-z].+[^.]",
    "entry": r"jfagen [a-z -]+",
    "language": "python",
    "files": re.escape(r"\.sched$"),
    "require_serial": "true",
}
GOOD = schedule_text("fwd")
UGLY = edited("fwd", ("depth 3", "depth    3"))
BAD = edited("fwd", ("depth 3", "depth 0"))


def hooks():
    """Return the hooks: the file has one list of flat mappings, `key: value` a line."""
    found = []
    for line in (ROOT / ".pre-commit-hooks.yaml").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        start, key, value = re.fullmatch(r"(- |  )([a-z_]+): (\S.*)", line).groups()
        if start == "- ":
            found.append({})
        assert key not in found[-1]
        found[-1][key] = value
    return {hook["id"]: hook for hook in found}


HOOKS = hooks()


def run_hook(id, text, folder):
    """Run a hook as pre-commit does: its entry, then the files, from the root of a repository."""
    (folder / "schedules").mkdir(exist_ok=True)
    (folder / "schedules" / "mine.sched").write_text(text)
    command, *arguments = shlex.split(HOOKS[id]["entry"])
    assert command == "jfagen"
    return subprocess.run(
        [sys.executable, "-m", "jfagen", *arguments, "schedules/mine.sched"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_the_hooks_have_the_keys_of_a_hook():
    assert list(HOOKS) == ["jfagen-fmt", "jfagen-check", "jfagen-build-check"]
    for hook in HOOKS.values():
        for key, value in hook.items():
            assert re.fullmatch(KEYS[key], value), (key, value)
        assert {"id", "name", "entry", "language", "files"} <= set(hook)


def test_fmt_formats_what_is_not_and_refuses_what_is_wrong(tmp_path):
    path = tmp_path / "schedules" / "mine.sched"
    for text in (GOOD, UGLY):
        done = run_hook("jfagen-fmt", text, tmp_path)
        assert done.returncode == 0 and path.read_text() == GOOD
        assert ("formatted" in done.stderr) is (text == UGLY)
    done = run_hook("jfagen-fmt", "kernel x { 3 }\n", tmp_path)
    assert done.returncode == 1 and path.read_text() == "kernel x { 3 }\n"


def test_check_proves_what_is_good_and_refuses_what_is_wrong(tmp_path):
    assert run_hook("jfagen-check", GOOD, tmp_path).returncode == 0
    assert run_hook("jfagen-check", UGLY, tmp_path).returncode == 0
    done = run_hook("jfagen-check", BAD, tmp_path)
    assert done.returncode == 1 and "error[bad-depth]" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["schedules"]


def test_build_check_fails_until_the_kernel_is_built(tmp_path):
    done = run_hook("jfagen-build-check", GOOD, tmp_path)
    command = re.search(r"run `jfagen (.+)`", done.stderr)[1]
    assert done.returncode == 3 and "generated/mine.py is missing" in done.stderr
    subprocess.run(
        [sys.executable, "-m", "jfagen", *shlex.split(command)],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    done = run_hook("jfagen-build-check", GOOD, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    deeper = edited("fwd", ("depth 3", "depth 2"))
    assert run_hook("jfagen-build-check", deeper, tmp_path).returncode == 3
    assert run_hook("jfagen-build-check", BAD, tmp_path).returncode == 1


def test_the_readme_names_only_hooks_that_exist():
    assert set(re.findall(r"- id: (\S+)", (ROOT / "README.md").read_text())) <= set(HOOKS)


@pytest.mark.parametrize("id", HOOKS)
def test_a_hook_takes_the_files_that_it_names(id):
    matches = re.compile(HOOKS[id]["files"]).search
    assert matches("schedules/deep/a.sched") and not matches("a.sched.txt")
    assert not matches("generated/a.py")
