"""`jfagen run`: execute a kernel on the CPU machine and compare it with the reference.

With `--shrink` the first failing run is made as short as possible and saved beside the file, with
`--replay` such a saved run is repeated.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..diagnostics import near_match
from .files import Output, write_all
from .inputs import NoKernelText, check_seeds, check_size, kernel_text, parse_lengths
from .inputs import wrong_call as _wrong_call
from .problems import Asked, check_algorithm, problem_of

if TYPE_CHECKING:
    from ..machine.failure import Failure
    from ..machine.problem import Problem
    from ..machine.shrink import Case, Shrunk
    from ..machine.trial import Result

_POLICY_HELP = (
    "Who goes next: `random`; `late` lets TMA and MMA complete only when no role can run; `at_once`"
    " lets them complete at once; `starve=ROLE` lets that role run only when nothing else can."
)


@dataclass(slots=True)
class _Summary:
    """What all runs of one call came to."""

    runs: int = 0
    right: int = 0
    steps: int = 0
    seconds: float = 0.0
    notes: int = 0
    traces: set[str] = field(default_factory=set)
    worst: Result | None = None

    def add(self, result: Result) -> None:
        self.runs += 1
        self.right += result.right
        self.notes += bool(result.outcome.notes)
        self.steps += result.outcome.steps
        self.seconds += result.outcome.seconds
        self.traces.add(result.outcome.trace)
        if result.outcome.ok and (
            self.worst is None or not result.errors[0].error <= self.worst.errors[0].error
        ):
            self.worst = result


def run(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A schedule, or an emitted .py.", metavar="FILE")],
    lengths: Annotated[
        str, typer.Option(help="Key rows of each sequence, with commas.")
    ] = "0,1,127,128,129,0,300,517",
    queries: Annotated[int, typer.Option(min=1, help="Query rows.")] = 256,
    query_lengths: Annotated[
        str | None,
        typer.Option(help="Query rows of each sequence, where they are packed; else the keys'."),
    ] = None,
    heads: Annotated[int, typer.Option(min=1, help="Heads.")] = 2,
    head_dim: Annotated[
        int | None, typer.Option(min=16, help="Elements of a head; as the kernel says if left out.")
    ] = None,
    sms: Annotated[int, typer.Option(min=1, help="CTAs that run at once.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of inputs and schedule.")] = 0,
    seeds: Annotated[int, typer.Option(min=0, help="Run this many seeds, from --seed on.")] = 0,
    policy: Annotated[str, typer.Option(help=_POLICY_HELP)] = "random",
    rising: Annotated[
        bool, typer.Option("--rising", help="Let the keys grow, so that sums are rescaled.")
    ] = False,
    nan_neighbours: Annotated[
        bool, typer.Option("--nan-neighbours", help="Fill every other sequence with NaN.")
    ] = False,
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink", help="Find the shortest run that fails; save it as NAME.failure.json."
        ),
    ] = False,
    replay: Annotated[
        Path | None,
        typer.Option(help="Repeat a saved failure.", metavar="NAME.failure.json"),
    ] = None,
) -> None:
    """Simulate a kernel on the CPU and compare its results with a float64 reference."""
    if replay is not None:
        _check_replay(context)
        return _replay(_source(file), replay)
    rows = parse_lengths(lengths)
    check_seeds(seed, seeds)
    _check_policy(policy)
    source = _source(file)
    _check_role(source, policy)
    asked = Asked(rows, queries, query_lengths, heads, head_dim, rising)
    try:
        problem = problem_of(_text(source), asked)
    except ImportError as error:
        raise _no_machine(error) from None
    chosen = range(seed, seed + max(seeds, 1))
    cases = [_case(problem, sms, number, policy, nan_neighbours) for number in chosen]
    failing = _run_cases(source, cases)
    if failing is None:
        return None
    if shrink:
        _shrink(file, source, failing)
    raise typer.Exit(1)


def _run_cases(source: str, cases: list[Case]) -> Case | None:
    """Run all cases, print how each ends, and return the first one that fails."""
    console, progress = _console(), Console(stderr=True)
    summary, failing = _Summary(), None
    columns = TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    quiet = not progress.is_terminal
    with Progress(*columns, console=progress, transient=True, disable=quiet) as shown:
        for case in shown.track(cases):
            result = _run_case(source, case)
            summary.add(result)
            if failing is None and not result.right:
                failing = case
            console.print(_line(case.seed, case.policy.text(), result), markup=True)
            _print_reports(console, result)
    _print_summary(console, summary)
    return failing


def _run_case(source: str, case: Case) -> Result:
    from ..machine.simulate import NoSuchEntry

    try:
        return case.run(source)
    except ImportError as error:
        raise _no_machine(error) from None
    except NoSuchEntry as error:
        raise _wrong_call(str(error)) from None


def _case(problem: Problem, sms: int, seed: int, policy: str, nan_neighbours: bool) -> Case:
    from ..machine import parse_policy
    from ..machine.shrink import Case

    return Case(
        problem=problem,
        sms=sms,
        seed=seed,
        policy=parse_policy(policy),
        nan_neighbours=nan_neighbours,
    )


def _shrink(file: str, source: str, case: Case) -> None:
    from ..machine.declared import declared_roles
    from ..machine.shrink import shrink

    text, progress = _text(source), Console(stderr=True, highlight=False, soft_wrap=True)
    roles = [role.name for role in declared_roles(text)]

    with progress.status("shrinking") as status:

        def show(words: str) -> None:
            if progress.is_terminal:
                status.update(f"shrinking: {words}")
            else:
                progress.print(f"shrinking: {words}", markup=False)

        shrunk = shrink(source, case, roles=roles, progress=show)
    if shrunk is not None:
        _print_shrunk(_console(), shrunk)
        _save(file, text, shrunk)


def _print_shrunk(console: Console, shrunk: Shrunk) -> None:
    from ..machine.shrink import count_holds, problem_text
    from ..machine.timeline import timeline_text

    before, result = shrunk.before, shrunk.result
    end = "" if shrunk.complete else "; stopped at the limit, so there may be a shorter one"
    console.print(f"shortest run that fails ({shrunk.runs} runs tried{end}):", markup=False)
    console.print(f"  {problem_text(shrunk.case)}", markup=False)
    console.print(
        f"  {result.outcome.steps} choices of the scheduler, {count_holds(result)} off the default"
        f" order; before: {before.outcome.steps}, {count_holds(before)} off",
        markup=False,
    )
    console.print(f"last events of each role before the {result.failure}:", markup=False)
    console.print(timeline_text(result.outcome.events, result.outcome.reports), markup=False)
    _print_reports(console, result)


def _save(file: str, text: str, shrunk: Shrunk) -> None:
    from ..machine import PolicyName
    from ..machine.failure import Failure, text_digest

    result, case = shrunk.result, shrunk.case
    holds = result.outcome.choices
    policy = replace(case.policy, name=PolicyName.DEFAULT, role="", holds=holds)
    failure = Failure(
        case=replace(case, policy=policy),
        digest=text_digest(text),
        kind=result.failure,
        report="\n".join(report.text() for report in result.outcome.reports),
    )
    # A bundled schedule is named without its folder, which need not be writable.
    name = Path(file)
    path = (name if name.is_file() else Path(name.name)).with_suffix(".failure.json")
    write_all([Output(path=path, text=failure.as_json())])
    _console().print(f"saved {path}; repeat it with --replay {path}", markup=False)


def _check_replay(context: typer.Context) -> None:
    """Refuse what a saved failure decides itself."""
    given = [
        name
        for name in context.params
        if name not in ("file", "replay")
        and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        option = given[0].replace("_", "-")
        raise _wrong_call(f"--{option} and --replay exclude each other: the saved failure says it")


def _replay(source: str, path: Path) -> None:
    from ..machine.failure import text_digest

    failure = _load(path)
    check_seeds(failure.case.seed)
    check_size(failure.case.problem)
    check_algorithm(_text(source))
    result = _run_case(source, failure.case)
    console = _console()
    console.print(_line(failure.case.seed, "replay", result), markup=True)
    _print_reports(console, result)
    same = text_digest(_text(source)) == failure.digest
    since = "the kernel is the same" if same else "the kernel has changed since"
    if not result.failure:
        console.print(f"no longer fails: expected {failure.kind}; {since}", markup=False)
        return
    word = "still fails" if result.failure == failure.kind else "fails in another way"
    reports = "\n".join(report.text() for report in result.outcome.reports)
    report = "the same report" if reports == failure.report else "another report"
    expected = f"{result.failure}, expected {failure.kind}, with {report}"
    console.print(f"{word}: {expected}; {since}", markup=False)
    raise typer.Exit(1)


def _load(path: Path) -> Failure:
    try:
        from ..machine.failure import failure_from_json

        return failure_from_json(path.read_text(encoding="utf-8"))
    except ImportError as error:
        raise _no_machine(error) from None
    except OSError as error:
        raise _wrong_call(f"`{path}`: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise _wrong_call(f"`{path}` is no text") from None
    except ValueError as error:
        raise _wrong_call(f"`{path}` {error}") from None


def _source(file: str) -> str:
    """Return the kernel's path, or its text if a schedule has to be compiled first."""
    if not file.endswith(".py"):
        emit_text = importlib.import_module("jfagen.driver").emit_text
        return str(emit_text(Path(file)))
    if not Path(file).is_file():
        raise _wrong_call(f"there is no file `{file}`")
    try:
        kernel_text(file)
    except NoKernelText as error:
        raise _wrong_call(str(error)) from None
    return file


