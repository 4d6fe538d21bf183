"""Helps that an editor can carry out: the words that everybody reads, with their edits beside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .source import Span
from .words import near_match

_BLANKS = " \t"
_INDENT = "  "
#: What may be aligned with the lines beside it, and the blanks that part it at least.
_ALIGNED = {":": 1, "{": 1, "#": 2}


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


@dataclass(frozen=True, slots=True)
class Counted:
    """A declaration, and the number in it that a help may change; None where none is written."""

    whole: Span
    number: Span | None


# ---- Writing -----------------------------------------------------------------------------------


def put(words: str, span: Span, text: str) -> Fix:
    """Return the help `words`: `text` in place of what `span` covers.

    What is aligned behind it stays in its column, as far as there are blanks.
    """
    line = span.source.text[span.end :].partition("\n")[0]
    blanks = len(line) - len(line.lstrip(_BLANKS))
    least = _ALIGNED.get(line[blanks : blanks + 1], blanks)
    if blanks > least:
        kept = max(blanks + len(span.text) - len(text), least)
        span, text = span.source.span(span.start, span.end + blanks), text + " " * kept
    return Fix(words, Edit(span, text))


def write(span: Span, text: str) -> Fix:
    """Return "write `text`": in place of what `span` covers."""
    return put(f"write `{text}`", span, text)


def only_choice(words: str, span: Span, texts: Sequence[str]) -> str:
    """Return the help `words` on what may stand at `span`: a fix if only one text may."""
    return put(words, span, texts[0]) if len(texts) == 1 else words


def meant(span: Span, known: Iterable[str]) -> tuple[str, ...]:
    """Return "did you mean `...`?" for the near match of what `span` covers, or nothing."""
    match = near_match(span.text, known)
    return (put(f"did you mean `{match}`?", span, match),) if match is not None else ()


def count(words: str, place: Counted | None, word: str, number: int) -> str:
    """Return the help `words` on the number that follows `word` in a declaration."""
    if place is None:
        return words
    if place.number is not None:
        return put(words, place.number, str(number))
    return Fix(words, _behind(place.whole, f"{_INDENT}{word} {number}"))


# ---- Leaving out -------------------------------------------------------------------------------


def drop(words: str, span: Span) -> Fix:
    """Return the help `words`: what `span` covers goes, with the blanks that part it."""
    return Fix(words, removal(span))


def without(words: str, item: Span, items: Sequence[Span]) -> Fix:
    """Return the help `words`: one of several items goes, with the comma that parts it."""
    place = items.index(item)
    start, end = item.start, items[1].start
    if place:
        start, end = items[place - 1].end, item.end
    return Fix(words, Edit(item.source.span(start, end), ""))


def phrase(word: str, value: Span) -> Span:
    """Return the place of `word value`, where by the grammar `word` stands before the value."""
    before = value.source.text[: value.start]
    code = re.sub("#.*", lambda comment: " " * len(comment[0]), before)
    return value.source.span(code.rindex(word), value.end)


def removal(span: Span) -> Edit:
    """Return the edit that takes out a span and its blanks; its whole lines if nothing is left."""
    text = span.source.text
    start, end = span.start, span.end
    while start > 0 and text[start - 1] in _BLANKS:
        start -= 1
    ends_line = end == len(text) or text[end] in "\r\n"
    begins_line = start == 0 or text[start - 1] == "\n"
    if ends_line and begins_line:
        end = text.index("\n", end) + 1 if "\n" in text[end:] else len(text)
        end += text[:start].endswith("\n\n") and text[end : end + 1] == "\n"
    elif not ends_line and (begins_line or text[start - 1] in "{("):
        while end < len(text) and text[end] in _BLANKS:
            end += 1
        start = start if text[end : end + 1] in ("}", ")") else span.start
    return Edit(span.source.span(start, end), "")


# ---- Adding and moving -------------------------------------------------------------------------


def below(words: str, span: Span, line: str) -> str:
    """Return the help `words`: a line below the one that ends with what `span` covers.

    Behind a brace the line stands one level deeper. Without edits if more code follows the span.
    """
    text = span.source.text
    end = text.find("\n", span.end)
    rest = text[span.end : max(end, span.end)].partition("#")[0].strip()
    if end < 0 or rest not in ("", "{"):
        return words
    indent = _indent(text, span.start) + (_INDENT if rest else "")
    name, colon, kind = line.partition(" :")
    if colon and ":" in span.text:  # declarations of buffers are aligned
        name = name.ljust(len(span.text.partition(":")[0]) - 1)
    place = span.source.span(end + 1, end + 1)
    return Fix(words, Edit(place, f"{indent}{name}{colon}{kind}{_line_end(text)}"))


def inside(words: str, block: Span, statement: str) -> Fix:
    """Return the help `words`: a statement more at the end of what braces enclose."""
    text, brace = block.source.text, block.end - 1
    end = len(text[:brace].rstrip())
    if text[end - 1] == "{":
        return Fix(words, Edit(block.source.span(end, brace), f" {statement} "))
    broken = "\n" in text[end:brace]
    parted = f"{_line_end(text)}{_indent(text, end)}" if broken else _INDENT
    return Fix(words, Edit(block.source.span(end, end), f"{parted}{statement}"))


def moved(
    words: str, what: Span | None, beside: Span | None, *, before: bool, text: str = ""
) -> str:
    """Return the help `words`: a statement stands before or behind another one.

    Args:
        words: what is said.
        what: the statement; None if it cannot be moved by itself.
        beside: the other one; None if nothing can stand beside it.
        before: whether it goes before the other one.
        text: what it then reads, if not the same.
    """
    if what is None or beside is None or _is_alone(what):
        return words
    said = text or what.text
    place = beside.start if before else beside.end
    written = f"{said}{_INDENT}" if before else f"{_INDENT}{said}"
    return Fix(words, removal(what), Edit(beside.source.span(place, place), written))


def _behind(span: Span, text: str) -> Edit:
    return Edit(span.source.span(span.end, span.end), text)


def _is_alone(span: Span) -> bool:
    """Whether braces enclose nothing but what a span covers."""
    text = span.source.text
    return text[: span.start].rstrip().endswith("{") and text[span.end :].lstrip().startswith("}")


def _indent(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(_BLANKS))]


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# ---- Carrying out ------------------------------------------------------------------------------


def carried_out(fix: Fix) -> str:
    """Return the text of the fix's file after its edits."""
    (source,) = {edit.span.source for edit in fix.edits}
    text = source.text
    for edit in sorted(fix.edits, key=lambda one: one.span.start, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text
