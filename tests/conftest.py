"""Golden texts: what people read is kept as files, and changes only through `--update-golden`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write golden files anew")


@dataclass(frozen=True)
class Golden:
    """The golden file of one test, and whether it is to be written."""

    path: Path
    update: bool

    def check(self, text, path=None):
        """Compare `text` with the golden file, that of the test's name if no path is given."""
        path = path or self.path
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if not path.exists():
            pytest.fail(f"{path.name} is missing: write it with `pytest --update-golden`, read it")
        assert text == path.read_text(encoding="utf-8")


@pytest.fixture
def golden(request):
    """The golden file `tests/golden/MODULE/TEST.txt`."""
    name = re.sub(r"\W+", "_", request.node.name.removeprefix("test_")).strip("_")
    module = request.path.stem.removeprefix("test_")
    path = request.path.parent / "golden" / module / f"{name}.txt"
    return Golden(path=path, update=request.config.getoption("--update-golden"))
