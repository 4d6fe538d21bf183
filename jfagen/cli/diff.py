"""`jfagen diff`: what changed between two schedules, in words, in figures and in the kernel."""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from enum import StrEnum
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer

from ..diagnostics import CompileError, Diagnostic, SourceFile
from ..driver import NoSuchSchedule, find_schedule, shown_path
from ..review import Comparison, Facts, compare, facts_of
from ..review.forms import as_json, as_markdown, as_text
from ..review.other_kernels import as_offered, with_others
from ..review.revision import NoSuchRevision, source_at
from ..review.versions import (
    Kernel,
    Key,
    choose,
    compiled_under,
    kernels_of,
    neutral_name,
    under_own_name,
)
from .compile import fail, progress
from .inputs import wrong_call


class Format(StrEnum):
    """How the comparison is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


def diff(
    before: Annotated[
        str, typer.Argument(help="A schedule; the one before, if there are two.", metavar="A")
    ],
    after: Annotated[
        str | None,
        typer.Argument(help="The schedule after it; A today if left out.", metavar="B"),
    ] = None,
    rev: Annotated[
        str | None,
        typer.Option(
            "--rev",
            metavar="REV[..REV]",
            help="Compare A as it was at a revision of git with A today, or at a second one; "
            "HEAD if there is no B.",
        ),
    ] = None,
    compile: Annotated[
        bool,
        typer.Option("--compile", help="Compile both kernels too, and compare what is measured."),
    ] = False,
    format: Annotated[Format, typer.Option(help="What is printed.")] = Format.TEXT,
) -> None:
    """Say what changed between two schedules: roles, buffers, barriers, figures, kernel lines."""
    gc.disable()  # what is made here stays to the end; a tenth of the time goes into looking
    try:
        found = _found(*_sources(before, after, rev), compile)
    finally:
        gc.enable()
    print_as = {Format.TEXT: as_text, Format.MARKDOWN: as_markdown, Format.JSON: as_json}
    typer.echo(print_as[format](found).rstrip("\n"))


def _sources(before: str, after: str | None, rev: str | None) -> tuple[SourceFile, SourceFile]:
    """Return the two texts, named apart."""
    if after is not None and rev is not None:
        raise wrong_call("give a second schedule or `--rev`, not both")
    if after is not None:
        first, second = (find_schedule(name) for name in (before, after))
        shown = (_title(first), _title(second))
        if shown[0] == shown[1] and first.resolve() != second.resolve():
            shown = (str(first), str(second))
        return SourceFile.from_path(first, shown[0]), SourceFile.from_path(second, shown[1])
    path = _file_of(before, rev)
    old, dots, new = (rev or "").partition("..")
    if new.startswith("."):
        ended = wrong_call("`--rev` takes two dots: the file as it was at both is compared")
        typer.echo(f"help: write `--rev {old}..{new.lstrip('.')}`", err=True)
        raise ended
    old, new = old or "HEAD", new or "HEAD"
    try:
        was = source_at(path, old, f"{_title(path)}@{old}")
        if dots:
            return was, source_at(path, new, f"{_title(path)}@{new}")
    except NoSuchRevision as error:
        ended = wrong_call(error.message)
        typer.echo("help: name a second schedule, or a revision that has this file", err=True)
        raise ended from None
    return was, SourceFile.from_path(path, _title(path))


def _title(path: Path) -> str:
    """Return how a file is called: as it was given, but never with a folder of this machine."""
    shown = shown_path(path)
    return path.as_posix() if shown == path.name and not path.is_absolute() else shown


def _file_of(name: str, rev: str | None) -> Path:
    """Return the file that a name means; it may be gone if only revisions are compared."""
    try:
        return find_schedule(name)
    except NoSuchSchedule:
        if rev and ".." in rev:
            return Path(name)
        raise


def _found(before: SourceFile, after: SourceFile, measure: bool) -> Comparison:
    """Compare what two texts make, both under one name: comments name the file."""
    name = neutral_name(after.path)
    kernels = _both_kernels(before, after, name)
    chosen, same = choose(*kernels), set[Key]()
    in_comments: Comparison | None = None
    while chosen.differ:
        plain = _suffix(kernels[0], chosen.before) != _suffix(kernels[1], chosen.after)
        jobs = ((before, name, chosen.before, plain), (after, name, chosen.after, plain))
        facts = _both_facts(*jobs)
        found = compare(*facts)
        if not found.only_comments or chosen.key is None:
            if measure:
                found = compare(*facts, _both_measured(*facts))
            return with_others(found, chosen)
        # The schedule says it in another way: another kernel may differ for all that.
        if in_comments is None and not found.same:
            in_comments = with_others(found, replace(chosen, also_changed=()))
        same.add(chosen.key)
        chosen = choose(*kernels, same)
    if in_comments is not None:
        return in_comments
    after_it = _facts(after, name, chosen.after, False)
    if not isinstance(after_it, Facts):
        raise CompileError(after_it)
    before_it = as_offered(after_it, list(kernels[0].values())[chosen.before], before.path)
    return with_others(compare(before_it, after_it), chosen)


def _suffix(kernels: dict[Key, Kernel], number: int) -> str:
    return list(kernels.values())[number].instance.suffix


def _both_kernels(
    before: SourceFile, after: SourceFile, name: str
) -> tuple[dict[Key, Kernel], dict[Key, Kernel]]:
    """Check all kernels of both texts, once where they are equal."""
    found: list[dict[Key, Kernel]] = []
    wrong: list[Diagnostic] = []
    for source in (before, after) if before.text != after.text else (after,):
        try:
            found.append(kernels_of(source, name))
        except CompileError as error:
            wrong += error.diagnostics
    if wrong:
        raise CompileError(wrong)
    return found[0], found[-1]


#: A text, the name under which it is compiled, which kernel, and whether under a plain name.
_Job = tuple[SourceFile, str, int, bool]


def _both_facts(before: _Job, after: _Job) -> tuple[Facts, Facts]:
    """Compile both, one of them in a process of its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("fork")) as pool:
        other = pool.submit(_facts, *before)
        mine = _facts(*after)
        theirs = other.result()
    wrong = [found for made in (theirs, mine) if not isinstance(made, Facts) for found in made]
    if isinstance(theirs, Facts) and isinstance(mine, Facts):
        return theirs, mine
    raise CompileError(wrong)


def _facts(source: SourceFile, name: str, number: int, plain: bool) -> Facts | list[Diagnostic]:
    """Return the facts of a kernel, or why there are none."""
    try:
        compiled = compiled_under(source, name, number, plain)
        return under_own_name(facts_of(compiled, source.path), name)
    except CompileError as error:
        return list(error.diagnostics)


def _both_measured(before: Facts, after: Facts) -> tuple[dict[str, int], dict[str, int]]:
    """Compile both kernels at once, each in a process of its own as ever."""
    from ..review.measured import measured_figures
    from ..toolchain import CompileFailed, ToolchainMissing, compile_text

    def measured(one: Facts) -> dict[str, int]:
        return measured_figures(compile_text(one.text))

    try:
        with progress("compiling both kernels"), ThreadPoolExecutor(max_workers=2) as pool:
            first, second = pool.map(measured, (before, after))
            return first, second
    except (ToolchainMissing, CompileFailed) as error:
        code = 2 if isinstance(error, ToolchainMissing) else 1
        fail([error.finding], code)
