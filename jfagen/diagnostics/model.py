"""What a finding is: data only; `render` turns it into text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from .source import Span


class Severity(StrEnum):
    """How much a finding matters: only an error stops the compiler."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A place in the source and what is said beside its carets (may be empty)."""

    span: Span
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A second sentence of a finding, with its own place where it has one."""

    message: str
    label: Label | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding.

    Attributes:
        id: A word such as `unknown-word`: stable, greppable, explained by `jfagen explain`.
        message: Stands alone on a narrow terminal: lower case, no final stop, names in backticks.
        label: The narrowest place that is wrong.
        severity: Whether it stops the compiler.
        notes: Further facts, each with its own place or none.
        helps: Advice: what to write instead; a `Fix` where an editor can write it.
    """

    id: str
    message: str
    label: Label
    severity: Severity = Severity.ERROR
    notes: tuple[Note, ...] = ()
    helps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A finding, and its file for whoever reads it elsewhere.

    Attributes:
        diagnostic: the finding.
        path: below the working folder, with forward slashes; absolute if it is not below.
    """

    diagnostic: Diagnostic
    path: str


class CompileError(Exception):
    """The schedule is wrong: carries every finding, in order of their places."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(
            f"{found.label.span.place}: {found.severity}[{found.id}]: {found.message}"
            for found in self.diagnostics
        )


class Reporter:
    """Collects every finding of a pass, so that one run shows them all."""

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}

    def report(
        self,
        id: str,
        message: str,
        span: Span,
        label: str = "",
        *,
        notes: Sequence[Note] = (),
        helps: Sequence[str] = (),
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Add a finding at `span`; `label` is the text beside the carets."""
        self.add(
            Diagnostic(
                id=id,
                message=message,
                label=Label(span=span, message=label),
                severity=severity,
                notes=tuple(notes),
                helps=tuple(helps),
            )
        )

    def add(self, diagnostic: Diagnostic) -> None:
        """Add a finding that is already built; an equal one is kept once."""
        self._found.setdefault(diagnostic)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Every finding so far, in order of file and place; ties in order of report."""
        return tuple(sorted(self._found, key=_place))

    def has_errors(self) -> bool:
        """Whether anything was found that stops the compiler."""
        return any(found.severity is Severity.ERROR for found in self._found)

    def raise_if_any(self) -> None:
        """Raise every finding, warnings included, if one of them is an error."""
        if self.has_errors():
            raise CompileError(self.diagnostics)


def _place(diagnostic: Diagnostic) -> tuple[str, int, int]:
    span = diagnostic.label.span
    return span.source.path, span.start, span.end
