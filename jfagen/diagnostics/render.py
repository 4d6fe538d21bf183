"""Findings as text with carets, and as one line each."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from .model import Diagnostic, Label, Severity
from .source import Span

_TAB = "    "  # a tab is shown as four blanks wherever it stands, so that carets line up
#: Columns of a source line that are shown, and of them those before the carets and under them.
_LINE, _BEFORE, _MARKED = 160, 50, 80
_MESSAGE = 800  # characters of a message: more is a name of absurd length
_MOST_SHOWN = 50
_MORE = "\u2026"
_RED, _YELLOW, _BLUE, _CYAN, _BOLD = "31;1", "33;1", "34;1", "36;1", "1"


def render(diagnostic: Diagnostic, *, color: bool = False) -> str:
    """Return the full form: message, place, the line with carets, notes, help."""
    tone = _RED if diagnostic.severity is Severity.ERROR else _YELLOW
    head = _paint(f"{diagnostic.severity}[{diagnostic.id}]", tone, color)
    lines = [head + _paint(f": {_short(diagnostic.message)}", _BOLD, color)]
    lines += _snippet(diagnostic.label, tone, color)
    for note in diagnostic.notes:
        lines.append(f"{_paint('note', _BLUE, color)}: {_short(note.message)}")
        if note.label is not None:
            lines += _snippet(note.label, _BLUE, color)
    for advice in diagnostic.helps:
        lines.append(f"{_paint('help', _CYAN, color)}: {_short(advice)}")
    return "\n".join(lines)


def render_all(diagnostics: Iterable[Diagnostic], *, color: bool = False) -> str:
    """Return the full form of the first findings, an empty line between two, then how many more."""
    found = list(diagnostics)
    shown = [render(diagnostic, color=color) for diagnostic in found[:_MOST_SHOWN]]
    if len(found) > _MOST_SHOWN:
        shown.append(f"and {len(found) - _MOST_SHOWN} more")
    return "\n\n".join(shown)


def render_line(diagnostic: Diagnostic) -> str:
    """Return the concise form: place, severity, id and message on one line."""
    place = diagnostic.label.span.place
    return f"{place}: {diagnostic.severity}[{diagnostic.id}]: {diagnostic.message}"


def _snippet(label: Label, tone: str, color: bool) -> list[str]:
    """Return the place, the source line and the carets under it."""
    span = label.span
    number = str(span.line)
    before, marked, after = _cut(span)
    edge = _paint("|", _BLUE, color)
    margin = " " * len(number)
    carets = "^" * max(_width(marked), 1)
    said = f"{carets} {_short(label.message)}" if label.message else carets
    pointer = " " * _width(before) + _paint(said, tone, color)
    code = f"{before}{marked}{after}"
    return [
        f"{margin}{_paint('-->', _BLUE, color)} {span.place}",
        f"{margin} {edge}",
        f"{_paint(number, _BLUE, color)} {edge} {code}".rstrip(),
        f"{margin} {edge} {pointer}",
    ]


def _cut(span: Span) -> tuple[str, str, str]:
    """Return the first line of a span as shown: before, inside and after the carets."""
    text = span.source.line_text(span.line)
    first = span.column - 1
    last = min(first + span.end - span.start, len(text))
    before, marked, after = text[:first], text[first:last], text[last:]
    if len(text) > _LINE:
        marked = _clip(marked, _MARKED, 0)
        before = _clip(before, 0, max(_BEFORE, _LINE - len(marked) - len(after)))
        after = _clip(after, _LINE - len(before) - len(marked), 0)
    return _shown(before), _shown(marked), _shown(after)


def _clip(text: str, head: int, tail: int) -> str:
    """Return the first and the last characters of a text, an ellipsis for what is between."""
    if len(text) <= head + tail:
        return text
    return text[: max(head - 1, 0)] + _MORE + text[len(text) - max(tail - 1, 0) :]


def _short(message: str) -> str:
    return _clip(message, _MESSAGE // 2, _MESSAGE // 2)


def _shown(text: str) -> str:
    """Return text in which every character has a visible width."""
    return "".join(
        _TAB if character == "\t" else character if character.isprintable() else "\ufffd"
        for character in text
    )


def _width(shown: str) -> int:
    """Return how many terminal columns a shown text takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in shown)
    marks = sum(unicodedata.combining(character) != 0 for character in shown)
    return len(shown) + wide - marks


def _paint(text: str, tone: str, color: bool) -> str:
    return f"\x1b[{tone}m{text}\x1b[0m" if color else text
