"""A memory as a map: columns or bytes from left to right, the levels of a tile downwards."""

from __future__ import annotations

from collections.abc import Iterator

from ..types import Storage
from .drawing import Drawing, Path, Rect, Text, clipped, fits, width_of
from .lanes import HEAD, MARGIN, ROW, levels_grid
from .palette import HUES
from .timeline import Life, Timeline

_WIDTH = 460.0
_NARROWEST = 5.0
#: The narrowest rectangle in which a label that reads upwards fits.
_LINE = 13.0
_KEY_ROW = 16.0
_NAMES = {
    Storage.TMEM: ("tmem", "Tensor memory", "columns"),
    Storage.SMEM: ("smem", "Shared memory", "bytes"),
}


def memory(timeline: Timeline, storage: Storage, size: int) -> Drawing:
    """Return the map of one memory.

    Args:
        timeline: the tile.
        storage: the memory.
        size: columns or bytes that the kernel allocates.
    """
    name, title, unit = _NAMES[storage]
    found = [life for life in timeline.lives if life.storage is storage]
    buffers = dict.fromkeys(life.buffer for life in found)
    hues = {buffer: index % HUES for index, buffer in enumerate(buffers)}
    scale = (_WIDTH - MARGIN - 8) / max(size, 1)
    lefts = _lefts(found, scale)
    key = HEAD + timeline.rows * ROW + 16
    shapes = (
        *_frame(timeline, size, scale, unit),
        *(_rect(life, hues[life.buffer], scale, lefts[life.first], unit) for life in found),
        *_key(hues, found, key),
    )
    return Drawing(
        name=name,
        title=f"{title}: {size:,} {unit}",
        says=f"every use of a buffer is a rectangle: {unit} from left to right, levels downwards",
        width=_WIDTH,
        height=key + _KEY_ROW * len(hues) + 4,
        shapes=shapes,
    )


def _frame(timeline: Timeline, size: int, scale: float, unit: str) -> Iterator[Rect | Path | Text]:
    height = timeline.rows * ROW
    yield Rect(x=MARGIN, y=HEAD - 6, width=size * scale, height=height + 12, style="lane even")
    yield Text(x=0, y=12, words="level", style="faint")
    yield Text(x=MARGIN + size * scale, y=12, words=unit, style="faint", anchor="end")
    for part in range(5):
        at = size * part // 4
        x = MARGIN + at * scale
        anchor = {0: "start", 4: "end"}.get(part, "middle")
        yield Text(x=x, y=HEAD - 14, words=f"{at:,}", style="faint", anchor=anchor)
        yield Path(data=f"M{x:g} {HEAD - 8:g}V{HEAD + height + 6:g}", style="grid")
    yield from levels_grid(timeline, MARGIN + size * scale)


def _lefts(found: list[Life], scale: float) -> dict[int, float]:
    """Return first column or byte -> where it is drawn; the narrowest ones stand side by side."""
    lefts: dict[int, float] = {}
    free = 0.0
    for first, stop in sorted({(life.first, life.stop) for life in found}):
        if (stop - first) * scale >= _NARROWEST:
            lefts[first] = first * scale
        elif first not in lefts:
            lefts[first] = max(first * scale, free)
            free = lefts[first] + _NARROWEST
    return lefts


def _rect(life: Life, hue: int, scale: float, left: float, unit: str) -> Rect:
    width = max((life.stop - life.first) * scale, _NARROWEST)
    height = (life.done - life.top) * ROW - 2
    turned = not fits(life.label, width) and width >= _LINE and fits(life.label, height)
    return Rect(
        x=MARGIN + left,
        y=HEAD + life.top * ROW + 1,
        width=width - 1,
        height=height,
        style=f"life hue{hue}",
        title=(
            f"{life.label}, {unit} {life.first:,} to {life.stop - 1:,}, "
            f"levels {life.top} to {life.done - 1}"
        ),
        href=f"#s{life.line}",
        label=life.label if turned or fits(life.label, width) else "",
        turned=turned,
    )


def _key(hues: dict[str, int], found: list[Life], y: float) -> Iterator[Rect | Text]:
    """Yield a line for each buffer: its colour, its name, where its first slot lies."""
    for row, (buffer, hue) in enumerate(hues.items()):
        first = min((one for one in found if one.buffer == buffer), key=lambda one: one.first)
        at = y + row * _KEY_ROW
        yield Rect(x=MARGIN, y=at, width=12, height=12, style=f"life hue{hue}")
        place = f": first slot {first.first:,} to {first.stop - 1:,}"
        words = clipped(buffer, _WIDTH - MARGIN - 18 - width_of(place)) + place
        yield Text(x=MARGIN + 18, y=at + 10, words=words)
