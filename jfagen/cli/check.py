"""`jfagen check`: parse, plan and prove schedules, or prove the text of kernels."""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..diagnostics import CompileError, as_dict, render_all
from ..proof import verdict
from ..readback import Finding, ReadbackError, prove_text
from ..readback.kernel_text import parse_kernel
from ..readback.rules import ORDER_RULES, tiles
from .build import Files, Timings, compile_all
from .inputs import NoKernelText, kernel_text
from .status import status_block, timing_lines
from .streams import colored, say

_WRONG, _WRONG_CALL = 1, 2
#: Columns of a line that are shown.
_COLUMNS = 160
_NO_KERNEL = "not-an-emitted-kernel"
_SCHEDULE_LINE = re.compile(r"#.*\((\S+\.sched:\d+)\)")


class Format(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"


def check(
    files: Files,
    format: Annotated[Format, typer.Option(help="How findings are printed.")] = Format.TEXT,
    timings: Timings = False,
) -> None:
    """Prove schedules, or the text of kernels (.py), edited by hand or not."""
    kernels = [Path(name) for name in files if name.endswith(".py")]
    schedules = [name for name in files if not name.endswith(".py")]
    found = [row for path in kernels for row in _check_text(path, shown=format is Format.TEXT)]
    try:
        compiled = compile_all(schedules)
    except CompileError as error:
        if format is Format.TEXT:
            say(render_all(error.diagnostics, color=colored(sys.stderr)))
        compiled, found = [], found + [as_dict(one) for one in error.diagnostics]
    if format is Format.JSON:
        say(json.dumps(found, indent=2), sys.stdout)
    for one in compiled if format is Format.TEXT else ():
        typer.echo(status_block(one))
        if timings:
            typer.echo(timing_lines(one))
    if found:
        no_kernel = any(row["id"] == _NO_KERNEL for row in found)
        raise typer.Exit(_WRONG_CALL if no_kernel else _WRONG)


def _check_text(path: Path, *, shown: bool) -> list[dict[str, object]]:
    """Return the findings on one kernel's text; print them, or what was proved."""
    text, findings = _findings(path)
    lines = text.split("\n")
    if shown and not findings:
        typer.echo(path.as_posix())
        for rule in (*ORDER_RULES, tiles):
            found = verdict(rule)
            typer.echo(f"  {rule.ID.ljust(12)}{found.word.ljust(10)}  {found.what}")
    for finding in findings if shown else ():
        typer.echo(f"error[{finding.rule}]: {finding.message}", err=True)
        for line in filter(None, dict.fromkeys(finding.lines)):
            place = f" ({where})" if (where := _schedule_place(lines, line)) else ""
            typer.echo(f" --> {path.as_posix()}:{line}{place}", err=True)
            typer.echo(f"  {line} | {_clipped(lines[line - 1].strip())}", err=True)
    return [
        {
            "id": finding.rule,
            "message": finding.message,
            "path": path.as_posix(),
            "lines": list(finding.lines),
        }
        for finding in findings
    ]


def _clipped(line: str) -> str:
    return line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 1]}\u2026"


def _findings(path: Path) -> tuple[str, list[Finding]]:
    """Return the text and the findings on it: one only, if it cannot be a kernel."""
    try:
        text = kernel_text(path)
    except NoKernelText as error:
        return "", [Finding(_NO_KERNEL, (), str(error))]
    try:
        parse_kernel(text)
    except ReadbackError as error:
        return text, [Finding(_NO_KERNEL, (error.line,), error.message)]
    except Exception as error:  # what the text does when it is loaded
        return text, [Finding(_NO_KERNEL, (), f"`{path}`: {type(error).__name__}: {error}")]
    try:
        return text, prove_text(text)
    except ReadbackError as error:
        return text, [Finding("unreadable", (error.line,), error.message)]


def _schedule_place(lines: list[str], line: int) -> str:
    """Return the schedule's line that the nearest comment above names."""
    for text in reversed(lines[:line]):
        if found := _SCHEDULE_LINE.search(text):
            return found[1]
    return ""
