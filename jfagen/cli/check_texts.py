"""What `jfagen check` finds in the text of a kernel, and how it is said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from ..comments import place_in, schedule_of
from ..diagnostics import CompileError, Diagnostic, Label, Note, SourceFile
from ..driver import NoSuchSchedule, compile_all_of, find_schedule
from ..readback import Finding, ReadbackError, compare, prove_text, verify_text
from ..readback.kernel_text import parse_kernel
from ..readback.rules import ORDER_RULES, tiles
from .inputs import NoKernelText, kernel_text

#: The finding on a file that is no kernel at all.
NO_KERNEL = "not-an-emitted-kernel"
#: Columns of a line that are shown.
_COLUMNS = 160
#: What the rules look at in a text: runs of a few lengths, where a schedule is proved for all.
_LOOKED_AT = "enumerated"


@dataclass(frozen=True, slots=True)
class CheckedText:
    """A kernel's text and the findings on it."""

    path: Path
    text: str
    findings: list[Finding]

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The findings as those on a schedule are: with the first line as the place."""
        source = SourceFile(path=self.path.as_posix(), text=self.text)
        lines = self.text.split("\n")
        return [_diagnostic(source, lines, finding) for finding in self.findings]

    def show(self) -> None:
        """Print the findings with their lines, or what was proved."""
        if not self.findings:
            self._show_proof()
        lines = self.text.split("\n")
        for finding in self.findings:
            typer.echo(f"error[{finding.rule}]: {finding.message}", err=True)
            for line in filter(None, dict.fromkeys(finding.lines)):
                place = f" ({where})" if (where := _schedule_place(lines, line)) else ""
                typer.echo(f" --> {self.path.as_posix()}:{line}{place}", err=True)
                typer.echo(f"  {line} | {_clipped(lines[line - 1].strip())}", err=True)

    def _show_proof(self) -> None:
        typer.echo(self.path.as_posix())
        for rule in (*ORDER_RULES, tiles):
            typer.echo(f"  {rule.ID.ljust(12)}{_LOOKED_AT}  {rule.PROVES}")
        origin = _origin(self.path, self.text)
        word, what = (
            (_LOOKED_AT, f"the text does what `{origin.as_posix()}` says, action by action")
            if origin
            else ("not checked", "the text names no schedule that is here")
        )
        typer.echo(f"  {compare.ID.ljust(12)}{word}  {what}")


def check_text(path: Path) -> CheckedText:
    """Return the text and the findings on it: one only, if it cannot be a kernel."""
    try:
        text = kernel_text(path)
    except NoKernelText as error:
        return CheckedText(path, "", [Finding(NO_KERNEL, (), str(error))])
    return CheckedText(path, text, _findings(path, text))


def _findings(path: Path, text: str) -> list[Finding]:
    try:
        parse_kernel(text)
    except ReadbackError as error:
        return [Finding(NO_KERNEL, (error.line,), error.message)]
    except Exception as error:  # what the text does when it is loaded
        return [Finding(NO_KERNEL, (), f"`{path}`: {type(error).__name__}: {error}")]
    try:
        return prove_text(text) or _departures(path, text)
    except ReadbackError as error:
        return [Finding("unreadable", (error.line,), error.message)]


def _departures(path: Path, text: str) -> list[Finding]:
    """Return where a text departs from the schedule that its first line names.

    Values that are never written, bytes and columns are only known from there.
    """
    origin = _origin(path, text)
    if origin is None:
        return []
    try:
        instances = compile_all_of(origin)
    except CompileError:
        return [Finding(compare.ID, (1,), f"`{origin.as_posix()}`, its schedule, is refused")]
    kernel = parse_kernel(text).kernel
    one = next((one for one in instances if one.program.name == kernel), instances[0])
    found = verify_text(one.plan, one.placement, one.sync, text)
    said = f"; `{origin.as_posix()}` is what the first line names: without it the text stands alone"
    return [Finding(one.rule, one.lines, one.message + said) for one in found]


def _origin(path: Path, text: str) -> Path | None:
    """Return the schedule that the text names: beside it, in the working folder, or bundled."""
    said = schedule_of(text)
    if said is None:
        return None
    name = Path(said)
    for folder in (path.parent, path.parent.parent, Path()):
        if (folder / name).is_file():
            return folder / name
    try:
        return find_schedule(name.as_posix().removeprefix("schedules/").removesuffix(".sched"))
    except NoSuchSchedule:
        return None


def _diagnostic(source: SourceFile, lines: list[str], finding: Finding) -> Diagnostic:
    """Return a finding with its first line as the place, the others as notes."""
    labels = [
        Label(span=source.line_span(line), message=_schedule_place(lines, line))
        for line in filter(None, dict.fromkeys(finding.lines))
    ] or [Label(span=source.span(0, 0))]
    return Diagnostic(
        id=finding.rule,
        message=finding.message,
        label=labels[0],
        notes=tuple(Note(message="and here", label=label) for label in labels[1:]),
    )


def _schedule_place(lines: list[str], line: int) -> str:
    """Return the schedule's line that the nearest comment above names."""
    for text in reversed(lines[:line]):
        if place := place_in(text):
            return place
    return ""


def _clipped(line: str) -> str:
    return line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 1]}\u2026"
