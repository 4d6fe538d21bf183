"""Offsets of a text, and the lines and columns by which editors count."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\n|\r")
#: Encoding that an editor counts in -> bytes of one unit of it.
_UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


@dataclass(frozen=True, slots=True)
class Positions:
    """The places of one text in an editor's units.

    Attributes:
        text: the text.
        encoding: what columns count: `utf-8` bytes, `utf-16` words, or `utf-32` characters.
        starts: offset of the first character of every line.
    """

    text: str
    encoding: str
    starts: tuple[int, ...]

    @classmethod
    def of(cls, text: str, encoding: str) -> Positions:
        """Return the places of `text`; a line ends with LF, CR LF or CR, as editors have it."""
        ends = (match.end() for match in _LINE_END.finditer(text))
        return cls(text, encoding, (0, *ends))

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset, both from 0."""
        line = bisect_right(self.starts, offset) - 1
        return line, self._units(self.text[self.starts[line] : offset])

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a line and column; the nearest one that the text has."""
        if line < 0:
            return 0
        if line >= len(self.starts):
            return len(self.text)
        start = self.starts[line]
        end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.text)
        words = self.text[start:end].rstrip("\r\n")
        if words.isascii():
            return start + min(max(column, 0), len(words))
        taken = 0
        for index, character in enumerate(words):
            if taken >= column:
                return start + index
            taken += self._units(character)
        return start + len(words)

    def _units(self, text: str) -> int:
        codec, size = _UNITS[self.encoding]
        return len(text.encode(codec, "surrogatepass")) // size
