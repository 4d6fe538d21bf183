"""A text and all that a glance tells of it: names, the checked program, findings. Milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..algorithm import ALGORITHMS, Algorithm
from ..diagnostics import CompileError, Diagnostic, Note, SourceFile
from ..semantics import check
from ..semantics.instances import instances
from ..semantics.program import Program
from ..syntax import Reading, read
from ..syntax.names import Occurrence, names_in
from ..syntax.tokens import Kind as PieceKind
from ..syntax.tokens import Piece, pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What is known of a text without planning it.

    Attributes:
        reading: what the parser made of it.
        pieces: its words, numbers and signs, comments left out.
        names: every name in what could be read.
        program: of the first kernel, if every check passes.
        diagnostics: what the parser found, or else what the checks of any kernel found.
    """

    source: SourceFile
    reading: Reading
    pieces: tuple[Piece, ...]
    names: tuple[Occurrence, ...]
    program: Program | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def algorithm(self) -> Algorithm | None:
        """Return the algorithm that the text names, checked or not."""
        schedule = self.reading.schedule
        named = schedule.algorithm.text if schedule and schedule.algorithm else None
        if named is None:
            named = next((one.text for one in self.pieces if one.text in ALGORITHMS), "")
        return ALGORITHMS.get(named)

    def name_at(self, offset: int) -> Occurrence | None:
        """Return the name that covers `offset` or ends there."""
        return next(
            (one for one in self.names if one.span.start <= offset <= one.span.end),
            None,
        )

    def word_at(self, offset: int) -> Piece | None:
        """Return the word that covers `offset` or ends there, name or not."""
        return next(
            (
                one
                for one in self.pieces
                if one.start <= offset <= one.end and one.kind is PieceKind.WORD
            ),
            None,
        )

    def named(self, name: str) -> Occurrence | None:
        """Return where something called `name` is introduced, whatever it is."""
        return next((one for one in self.names if one.text == name and one.declares), None)


def look(source: SourceFile) -> Document:
    """Return what is known of a text at once; never raises for what the text says."""
    reading = read(source)
    program, found = _checked(source, reading)
    words = (one for one in pieces(source.text) if one.kind is not PieceKind.COMMENT)
    return Document(
        source=source,
        reading=reading,
        pieces=tuple(words),
        names=names_in(reading.tree, source),
        program=program,
        diagnostics=reading.diagnostics or found,
    )


def _checked(source: SourceFile, reading: Reading) -> tuple[Program | None, tuple[Diagnostic, ...]]:
    """Return the first program and what is wrong with the first kernel that is refused."""
    if reading.schedule is None or reading.diagnostics:
        return None, ()
    program = None
    for instance in instances(reading.schedule):
        try:
            checked = check(reading.schedule, source, instance)
        except CompileError as error:
            return None, tuple(_said_of(found, instance.differs) for found in error.diagnostics)
        program = program or checked
    return program, ()


def _said_of(found: Diagnostic, differs: str) -> Diagnostic:
    """Return a finding that says which kernel it is of, where it is not the first."""
    if not differs:
        return found
    return replace(found, notes=(Note(message=f"in the kernel with {differs}"), *found.notes))
