"""The canonical form of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ..diagnostics import SourceFile
from .grammar import parse_tree
from .layout import Layout, Row, layout_of
from .parser import parse
from .tokens import Kind, Piece

_WIDTH = 100
_INDENT = 2
_CONTINUATION = 4


def format_schedule(source: SourceFile) -> str:
    """Return the text of `source` in its canonical form; raise `CompileError` if it is wrong.

    Two blanks indent a level. An item stands on a line of its own, and so does each role's block in
    a loop. A block that the author wrote on one line stays on one if it fits 100 columns, otherwise
    every statement gets a line; in a block that the author broke, the lines end where the author
    ended them. Two blanks part statements, one parts words. Empty lines are kept, one at most.

    So that diffs stay small, only neighbours are aligned, without an empty line between them: the
    values of `algorithm` and `target`, the braces of roles and of one-line blocks, the colons of
    buffers (a line that declares several stands apart), and comments behind code.

    Comments stay where they are: behind the same word, or alone before the same one.
    Formatting twice gives what formatting once gave, and the meaning is that of the source.
    """
    parse(source)
    layout = layout_of(source.text, parse_tree(source.text))
    lines = list(_Writer(source.text, layout).lines())
    end = "\r\n" if "\r\n" in source.text else "\n"
    return "".join(f"{text}{end}" for text in _texts(_aligned(lines)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line of the result.

    Attributes:
        indent: Columns before the code.
        code: The code, its indentation included; empty before a comment on a line of its own.
        comment: The comment, or nothing.
        blank: Whether an empty line stands before it.
        row: What kind of line it is for alignment.
        mark: The column before which blanks may be added.
    """

    indent: int
    code: str
    comment: str
    blank: bool
    row: Row | None
    mark: int | None


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The line that is being written."""

    indent: int
    blank: bool
    code: str = ""
    comment: str = ""
    columns: dict[int, int] = field(default_factory=dict)


class _Writer:
    """Writes the pieces of a text as lines, not aligned yet."""

    def __init__(self, text: str, layout: Layout) -> None:
        self.text = text
        self.layout = layout
        self.closing = {end: start for start, end in layout.blocks.items()}
        self.ends = self._inline_ends()
        self.too_long: set[int] = set()
        self.open: list[int] = []

    def lines(self) -> Iterator[_Line]:
        """Yield the lines in order."""
        draft = _Draft(indent=0, blank=False)
        before: Piece | None = None
        for number, piece in enumerate(self.layout.pieces):
            if piece.start in self.closing:
                self.open.pop()
            if before is not None and self._breaks(before, piece, number, draft):
                yield self._finished(draft)
                draft = self._next_line(draft, before, piece)
            if piece.kind is Kind.COMMENT:
                draft.comment = piece.text
            else:
                blanks = "" if not draft.code or before is None else " " * self._gap(before, piece)
                draft.code += blanks
                draft.columns[piece.start] = draft.indent + len(draft.code)
                draft.code += piece.text
            if piece.start in self.layout.blocks:
                self._open(piece, draft)
            before = piece
        yield self._finished(draft)

    # -- where lines end

    def _newlines(self, before: Piece, piece: Piece) -> int:
        return self.text.count("\n", before.end, piece.start)

    def _inline_ends(self) -> dict[int, int]:
        """Return the column after each piece if all the text stood on one line."""
        ends: dict[int, int] = {}
        column = 0
        before: Piece | None = None
        for piece in self.layout.pieces:
            if piece.kind is not Kind.COMMENT:
                column += len(piece.text) + (self._gap(before, piece) if before else 0)
                ends[piece.start] = column
                before = piece
        return ends

    def _open(self, brace: Piece, draft: _Draft) -> None:
        """Enter a block; one that would not fit on the line has a line for every statement."""
        self.open.append(brace.start)
        width = self.ends[self.layout.blocks[brace.start]] - self.ends[brace.start]
        fits = draft.indent + len(draft.code) + width <= _WIDTH
        if width > 1 and not fits and brace.start not in self.layout.broken:
            self.too_long.add(brace.start)

    def _is_broken(self, block: int) -> bool:
        return block in self.layout.broken or block in self.too_long

    def _breaks(self, before: Piece, piece: Piece, number: int, draft: _Draft) -> bool:
        """Whether a line ends between two pieces."""
        if before.kind is Kind.COMMENT:
            return True
        if piece.kind is Kind.COMMENT:
            return self._newlines(before, piece) > 0
        if piece.start in self.layout.items:
            return True
        if before.start in self.layout.blocks:
            return self._is_broken(before.start)
        if piece.start in self.closing:
            return self._is_broken(self.closing[piece.start])
        if piece.start in self.layout.statements and self._is_broken(self.open[-1]):
            width = draft.indent + len(draft.code) + 2 + self._statement_width(number)
            own_line = self._newlines(before, piece) > 0 or self.open[-1] in self.too_long
            return own_line or width > _WIDTH
        return False

    def _statement_width(self, number: int) -> int:
        """Return the columns from a statement's start to the next statement or brace."""
        pieces, layout = self.layout.pieces, self.layout
        last = number
        while (piece := pieces[last + 1]).kind is not Kind.COMMENT:
            if piece.start in layout.statements or piece.start in self.closing:
                break
            last += 1
        first = pieces[number]
        return self.ends[pieces[last].start] - self.ends[first.start] + len(first.text)

    def _next_line(self, draft: _Draft, before: Piece, piece: Piece) -> _Draft:
        indent = len(self.open) * _INDENT
        inner = piece.start in self.layout.inner
        opened, closes = draft.code.endswith("{"), piece.start in self.closing
        blank = self._newlines(before, piece) > 1 and not (inner or opened or closes)
        return _Draft(indent=indent + (_CONTINUATION if inner else 0), blank=blank)

    # -- blanks between pieces

    def _gap(self, before: Piece, piece: Piece) -> int:
        """Return how many blanks stand between two pieces of one line."""
        blocks = self.layout.blocks
        if before.start in blocks or piece.start in self.closing:
            return 0 if before.start in blocks and piece.start in self.closing else 1
        if piece.start in self.layout.statements or piece.start in self.layout.phrases:
            return 2
        if piece.start in blocks:
            return 1
        if piece.text in _TIGHT_BEFORE or before.text in _TIGHT_AFTER:
            return 0
        return 1

    def _finished(self, draft: _Draft) -> _Line:
        columns = draft.columns
        first = next(iter(columns), None)
        row, aligned = self.layout.rows.get(first, _NO_ROW) if first is not None else _NO_ROW
        whole = [b for b in columns if self.layout.blocks.get(b) in columns]
        if row in (Row.ROLE, Row.BLOCK) and aligned not in whole:
            row = None
        code = " " * draft.indent + draft.code if draft.code else ""
        return _Line(
            indent=draft.indent,
            code=code,
            comment=draft.comment,
            blank=draft.blank,
            row=row,
            mark=columns.get(aligned) if aligned is not None and row is not None else None,
        )


