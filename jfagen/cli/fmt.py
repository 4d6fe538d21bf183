"""`jfagen fmt`: schedules in their canonical form."""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ..diagnostics import CompileError, Diagnostic, SourceFile, render_all
from ..syntax import format_schedule
from .files import replace_all
from .streams import colored

_WRONG_SCHEDULE, _WRONG_CALL = 1, 2
_STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Formatted:
    """A file, or standard input, and its canonical text."""

    shown: str
    path: Path | None
    old: bytes
    new: bytes

    @property
    def changes(self) -> bool:
        return self.old != self.new


def fmt_command(
    files: Annotated[
        list[str], typer.Argument(help="Schedules; `-` is standard input.", metavar="FILE...")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a file would change.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Write nothing; print what would change.")
    ] = False,
) -> None:
    """Rewrite schedules in their canonical form: all of them, or none if one is wrong."""
    formatted = _format_all(list(dict.fromkeys(files)))
    changed = [one for one in formatted if one.changes]
    if diff:
        for one in changed:
            typer.echo(_diff(one), nl=False)
    if check:
        for one in changed:
            typer.echo(f"{one.shown} would change", err=True)
        if names := [one.shown for one in changed if one.path is not None]:
            typer.echo(f"run `{shlex.join(['jfagen', 'fmt', *names])}`", err=True)
    if check or diff:
        raise typer.Exit(_WRONG_SCHEDULE if changed else 0)
    try:
        replace_all((one.path, one.new) for one in changed if one.path is not None)
    except OSError as error:
        _refuse(f"cannot write: {_reason(error)}")
    for one in formatted:
        if one.path is None:
            typer.echo(one.new, nl=False)
    for one in changed:
        if one.path is not None:
            typer.echo(f"formatted {one.shown}", err=True)


def _format_all(files: Sequence[str]) -> list[_Formatted]:
    """Return every file formatted, or end the command with all that is wrong with them."""
    formatted: list[_Formatted] = []
    found: list[Diagnostic] = []
    for file in files:
        path = None if file == _STDIN else Path(file)
        data = _read(path)
        shown = "<stdin>" if path is None else file
        try:
            text = format_schedule(SourceFile.from_bytes(data, shown))
        except CompileError as error:
            found.extend(error.diagnostics)
        else:
            formatted.append(_Formatted(shown=shown, path=path, old=data, new=text.encode()))
    if found:
        typer.echo(render_all(found, color=colored(sys.stderr)), err=True)
        raise typer.Exit(_WRONG_SCHEDULE)
    return formatted


def _read(path: Path | None) -> bytes:
    if path is None:
        return sys.stdin.buffer.read()
    try:
        return path.read_bytes()
    except OSError as error:
        _refuse(f"cannot read `{path}`: {_reason(error)}")


def _diff(one: _Formatted) -> str:
    """Return a unified diff, every line of it ended."""
    old, new = (text.decode().splitlines(keepends=True) for text in (one.old, one.new))
    lines = difflib.unified_diff(old, new, fromfile=one.shown, tofile=one.shown)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _refuse(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(_WRONG_CALL)
