"""The wheel: it holds everything the compiler reads, and works without the checkout."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from builders import ROOT, SHIPPED

import jfagen
from jfagen.editor.vscode import vscode_files, vscode_folder

FOLDERS = ("templates", "schedules", "generated")
#: What the package is made of.
KINDS = ("*.py", "*.lark", "*.schema.json", "py.typed")


def run(*arguments, cwd, **environment):
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built without network: hatchling is one of the development tools."""
    directory = tmp_path_factory.mktemp("dist")
    run("hatchling", "build", "-t", "wheel", "-d", str(directory), cwd=ROOT)
    (path,) = directory.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    directory = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return directory


def files_below(folder, *patterns):
    found = {path for pattern in patterns for path in folder.rglob(pattern)}
    return {path.relative_to(folder).as_posix() for path in found}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_wheel_holds_what_lies_beside_the_package(unpacked, folder):
    patterns = ("*.jinja", "*.sched", "*.py")
    expected = files_below(ROOT / folder, *patterns)
    assert expected
    assert files_below(unpacked / "jfagen" / "_data" / folder, *patterns) == expected


def test_the_wheel_holds_the_package_its_grammar_and_its_typing_mark(unpacked):
    packaged = {
        name for name in files_below(unpacked / "jfagen", *KINDS) if not name.startswith("_data/")
    }
    assert packaged == files_below(ROOT / "jfagen", *KINDS)
    assert {"py.typed", "syntax/schedule.lark", "diagnostics/check.schema.json"} <= packaged


def test_the_wheel_holds_nothing_else(unpacked):
    tops = {path.name for path in unpacked.iterdir()}
    assert tops == {"jfagen", f"jfagen-{jfagen.__version__}.dist-info"}
    assert files_below(unpacked, "*.pyc", ".*") == {"jfagen/editor/vscode/.vscodeignore"}


def test_the_wheel_holds_the_extension_for_vs_code(unpacked):
    folder = unpacked / "jfagen" / "editor" / "vscode"
    packaged = {name: (folder / name).read_bytes() for name in files_below(folder, "*.*")}
    assert packaged == {
        name.as_posix(): (vscode_folder() / name).read_bytes() for name in vscode_files()
    }


def test_a_wheel_builds_the_bundled_schedules_without_the_checkout(unpacked, tmp_path):
    where = "import jfagen, pathlib; print(pathlib.Path(jfagen.__file__).parent.parent)"
    code = subprocess.run(
        [sys.executable, "-c", where],
        cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
    )  # fmt: skip
    assert Path(code.stdout.strip()) == unpacked
    run("jfagen", "build", *SHIPPED, cwd=tmp_path, PYTHONPATH=str(unpacked))
    for name in SHIPPED:
        built = tmp_path / "generated" / f"{name}.py"
        assert built.read_bytes() == (ROOT / "generated" / f"{name}.py").read_bytes()


def test_the_version_stands_in_one_place(unpacked):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project and "version" in project["dynamic"]
    metadata = (unpacked / f"jfagen-{jfagen.__version__}.dist-info" / "METADATA").read_text()
    assert re.search(r"^Version: (.*)$", metadata, re.M)[1] == jfagen.__version__
    literal = re.compile(rf"""["']{re.escape(jfagen.__version__)}["']""")
    places = [path for path in (ROOT / "jfagen").rglob("*.py") if literal.search(path.read_text())]
    assert places == [ROOT / "jfagen" / "__init__.py"]


def test_the_command_is_declared(unpacked, tmp_path):
    """What an installer's script of that name does: it imports the function and calls it."""
    entries = configparser.ConfigParser()
    entries.read(unpacked / f"jfagen-{jfagen.__version__}.dist-info" / "entry_points.txt")
    module, function = entries["console_scripts"]["jfagen"].split(":")
    script = f"import sys; sys.argv[0] = 'jfagen'; from {module} import {function}; {function}()"
    done = subprocess.run(
        [sys.executable, "-c", script, "--version"],
        cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert jfagen.__version__ in done.stdout
