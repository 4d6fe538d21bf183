"""`jfagen build`: check, plan, prove and emit kernels."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ..diagnostics import CompileError, Diagnostic
from ..driver import Compiled, compile_all_of, find_schedule
from .files import Output, State, output_path, write_all
from .status import status_block, timing_lines

_WRONG, _WRONG_CALL, _STALE = 1, 2, 3

Files = Annotated[
    list[str],
    typer.Argument(help="Schedules: paths, or names of bundled ones.", metavar="FILE..."),
]
Timings = Annotated[bool, typer.Option("--timings", help="Print the time of every pass.")]


def build(
    files: Files,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where kernels are written.")
    ] = Path("generated"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a kernel is stale.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that were edited by hand.")
    ] = False,
    timings: Timings = False,
) -> None:
    """Compile schedules to kernels: all of them, or none if one is wrong."""
    kernels = _compile_all(files)
    compiled = [one for _, one in kernels]
    outputs = [
        Output(
            path=output_path(one.program.source.path, output, one.instance.suffix),
            text=one.kernel.text,
        )
        for one in compiled
    ]
    _refuse_twins(compiled, outputs)
    if check:
        _check_fresh([name for name, _ in kernels], outputs, output)
        return
    _refuse_edited(outputs, force=force)
    written = {one.path for one in write_all(outputs)}
    for one, out in zip(compiled, outputs, strict=True):
        typer.echo(status_block(one, out.path, written=out.path in written))
        if timings:
            typer.echo(timing_lines(one))


def _compile_all(files: list[str]) -> list[tuple[str, Compiled]]:
    """Return every kernel with its file; CompileError with the findings of all that are wrong."""
    compiled: list[tuple[str, Compiled]] = []
    found: list[Diagnostic] = []
    for name, path in {name: find_schedule(name) for name in files}.items():
        try:
            compiled += [(name, one) for one in compile_all_of(path)]
        except CompileError as error:
            found += error.diagnostics
    if found:
        raise CompileError(found)
    return compiled


def _check_fresh(files: list[str], outputs: list[Output], directory: Path) -> None:
    """Name every kernel that is not what its schedule says, and the command that renews them."""
    pairs = zip(files, outputs, strict=True)
    stale = {out: name for name, out in pairs if out.state is not State.CURRENT}
    for out in stale:
        typer.echo(f"{out.path} is {out.state}", err=True)
    if stale:
        where = [] if directory == Path("generated") else ["-o", str(directory)]
        edited = any(out.state in (State.EDITED, State.FOREIGN) for out in stale)
        words = [*dict.fromkeys(stale.values()), *where, *(["--force"] if edited else [])]
        typer.echo(f"run `jfagen build {shlex.join(words)}`", err=True)
        raise typer.Exit(_STALE)


def _refuse_twins(compiled: list[Compiled], outputs: list[Output]) -> None:
    """Two schedules must not be written to one file."""
    seen: dict[Path, Compiled] = {}
    for one, out in zip(compiled, outputs, strict=True):
        if out.path in seen:
            typer.echo(f"error: two of the schedules would both become {out.path}", err=True)
            typer.echo("help: build them one by one, each with its own `-o DIR`", err=True)
            raise typer.Exit(_WRONG_CALL)
        seen[out.path] = one


def _refuse_edited(outputs: list[Output], *, force: bool) -> None:
    refused = [out for out in outputs if out.state in (State.EDITED, State.FOREIGN)]
    if force or not refused:
        return
    for out in refused:
        typer.echo(f"error: {out.path} is {out.state}", err=True)
    typer.echo("help: keep your copy elsewhere, or build with `--force` to replace it", err=True)
    raise typer.Exit(_WRONG)