_NO_ROW: tuple[Row | None, int | None] = (None, None)
_TIGHT_BEFORE = frozenset({",", "]", ")", "[", "..", "+", "-", "/", "}"})
_TIGHT_AFTER = frozenset({"[", "(", "..", "+", "-", "/", "{"})


def _aligned(lines: list[_Line]) -> list[_Line]:
    """Return the lines with their rows and then their comments aligned."""
    result = list(lines)
    for run in _runs(result, lambda line: line.row):
        marks = [mark for i in run if (mark := result[i].mark) is not None]
        for i in run:
            line = result[i]
            if line.mark is not None:
                blanks = " " * (max(marks) - line.mark)
                code = line.code[: line.mark] + blanks + line.code[line.mark :]
                result[i] = replace(line, code=code)
    for run in _runs(result, lambda line: bool(line.code and line.comment) or None):
        width = max(len(result[i].code) for i in run)
        for i in run:
            result[i] = replace(result[i], code=result[i].code.ljust(width))
    return result


def _runs(lines: list[_Line], key: Callable[[_Line], object]) -> list[list[int]]:
    """Return the neighbours that share a key and an indentation; None is no key.

    Comments on lines of their own do not part neighbours, empty lines do.
    """
    runs: list[list[int]] = []
    last: object = None
    for number, line in enumerate(lines):
        if not line.code and not line.blank:
            continue
        this = (key(line), line.indent) if key(line) is not None else None
        if this is not None and this == last and not line.blank:
            runs[-1].append(number)
        elif this is not None:
            runs.append([number])
        last = this
    return runs


def _texts(lines: list[_Line]) -> Iterator[str]:
    for line in lines:
        if line.blank:
            yield ""
        if not line.code:
            yield " " * line.indent + line.comment
        elif line.comment:
            yield f"{line.code}  {line.comment}"
        else:
            yield line.code
