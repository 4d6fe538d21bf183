"""The two texts as lines of marked words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from ..diagnostics import SourceFile
from ..syntax import read
from ..syntax.names import Kind, names_in
from ..syntax.tokens import Kind as PieceKind
from ..syntax.tokens import pieces
from .links import Links

#: What a name is -> its class in the style sheet.
_NAMES = {
    Kind.ROLE: "nc",
    Kind.BUFFER: "nv",
    Kind.VALUE: "nv",
    Kind.REGION: "nn",
    Kind.OP: "nf",
    Kind.SYMBOL: "nb",
    Kind.KERNEL: "nc",
    Kind.ALGORITHM: "nn",
    Kind.WALK: "nb",
}
_PIECES = {PieceKind.COMMENT: "c1", PieceKind.NUMBER: "mi", PieceKind.WORD: "k"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a text.

    Attributes:
        number: from 1.
        marked: its words.
        source: line of the schedule that it belongs to; 0 for none.
        targets: first lines of the kernel's blocks that come from it.
    """

    number: int
    marked: Markup
    source: int
    targets: tuple[int, ...] = ()


def schedule_lines(source: SourceFile, links: Links) -> tuple[Line, ...]:
    """Return the schedule's lines, each with where the kernel has what comes from it."""
    marked = "".join(_marked(source)).split("\n")
    marked = marked[:-1] if not marked[-1] else marked
    return tuple(
        Line(number, Markup(text), number, links.starts.get(number, ()))
        for number, text in enumerate(marked, 1)
    )


def kernel_lines(text: str, links: Links) -> tuple[Line, ...]:
    """Return the kernel's lines, each with the line of the schedule that it comes from."""
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    marked = highlight(text, lexer, HtmlFormatter(nowrap=True)).rstrip("\n").split("\n")
    return tuple(
        Line(number, Markup(line), links.source_of.get(number, 0))
        for number, line in enumerate(marked, 1)
    )


def _marked(source: SourceFile) -> Iterator[str]:
    """Yield the schedule's text with its words in spans; no span goes over a line's end."""
    names = {one.span.start: one for one in names_in(read(source).tree, source)}
    end = 0
    for piece in pieces(source.text):
        yield str(escape(source.text[end : piece.start]))
        name = names.get(piece.start)
        style = _NAMES[name.kind] if name else _PIECES.get(piece.kind, "")
        words = str(escape(piece.text))
        yield f'<span class="{style}">{words}</span>' if style else words
        end = piece.end
    yield str(escape(source.text[end:]))
