"""Generated files: current, deterministic, readable, and named from the schedule."""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys

import pytest
from builders import (
    ROOT,
    SHIPPED,
    STRANGERS,
    compiled,
    compiled_instances,
    compiled_text,
    schedule_text,
)

from jfagen.emit import text_digest, written_digest


@pytest.mark.parametrize("name", SHIPPED)
def test_the_committed_kernel_is_what_the_schedule_gives(name):
    assert (ROOT / "generated" / f"{name}.py").read_text() == compiled(name).kernel.text


def test_every_generated_file_has_its_schedule():
    found = {
        path.relative_to(ROOT / "generated").with_suffix("").as_posix()
        for path in (ROOT / "generated").rglob("*.py")
    }
    made = {f"{name}{one.instance.suffix}" for name in SHIPPED for one in compiled_instances(name)}
    assert found == made


@pytest.mark.parametrize("name", ["hopper/fwd", "bwd"])
def test_every_instance_is_committed_as_the_schedule_gives_it(name):
    for one in compiled_instances(name):
        path = ROOT / "generated" / f"{name}{one.instance.suffix}.py"
        assert path.read_text() == one.kernel.text
    assert len(compiled_instances(name)) == 8
    assert len({one.kernel.digest for one in compiled_instances(name)}) == 8


@pytest.mark.parametrize("name", [*SHIPPED, *STRANGERS])
def test_kernels_are_short_narrow_and_clean(name):
    for one in compiled_instances(name) if name in SHIPPED else (compiled(name),):
        text = one.kernel.text
        lines = text.splitlines()
        ast.parse(text)
        assert len(lines) < (640 if name in SHIPPED and '"attention.forward"' in text else 860)
        assert max(map(len, lines)) <= 120
        assert not [line for line in lines if line != line.rstrip()]
        assert "\n\n\n\n" not in text and text.endswith("\n") and not text.endswith("\n\n")


@pytest.mark.parametrize("name", [*SHIPPED, *STRANGERS])
def test_no_name_is_assigned_and_never_read(name):
    """Dead code would show as a name that only stands on the left."""
    tree = ast.parse(compiled(name).kernel.text)
    stored, loaded = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (loaded if isinstance(node.ctx, ast.Load) else stored).add(node.id)
    unread = (
        stored
        - loaded
        - {"_", "SIGNATURE", "KERNEL", "ALGORITHM", "TARGET", "BUDGET", "ORDER", "TILE_ROWS"}
    )
    assert not unread
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    assert functions - {"forward", "backward"} <= loaded


def test_the_digest_recognises_an_edit_by_hand():
    text = compiled("fwd").kernel.text
    assert written_digest(text) == text_digest(text)
    edit = text.replace("step_phase", "phase_of_step", 1)
    assert written_digest(edit) != text_digest(edit)
    assert written_digest("print()\n") is None


def test_ten_hash_seeds_and_two_directories_give_the_same_bytes(tmp_path):
    texts = set()
    for seed in range(10):
        where = tmp_path / f"d{seed % 2}"
        where.mkdir(exist_ok=True)
        (where / "fwd.sched").write_text(schedule_text("fwd"))
        subprocess.run(
            [sys.executable, "-m", "jfagen", "build", "fwd.sched", "-o", f"out{seed}"],
            cwd=where, check=True, capture_output=True,
            env={"PYTHONHASHSEED": str(seed), "PATH": "", "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        texts.add((where / f"out{seed}" / "fwd.py").read_bytes())
    assert len(texts) == 1


RENAMED = ("correction", "softmax", "mma", "load", "store", "compute", "kv", "scores")


@pytest.mark.parametrize("name", SHIPPED)
def test_renaming_roles_and_rings_changes_only_those_words(name):
    """Nothing in the compiler knows what a schedule calls its roles, rings and regions."""
    words = renaming(name)
    schedule = rename_schedule(schedule_text(name), words)
    kernel = compiled_text(schedule, f"schedules/{name}.sched").kernel.text
    back = {new: old for old, new in words.items()} | {
        new.upper(): old.upper() for old, new in words.items()
    }
    pattern = "|".join(sorted(back, key=len, reverse=True))
    restored = re.sub(pattern, lambda match: back[match.group()], kernel)
    original = compiled(name).kernel.text
    assert without_layout(restored) == without_layout(original)


def renaming(name):
    rng = random.Random(name)
    text = schedule_text(name)
    letters = "bcdfghjklmnpqrstvwxz"
    return {
        word: "".join(rng.choice(letters) for _ in range(6))
        for word in RENAMED
        if re.search(rf"(role|smem|region)\s+{word}\b", text)
    }


def rename_schedule(text, words):
    """Rename roles, rings and regions; ops may have the same names and keep them."""
    for old, new in words.items():
        text = re.sub(rf"(role|smem|region)(\s+){old}\b", rf"\1\2{new}", text)
        text = re.sub(rf"^(\s+){old}(\[g\])?(\s+\{{)", rf"\1{new}\2\3", text, flags=re.M)
        text = re.sub(rf"asked by {old}\b", f"asked by {new}", text)
    return text


def without_layout(text):
    """Blanks that align tables depend on the length of names; digests on everything."""
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.split("\n")]
    return [line for line in lines if not line.startswith("# digest")]
