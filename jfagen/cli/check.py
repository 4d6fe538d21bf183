"""`jfagen check`: parse, plan and prove schedules, or prove the text of kernels."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from ..diagnostics import CompileError, Found, findings_document, render_all, sarif_log
from ..driver import Compiled, compile_all_of, find_schedule
from ..explain.rules import rule_words
from .build import Files, Timings
from .check_texts import NO_KERNEL, CheckedText, check_text
from .status import status_block, timing_lines
from .streams import colored, say

_WRONG, _WRONG_CALL = 1, 2


class Format(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def check(
    files: Files,
    format: Annotated[Format, typer.Option(help="How findings are printed.")] = Format.TEXT,
    timings: Timings = False,
) -> None:
    """Prove schedules, or the text of kernels (.py), edited by hand or not."""
    named = list(dict.fromkeys(files))
    schedules = [find_schedule(name) for name in named if not name.endswith(".py")]
    texts = [check_text(Path(name)) for name in named if name.endswith(".py")]
    compiled, refused = _compile_each(schedules)
    found = [Found(one, _given(text.path)) for text in texts for one in text.diagnostics]
    found += refused
    match format:
        case Format.TEXT:
            _show(texts, compiled, refused, timings=timings)
        case Format.JSON:
            say(json.dumps(findings_document(found), indent=2), sys.stdout)
        case Format.SARIF:
            log = sarif_log(found, root=Path(), version=__version__, words_of=rule_words)
            say(json.dumps(log, indent=2), sys.stdout)
    if found:
        no_kernel = any(one.diagnostic.id == NO_KERNEL for one in found)
        raise typer.Exit(_WRONG_CALL if no_kernel else _WRONG)


def _compile_each(paths: Sequence[Path]) -> tuple[list[Compiled], list[Found]]:
    """Return what became of the schedules: every kernel, and every finding."""
    compiled: list[Compiled] = []
    found: list[Found] = []
    for path in paths:
        try:
            compiled += compile_all_of(path)
        except CompileError as error:
            found += [Found(one, _given(path)) for one in error.diagnostics]
    return compiled, found


def _show(
    texts: Sequence[CheckedText],
    compiled: Sequence[Compiled],
    refused: Sequence[Found],
    *,
    timings: bool,
) -> None:
    """Print what was found, and what was proved if no schedule is wrong."""
    for text in texts:
        text.show()
    if refused:
        say(render_all([one.diagnostic for one in refused], color=colored(sys.stderr)))
        return
    for one in compiled:
        typer.echo(status_block(one))
        if timings:
            typer.echo(timing_lines(one))


def _given(path: Path) -> str:
    """Return a path from the working folder, as whoever reads the findings needs it."""
    # Links stay as they were given: `resolve` would follow them.
    full, here = Path(os.path.abspath(path)), Path.cwd()  # noqa: PTH100
    return (full.relative_to(here) if full.is_relative_to(here) else full).as_posix()
