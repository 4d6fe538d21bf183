"""`jfagen fmt`: schedules in their canonical form."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ..diagnostics import CompileError, Diagnostic, SourceFile, render_all
from ..syntax import format_schedule

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
            typer.echo(f"run `jfagen fmt {' '.join(names)}`", err=True)
    if check or diff:
        raise typer.Exit(_WRONG_SCHEDULE if changed else 0)
    _write_all([one for one in changed if one.path is not None])
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
        color = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        typer.echo(render_all(found, color=color), err=True)
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


def _write_all(changed: Sequence[_Formatted]) -> None:
    """Replace every file; none is replaced before the new text of each is on the disk."""
    pending: list[tuple[Path, Path]] = []
    try:
        for one in changed:
            if one.path is not None:
                target = one.path.resolve()
                handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
                pending.append((Path(name), target))
                with os.fdopen(handle, "wb") as file:
                    file.write(one.new)
                shutil.copymode(target, name)
        for temporary, target in pending:
            temporary.replace(target)
    except OSError as error:
        _refuse(f"cannot write: {_reason(error)}")
    finally:
        for temporary, _ in pending:
            temporary.unlink(missing_ok=True)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _refuse(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(_WRONG_CALL)
