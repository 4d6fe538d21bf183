"""`jfagen run`: execute a kernel on the CPU machine and compare it with the reference."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import track

if TYPE_CHECKING:
    from ..machine.trial import Problem, Result


@dataclass(slots=True)
class _Summary:
    """What all runs of one call came to."""

    runs: int = 0
    right: int = 0
    steps: int = 0
    seconds: float = 0.0
    traces: set[str] = field(default_factory=set)
    worst: Result | None = None

    def add(self, result: Result) -> None:
        self.runs += 1
        self.right += result.right
        self.steps += result.outcome.steps
        self.seconds += result.outcome.seconds
        self.traces.add(result.outcome.trace)
        if result.outcome.ok and (
            self.worst is None or not result.out_error <= self.worst.out_error
        ):
            self.worst = result


def run(
    file: Annotated[str, typer.Argument(help="A schedule, or an emitted .py.", metavar="FILE")],
    lengths: Annotated[
        str, typer.Option(help="Key rows of each sequence, with commas.")
    ] = "0,1,127,128,129,0,300,517",
    queries: Annotated[int, typer.Option(min=1, help="Query rows.")] = 256,
    heads: Annotated[int, typer.Option(min=1, help="Heads.")] = 2,
    head_dim: Annotated[int, typer.Option(min=16, help="Elements of a head.")] = 128,
    sms: Annotated[int, typer.Option(min=1, help="CTAs that run at once.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of inputs and schedule.")] = 0,
    seeds: Annotated[int, typer.Option(min=0, help="Run this many seeds, from --seed on.")] = 0,
    policy: Annotated[str, typer.Option(help="random, late, at_once, or starve=ROLE.")] = "random",
    rising: Annotated[
        bool, typer.Option("--rising", help="Let the keys grow, so that sums are rescaled.")
    ] = False,
    nan_neighbours: Annotated[
        bool, typer.Option("--nan-neighbours", help="Fill every other sequence with NaN.")
    ] = False,
) -> None:
    """Simulate a kernel on the CPU and compare its results with a float64 reference."""
    problem = replace(_problem(lengths, queries, heads, head_dim), rising=rising)
    source = _source(file)
    _check_policy(policy)
    from ..machine.simulate import NoSuchEntry
    from ..machine.trial import run_trial

    console = Console(highlight=False, soft_wrap=True)
    progress = Console(stderr=True)
    chosen = range(seed, seed + max(seeds, 1))
    summary = _Summary()
    for number in track(chosen, "simulating", console=progress, transient=True, disable=seeds < 2):
        try:
            result = run_trial(
                source,
                problem,
                sms=sms,
                seed=number,
                policy=policy,
                nan_neighbours=nan_neighbours,
            )
        except (ImportError, NoSuchEntry) as error:
            raise _wrong_call(str(error)) from None
        summary.add(result)
        console.print(_line(number, policy, result), markup=True)
        _print_reports(console, result)
    _print_summary(console, summary)
    if summary.right < summary.runs:
        raise typer.Exit(1)


def _problem(lengths: str, queries: int, heads: int, head_dim: int) -> Problem:
    try:
        rows = tuple(int(part) for part in lengths.split(","))
    except ValueError:
        raise _wrong_call(f"lengths `{lengths}` are no whole numbers with commas") from None
    if any(row < 0 for row in rows):
        raise _wrong_call(f"lengths `{lengths}` hold a negative number")
    try:
        from ..machine.trial import Problem
    except ImportError as error:
        raise _wrong_call(f"the CPU machine needs a package that is missing: {error}") from None
    return Problem(lengths=rows, queries=queries, heads=heads, head_dim=head_dim)


def _source(file: str) -> str:
    """Return the kernel's path, or its text if a schedule has to be compiled first."""
    if not file.endswith(".py"):
        emit_text = importlib.import_module("jfagen.driver").emit_text
        return str(emit_text(Path(file)))
    if not Path(file).is_file():
        raise _wrong_call(f"there is no file `{file}`")
    return file


def _check_policy(policy: str) -> None:
    from ..machine import parse_policy

    try:
        parse_policy(policy)
    except ValueError as error:
        raise _wrong_call(str(error)) from None


def _wrong_call(message: str) -> typer.Exit:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"error: {message}", markup=False)
    return typer.Exit(2)


def _line(seed: int, policy: str, result: Result) -> str:
    outcome = result.outcome
    if outcome.ok:
        word = "[green]right[/]" if result.right else "[red]wrong[/]"
        facts = _errors(result) + ("  [red]neighbours leak[/]" if result.leak else "")
    else:
        word, facts = f"[red]{outcome.kind}[/]", ""
    return (
        f"seed {seed}  {policy}  {word}  {facts}  {outcome.steps} steps"
        f"  {outcome.seconds:.2f} s simulated"
    )


def _errors(result: Result) -> str:
    from ..machine.trial import LSE_BOUND

    return (
        f"out {result.out_error:.2e} (bound {result.out_bound:.2e})"
        f"  lse {result.lse_error:.2e} (bound {LSE_BOUND:.0e})"
    )


def _print_reports(console: Console, result: Result) -> None:
    for report in result.outcome.reports:
        console.print(report.text(), markup=False)
    for note in result.outcome.notes:
        console.print(f"note: {note}", markup=False)


def _print_summary(console: Console, summary: _Summary) -> None:
    worst = f"; largest errors: {_errors(summary.worst)}" if summary.worst is not None else ""
    console.print(
        f"simulated {summary.runs} runs: {summary.right} right, {len(summary.traces)} different"
        f" traces, {summary.steps} steps, {summary.seconds:.2f} s{worst}"
    )
