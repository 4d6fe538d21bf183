"""The house: budgets, doors, layers, docstrings, and no name of the library outside it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest
from builders import ROOT

from jfagen.algorithm import ALGORITHMS

PACKAGE = sorted((ROOT / "jfagen").rglob("*.py"))
TESTS = sorted((ROOT / "tests").glob("*.py"))
#: Which folders of the package may import a library: one door each.
DOORS = {
    "lark": ("syntax",),
    "lsprotocol": ("editor",),
    "markupsafe": ("report",),
    "matplotlib": ("balance", "bench", "examples"),
    "networkx": ("graph",),
    "jinja2": ("emit", "report"),
    "pygls": ("editor",),
    "pygments": ("report",),
    "resvg_py": ("report",),
    "numpy": ("balance", "machine", "reference.py"),
    "torch": ("bench", "doctor", "examples", "machine", "profile", "runtime"),
    "triton": ("doctor", "machine", "runtime", "toolchain"),
    "greenlet": ("machine",),
    "rich": ("cli",),
    "typer": ("cli",),
}
#: Low to high; a package imports only from those before it. Others stand on top.
LAYERS = [
    ("types", "target", "paths", "diagnostics"),
    ("algorithm", "syntax", "graph"),
    ("semantics",),
    ("planning",),
    ("passes",),
    ("proof",),
    ("emit",),
    ("readback",),
    ("driver",),
    ("explain", "review"),
    ("editor", "report"),
]


def short(path):
    return path.relative_to(ROOT).as_posix()


def functions(path):
    tree = ast.parse(path.read_text())
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.parametrize("path", [*PACKAGE, *TESTS], ids=short)
def test_files_have_at_most_400_lines_and_functions_60(path):
    assert len(path.read_text().splitlines()) <= 400
    for function in functions(path):
        length = function.end_lineno - function.lineno + 1
        assert length <= 60, (function.name, length)


@pytest.mark.parametrize("path", PACKAGE, ids=short)
def test_every_library_has_one_door(path):
    inside = path.relative_to(ROOT / "jfagen").parts[0]
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        for name in names:
            library = name.split(".")[0]
            assert inside in DOORS.get(library, (inside,)), f"{library} in {short(path)}"


def test_imports_point_down():
    height = {name: level for level, names in enumerate(LAYERS) for name in names}
    for path in PACKAGE:
        parts = path.relative_to(ROOT / "jfagen").with_suffix("").parts
        if parts[0] not in height:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            target = (*parts[: len(parts) - node.level], *(node.module or "").split("."))
            if type_checking_only(path, node) or target[0] not in height:
                continue
            assert height[target[0]] <= height[parts[0]], (short(path), target)


def type_checking_only(path, node):
    line = path.read_text().splitlines()[node.lineno - 1]
    return line.startswith("    ") and "TYPE_CHECKING" in path.read_text()


@pytest.mark.parametrize("path", PACKAGE, ids=short)
def test_public_names_have_docstrings_and_nothing_is_left_to_do(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "module"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            # The words stand at the function that the overloads give types to.
            if [ast.unparse(decorator) for decorator in node.decorator_list] == ["overload"]:
                continue
            assert ast.get_docstring(node), node.name
    assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text)


def test_the_compiler_imports_neither_torch_nor_triton():
    code = (
        "import sys; import jfagen, jfagen.driver, jfagen.cli;"
        "print([m for m in ('torch', 'triton', 'numpy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def library_names():
    names = {name for a in ALGORITHMS.values() for op in a.ops for name in (op.name, *op.keeps)}
    values = {value.name for a in ALGORITHMS.values() for value in a.values}
    return names | {name for name in values if len(name) > 1}


@pytest.mark.parametrize(
    "path",
    [
        path
        for folder in ("planning", "passes", "proof", "emit", "graph", "semantics", "explain")
        for path in sorted((ROOT / "jfagen" / folder).rglob("*.py"))
    ]
    + sorted((ROOT / "templates").glob("*.jinja")),
    ids=short,
)
def test_no_op_or_value_of_the_library_is_named_outside_it(path):
    """Docstrings may give examples; code and templates of structure may not know the names."""
    text = path.read_text()
    if path.suffix == ".py":
        text = without_docstrings(text)
    words = set(re.findall(r"[A-Za-z_]+", text))
    #: `out`, `scores` and the like are also plain words.
    assert not words & (library_names() - {"out", "total", "maximum", "store_out"}), short(path)
    assert not words & {algorithm.split(".")[1] for algorithm in ALGORITHMS}


def test_no_algorithm_is_named_where_the_text_is_read():
    for path in sorted((ROOT / "jfagen" / "readback").rglob("*.py")):
        words = set(re.findall(r"[A-Za-z_]+", without_docstrings(path.read_text())))
        assert not words & {algorithm.split(".")[1] for algorithm in ALGORITHMS}, short(path)


def without_docstrings(text):
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
            node.value = ""
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            if isinstance(body[0].value, ast.Constant):
                body[0].value.value = ""
    return ast.unparse(tree)


def test_the_top_level_is_fixed():
    ignored = {"dist", "build"} | {path.name for path in ROOT.glob("*.egg-info")}
    tops = {path.name for path in ROOT.iterdir()} - ignored
    visible = {top for top in tops if not top.startswith(".")}
    assert visible == {
        "pyproject.toml", "jfagen", "schedules", "templates", "generated", "tests", "README.md",
    }  # fmt: skip
