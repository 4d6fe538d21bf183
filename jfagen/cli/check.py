"""`jfagen check`: parse, plan and prove; nothing is written."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated

import typer

from ..diagnostics import CompileError, as_dict
from .build import Files, Timings, compile_all
from .status import status_block, timing_lines

_WRONG, _WRONG_CALL = 1, 2


class Format(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"


def check(
    files: Files,
    format: Annotated[Format, typer.Option(help="How findings are printed.")] = Format.TEXT,
    timings: Timings = False,
) -> None:
    """Parse, plan and prove schedules; diagnostics go to standard error."""
    emitted = [name for name in files if name.endswith(".py")]
    if emitted:
        typer.echo(f"error: checking emitted text (`{emitted[0]}`) is not built yet", err=True)
        typer.echo("help: `jfagen run` executes it, `jfagen check` takes schedules", err=True)
        raise typer.Exit(_WRONG_CALL)
    try:
        compiled = compile_all(files)
    except CompileError as error:
        if format is Format.TEXT:
            raise
        json.dump([as_dict(found) for found in error.diagnostics], sys.stdout, indent=2)
        sys.stdout.write("\n")
        raise typer.Exit(_WRONG) from None
    if format is Format.JSON:
        typer.echo("[]")
        return
    for one in compiled:
        typer.echo(status_block(one))
        if timings:
            typer.echo(timing_lines(one))