def _text(source: str) -> str:
    return source if "\n" in source else Path(source).read_text(encoding="utf-8")


def _check_role(source: str, policy: str) -> None:
    """Refuse to starve a role that the text does not declare."""
    from ..machine import parse_policy
    from ..machine.declared import declared_roles

    role = parse_policy(policy).role
    if not role:
        return
    roles = declared_roles(_text(source))
    if any(known.matches(role) for known in roles):
        return
    names = [name for known in roles for name in known.names()]
    near = near_match(role, names)
    advice = f"did you mean `{near}`?" if near else f"the roles are {', '.join(names)}"
    raise _wrong_call(f"no role is called `{role}`: {advice}")


def _check_policy(policy: str) -> None:
    from ..machine import parse_policy

    try:
        parse_policy(policy)
    except ValueError as error:
        raise _wrong_call(str(error)) from None


def _no_machine(error: ImportError) -> typer.Exit:
    from ..toolchain.tools import INSTALL_ORDER

    failed = _wrong_call(f"the CPU machine needs a package that is missing: {error}")
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        f"help: {INSTALL_ORDER}", markup=False
    )
    return failed


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


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
    return "  ".join(error.text() for error in result.errors)


def _print_reports(console: Console, result: Result) -> None:
    for report in result.outcome.reports:
        console.print(report.text(), markup=False)
    for note in result.outcome.notes:
        console.print("[yellow]note[/]: ", end="")
        console.print(note, markup=False)


def _print_summary(console: Console, summary: _Summary) -> None:
    worst = f"; largest errors: {_errors(summary.worst)}" if summary.worst is not None else ""
    notes = f", {summary.notes} with notes" if summary.notes else ""
    console.print(
        f"simulated {summary.runs} runs: {summary.right} right{notes},"
        f" {len(summary.traces)} different traces, {summary.steps} steps,"
        f" {summary.seconds:.2f} s{worst}"
    )
