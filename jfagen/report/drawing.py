"""Pictures as plain shapes: what a template spells as SVG, in a page or in a file of its own."""

from __future__ import annotations

from dataclasses import dataclass

#: Width of a character of the pictures' font, as a part of its size: DejaVu Sans Mono has 0.602.
CHARACTER = 0.602
FONT_SIZE = 11.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rect:
    """A rectangle; `href` makes it a link, `title` is shown when it is pointed at.

    Attributes:
        style: classes of the style sheet.
        name: by which links of the page and its script find it; empty for none.
        label: what stands in it; chosen to fit.
        turned: whether the label reads upwards.
    """

    x: float
    y: float
    width: float
    height: float
    style: str
    title: str = ""
    href: str = ""
    name: str = ""
    label: str = ""
    turned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A line of text; `y` is its base line."""

    x: float
    y: float
    words: str
    style: str = ""
    anchor: str = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A line or curve.

    Attributes:
        data: SVG path data.
        first, second: names of what it connects; empty for nothing.
    """

    data: str
    style: str
    title: str = ""
    first: str = ""
    second: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One picture.

    Attributes:
        name: of its file.
        title: what it shows, in a few words.
        says: the same in a sentence, for those who do not see it.
        shapes: in the order of painting.
    """

    name: str
    title: str
    says: str
    width: float
    height: float
    shapes: tuple[Rect | Text | Path, ...]


def width_of(words: str) -> float:
    """Return how many pixels a line of text takes, and a little air."""
    return len(words) * CHARACTER * FONT_SIZE + 4


def fits(words: str, width: float) -> bool:
    """Return whether a line of text fits in `width` pixels."""
    return width_of(words) <= width


def clipped(words: str, width: float) -> str:
    """Return as much of a line of text as fits in `width` pixels."""
    room = int((width - 4) / (CHARACTER * FONT_SIZE))
    return words if len(words) <= room else words[: max(room - 1, 0)] + "\u2026"
