"""Text -> words, numbers, signs and comments; the grammar decides which word is a keyword where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a piece of text is, before the grammar is asked."""

    WORD = "word"
    NUMBER = "number"
    SIGN = "sign"
    COMMENT = "comment"
    JUNK = "junk"


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of the text and where it stands."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset after the last character."""
        return self.start + len(self.text)


#: Longer numbers are refused: no size, count or depth comes near, and they only cost time.
MAX_DIGITS = 9

_PIECES = re.compile(
    r"""
      (?P<word>    [A-Za-z_][A-Za-z0-9_]* (?: \. [A-Za-z_][A-Za-z0-9_]* )* )
    | (?P<number>  [0-9][A-Za-z0-9_]* )
    | (?P<sign>    -> | \.\. | [{}()\[\],:+/-] )
    | (?P<comment> \#[^\n]* )
    | (?P<blank>   (?: [ \t\n] | \r\n )+ )
    | (?P<junk>    . )
    """,
    re.VERBOSE | re.DOTALL,
)


def pieces(text: str) -> Iterator[Piece]:
    """Yield every piece of `text` but its blanks, in order."""
    for match in _PIECES.finditer(text):
        group = match.lastgroup
        if group is None or group == "blank":
            continue
        kind = Kind(group)
        written = match.group().rstrip() if kind is Kind.COMMENT else match.group()
        if kind is Kind.NUMBER and not _is_number(written):
            kind = Kind.JUNK
        yield Piece(kind, written, match.start())


def _is_number(text: str) -> bool:
    return text.isdigit() and len(text) <= MAX_DIGITS
