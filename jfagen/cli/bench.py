"""`jfagen bench`: measured times of ours and others' attention on this machine's GPU."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from ..bench.interleave import first_line
from ..bench.providers import PROVIDERS
from ..bench.records import Dtype
from ..bench.report import Report, as_json, is_wrong
from ..bench.request import Progress, Request
from ..bench.shapes import SHAPES, Direction
from .bench_table import closing_lines, head_lines, list_lines, reason_lines, result_table
from .choice import chosen
from .files import Output, unwritable, write_all
from .inputs import MOST_SEED, wrong_call
from .streams import colored

_WRONG = 1
_LEAST_WIDTH = 130
_NO_GPU_HELP = (
    "it needs a GPU that the kernels are for and a CUDA build of torch; "
    "without one, `jfagen run` simulates and `jfagen bench --list` lists"
)


def bench(
    shapes: Annotated[
        str, typer.Option(metavar="NAME,...", help="Which shapes; `bq-*` matches several.")
    ] = "*",
    providers: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="Whose kernels; all that are here if left out."),
    ] = "*",
    seeds: Annotated[
        str, typer.Option(metavar="N,...", help="Seeds that lengths are drawn with.")
    ] = "1",
    direction: Annotated[Direction, typer.Option("--pass", help="What is timed.")] = (
        Direction.FORWARD
    ),
    rounds: Annotated[
        int, typer.Option(min=1, max=10_000, help="Rounds in which all take turns.")
    ] = 20,
    dtype: Annotated[Dtype, typer.Option(help="Element type of q, k, v and out.")] = Dtype.BF16,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write everything that was found there.")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw a bar chart there.")
    ] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="List shapes and providers, with what is missing.")
    ] = False,
) -> None:
    """Time attention on this GPU: all providers in one run, in turn, each checked first."""
    chosen_shapes = chosen("shape", shapes, {shape.name: shape for shape in SHAPES})
    chosen_providers = chosen("provider", providers, {one.name: one for one in PROVIDERS})
    chosen_seeds = _seeds(seeds)
    _check_outputs(json, png)
    if show_list:
        missing = {one.name: one.available() for one in PROVIDERS}
        typer.echo("\n".join(list_lines(missing, _why_no_gpu())))
        return
    if (reason := _why_no_gpu()) is not None:
        failed = wrong_call(f"nothing can be measured here: {reason}")
        typer.echo(f"help: {_NO_GPU_HELP}", err=True)
        raise failed
    request = Request(
        shapes=chosen_shapes,
        providers=chosen_providers,
        seeds=chosen_seeds,
        direction=direction,
        rounds=rounds,
        dtype=dtype,
    )
    report = _measured(request)
    _write(report, json, png)
    if is_wrong(report):
        raise typer.Exit(_WRONG)


def _measured(request: Request) -> Report:
    """Measure, print what is found, and return it."""
    from ..bench.device import cuda_stand, this_device
    from ..bench.run import make_head, run

    device = this_device()
    head = make_head(request, device)
    if len(head.missing) == len(request.providers):
        for name, reason in head.missing.items():
            typer.echo(f"{name}: {reason}", err=True)
        raise wrong_call("none of these providers is available here")
    console = _console()
    _print(console, head_lines(head))
    with _progress(len(request.shapes) * len(request.seeds)) as progress:
        report = run(request, head, device, cuda_stand(device, rounds=request.rounds), progress)
    console.print(result_table(report))
    _print(console, [*reason_lines(report.rows), *closing_lines(report)])
    if report.broken_off:
        typer.echo(f"error: broken off at {report.broken_off}", err=True)
    return report


def _write(report: Report, json: Path | None, png: Path | None) -> None:
    if json is not None:
        write_all([Output(path=json, text=as_json(report) + "\n")])
        typer.echo(f"wrote {json}", err=True)
    if png is not None:
        from ..bench.chart import chart

        png.write_bytes(chart(report))
        typer.echo(f"wrote {png}", err=True)


@contextmanager
def _progress(cases: int) -> Iterator[Progress]:
    """Yield what is told of every step: a spinner on a terminal, otherwise a line for each case."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        yield _lines_of(cases)
        return
    with console.status("") as status:
        yield lambda number, case, words: status.update(f"{number} of {cases}  {case}: {words}")


def _lines_of(cases: int) -> Progress:
    last = 0

    def say(number: int, case: str, words: str) -> None:
        nonlocal last
        if number != last:
            typer.echo(f"{number} of {cases}  {case}", err=True)
        last = number

    return say


def _why_no_gpu() -> str | None:
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    try:
        from ..bench.device import why_no_gpu
    except Exception as error:  # whatever a broken torch does when it is imported
        return f"torch cannot be imported: {first_line(error)}"
    return why_no_gpu()


def _seeds(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("[0-9]+", part) for part in parts):
        raise wrong_call(f"seeds `{text}` are no whole numbers with commas")
    seeds = tuple(dict.fromkeys(int(part) for part in parts))
    if max(seeds) > MOST_SEED:
        raise wrong_call(f"the seed {max(seeds)} is more than {MOST_SEED}")
    return seeds


def _check_outputs(json: Path | None, png: Path | None) -> None:
    """End the call if a file cannot be written, before anything is measured."""
    for path in filter(None, (json, png)):
        if (why := unwritable(path)) is not None:
            raise wrong_call(f"`{path}` cannot be written: {why}")
    if png is not None and importlib.util.find_spec("matplotlib") is None:
        failed = wrong_call("`--png` needs matplotlib, which is not installed")
        typer.echo("help: `pip install matplotlib`", err=True)
        raise failed


def _console() -> Console:
    """Return standard output; no escape codes at all where colours are unwanted."""
    system: Literal["auto"] | None = "auto" if colored(sys.stdout) else None
    console = Console(highlight=False, soft_wrap=True, color_system=system)
    # A figure that is cut off is worth less than a line that is broken.
    console.width = max(console.width, _LEAST_WIDTH)
    return console


def _print(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(line, markup=False)
