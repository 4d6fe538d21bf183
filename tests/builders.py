"""Shared by tests: schedules as text, small edits of them, and what they compile to."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jfagen.diagnostics import SourceFile
from jfagen.driver import Compiled, compile_instances, compile_source

ROOT = Path(__file__).parent.parent
SHIPPED = sorted(
    (path.relative_to(ROOT / "schedules").with_suffix("").as_posix())
    for path in (ROOT / "schedules").rglob("*.sched")
)
STRANGERS = sorted(path.stem for path in (ROOT / "tests" / "schedules").glob("*.sched"))


def schedule_text(name: str) -> str:
    """Return the text of a shipped schedule, or of one of the tests' own."""
    shipped = ROOT / "schedules" / f"{name}.sched"
    own = ROOT / "tests" / "schedules" / f"{name}.sched"
    return (shipped if shipped.exists() else own).read_text()


def edited(name: str, *edits: tuple[str, str]) -> str:
    """Return a schedule's text with replacements, each of which must apply."""
    text = schedule_text(name)
    for old, new in edits:
        assert old in text, f"`{old}` is not in {name}"
        text = text.replace(old, new)
    return text


@cache
def compiled_text(text: str, path: str = "schedules/edited.sched") -> Compiled:
    """Compile a schedule's text."""
    return compile_source(SourceFile(path=path, text=text))


@cache
def compiled_instances(name: str) -> tuple[Compiled, ...]:
    """Compile every instance of a shipped schedule."""
    path = f"schedules/{name}.sched"
    return compile_instances(SourceFile(path=path, text=schedule_text(name)))


def compiled(name: str, *edits: tuple[str, str]) -> Compiled:
    """Compile a schedule with replacements."""
    return compiled_text(edited(name, *edits), f"schedules/{name}.sched")
