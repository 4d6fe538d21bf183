"""Source text and places in it: offsets inside, lines and columns only when printed."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceFile:
    """The text of one file and the path under which it is shown.

    Attributes:
        path: What messages print before the line number.
        text: The whole text, line ends as they are in the file.
    """

    path: str
    text: str = field(repr=False)

    @classmethod
    def from_path(cls, path: Path, shown: str | None = None) -> SourceFile:
        """Return the file at `path`; bytes that are not UTF-8 become lone surrogates."""
        try:
            data = path.read_bytes()
        except OSError as error:
            error.filename = str(path)  # reading, unlike opening, does not name the file
            raise
        return cls.from_bytes(data, shown if shown is not None else path.as_posix())

    @classmethod
    def from_bytes(cls, data: bytes, shown: str) -> SourceFile:
        """Return `data` as text; the parser reports bytes that are not UTF-8."""
        return cls(path=shown, text=data.decode("utf-8", "surrogateescape").removeprefix("\ufeff"))

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        starts.extend(i + 1 for i, character in enumerate(self.text) if character == "\n")
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and column of `offset`, both counted from 1, in characters."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """Return the text of a line counted from 1, without its line end."""
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end].removesuffix("\r")

    def line_span(self, line: int) -> Span:
        """Return the span of a line counted from 1, without its indentation and line end."""
        text, start = self.line_text(line), self._line_starts[line - 1]
        return self.span(start + len(text) - len(text.lstrip()), start + len(text.rstrip()))

    def span(self, start: int, end: int) -> Span:
        """Return the span of the characters from `start` up to, but without, `end`."""
        return Span(source=self, start=start, end=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A half-open range of characters of one source file; empty at a place between two."""

    source: SourceFile = field(repr=False)
    start: int
    end: int

    @property
    def line(self) -> int:
        """The line of the first character, counted from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """The column of the first character, counted from 1, in characters."""
        return self.source.position(self.start)[1]

    @property
    def text(self) -> str:
        """The characters that the span covers."""
        return self.source.text[self.start : self.end]

    @property
    def place(self) -> str:
        """The form `path:line:column` that terminals and editors make clickable."""
        line, column = self.source.position(self.start)
        return f"{self.source.path}:{line}:{column}"

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of `other`."""
        return Span(source=self.source, start=self.start, end=other.end)
