"""`jfagen profile`: what a kernel does with the hardware, and the schedule's part in it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from ..bench.records import Dtype
from ..bench.shapes import SHAPES, Direction
from ..profile import Report, Request, as_json, profile
from ..profile.session import Say
from ..profile.subjects import archs_of
from ..toolchain import Arch
from ..toolchain.report import finding_lines
from .choice import chosen
from .files import Output, unwritable, write_all
from .inputs import MOST_SEED, wrong_call
from .profile_table import block_table, block_title, closing_lines, head_lines, timing_table
from .streams import colored

_WRONG = 1
_LEAST_WIDTH = 150
_TIMEOUT_SECONDS = 300.0


def profile_command(
    shapes: Annotated[
        str, typer.Option(metavar="NAME,...", help="Which shapes of `bench`; `bq-*` for several.")
    ] = "bq-512-4k-s50",
    direction: Annotated[Direction, typer.Option("--pass", help="Whose kernels.")] = (
        Direction.FORWARD
    ),
    dtype: Annotated[Dtype, typer.Option(help="Element type of q, k, v and out.")] = Dtype.BF16,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Seed that lengths are drawn with.")
    ] = 1,
    ncu: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Nsight Compute's program; looked for if left out."),
    ] = None,
    arch: Annotated[
        Arch | None, typer.Option(help="The GPU's own if left out; without a GPU, all.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=1.0, metavar="SECONDS", help="How long each process may take.")
    ] = _TIMEOUT_SECONDS,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write everything that was found there.")
    ] = None,
) -> None:
    """Read a kernel's counters with ncu, and name the part of the schedule behind each figure."""
    request = Request(
        shapes=chosen("shape", shapes, {shape.name: shape for shape in SHAPES}),
        direction=direction,
        dtype=dtype,
        seed=seed,
        ncu=ncu,
        arch=arch,
        timeout_seconds=timeout,
    )
    _check(request, json)
    with _progress() as say:
        report = profile(request, say)
    _show(report)
    if json is not None:
        write_all([Output(path=json, text=as_json(report) + "\n")])
        typer.echo(f"wrote {json}", err=True)
    if report.is_empty and not report.failed:
        raise wrong_call("nothing is known of these kernels here")
    if report.is_wrong:
        raise typer.Exit(_WRONG)


def _check(request: Request, json: Path | None) -> None:
    """End the call if it cannot be, before anything is started."""
    if request.ncu is not None and not request.ncu.is_file():
        failed = wrong_call(f"there is no file `{request.ncu}`")
        typer.echo("help: leave out `--ncu`, and it is looked for", err=True)
        raise failed
    known = archs_of(request.direction)
    if request.arch is not None and request.arch not in known:
        failed = wrong_call(f"there is no kernel of the {request.direction} for {request.arch}")
        typer.echo(f"help: there are kernels for {', '.join(known)}", err=True)
        raise failed
    if json is not None and (why := unwritable(json)) is not None:
        raise wrong_call(f"`{json}` cannot be written: {why}")


def _show(report: Report) -> None:
    """Print the tables, and to standard error what the compiler and the kernels object to."""
    console = _console()
    for line in head_lines(report):
        console.print(line, markup=False)
    for block in report.blocks:
        console.print()
        console.print(block_title(block), markup=False)
        console.print(block_table(block))
    if report.timings:
        console.print()
        console.print(timing_table(report))
    for line in closing_lines(report):
        console.print(line, markup=False)
    for shape, why in report.failed.items():
        typer.echo(f"error: {shape}: {why}", err=True)
    objections = [line for _, finding in report.findings for line in finding_lines(finding)]
    for line in dict.fromkeys(objections):
        typer.echo(line, err=True)


@contextlib.contextmanager
def _progress() -> Iterator[Say]:
    """Yield what is told of every step: a spinner on a terminal, otherwise a line for each."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        yield lambda words: typer.echo(words, err=True)
        return
    with console.status("") as status:
        yield status.update


def _console() -> Console:
    """Return standard output; no escape codes at all where colours are unwanted."""
    system: Literal["auto"] | None = "auto" if colored(sys.stdout) else None
    console = Console(highlight=False, soft_wrap=True, color_system=system)
    # A figure that is cut off is worth less than a line that is broken.
    console.width = max(console.width, _LEAST_WIDTH)
    return console
