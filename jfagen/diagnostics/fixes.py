"""Helps that an editor can carry out: the words that everybody reads, with their edits beside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .source import Span
from .words import near_match

_BLANKS = " \t"


@dataclass(frozen=True, slots=True)
class Edit:
    """What stands in `span` becomes `text`; an empty span inserts."""

    span: Span
    text: str


class Fix(str):
    """A help that says exactly what to write: a `str` in messages, edits for an editor.

    Attributes:
        edits: of one file, none over another, none depending on another having been made.
    """

    __slots__ = ("edits",)
    edits: tuple[Edit, ...]

    def __new__(cls, words: str, *edits: Edit) -> Fix:
        """Return the help that reads `words` and is carried out by `edits`."""
        fix = super().__new__(cls, words)
        fix.edits = edits
        return fix

    def __reduce__(self) -> tuple[type[Fix], tuple[object, ...]]:
        """Return how to build an equal one, edits included."""
        return Fix, (str(self), *self.edits)


def write(span: Span, text: str) -> Fix:
    """Return "write `text`": in place of what `span` covers."""
    return Fix(f"write `{text}`", Edit(span, text))


def drop(span: Span) -> Fix:
    """Return "drop `...`": what `span` covers goes, with the blanks that part it from its line."""
    return Fix(f"drop `{span.text}`", removal(span))


def removal(span: Span) -> Edit:
    """Return the edit that takes out a span and its blanks; its whole lines if nothing is left."""
    text = span.source.text
    start, end = span.start, span.end
    while start > 0 and text[start - 1] in _BLANKS:
        start -= 1
    ends_line = end == len(text) or text[end] in "\r\n"
    if ends_line and end < len(text) and (start == 0 or text[start - 1] == "\n"):
        end = text.index("\n", end) + 1 if "\n" in text[end:] else len(text)
    elif not ends_line and (start == 0 or text[start - 1] == "\n"):
        start = span.start
        while end < len(text) and text[end] in _BLANKS:
            end += 1
    return Edit(span.source.span(start, end), "")


def meant(span: Span, known: Iterable[str]) -> tuple[str, ...]:
    """Return "did you mean `...`?" for the near match of what `span` covers, or nothing."""
    match = near_match(span.text, known)
    return (Fix(f"did you mean `{match}`?", Edit(span, match)),) if match is not None else ()


def carried_out(fix: Fix) -> str:
    """Return the text of the fix's file after its edits."""
    (source,) = {edit.span.source for edit in fix.edits}
    text = source.text
    for edit in sorted(fix.edits, key=lambda one: one.span.start, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text
