"""The roles as lanes, a tile's ops in them from top to bottom in the order that is forced."""

from __future__ import annotations

from collections.abc import Iterator

from .drawing import Drawing, Path, Rect, Text, clipped, fits, width_of
from .timeline import Arrow, Box, Phase, Timeline

ROW = 18.0
HEAD, MARGIN = 44.0, 34.0
_LEGEND = 30.0
_GAP = 22.0
#: How much of a lane a title may take: bold letters of another font may be wider.
_BOLD = 0.95
#: Legend of the phases, in the order in which a role goes through them.
PHASES = {
    Phase.BEFORE: "before the loop",
    Phase.PROLOGUE: "prologue",
    Phase.STEADY: "steady state",
    Phase.EPILOGUE: "epilogue",
    Phase.TAIL: "masked tail",
    Phase.AFTER: "after the loop",
}


def lanes(timeline: Timeline, width: float = 760.0) -> Drawing:
    """Return the picture of the roles' lanes."""
    lane = (width - MARGIN) / len(timeline.lanes)
    shapes = (
        *_grid(timeline, width, lane),
        *(shape for arrow in timeline.arrows for shape in _curve(timeline, arrow, lane)),
        *(shape for index, box in enumerate(timeline.boxes) for shape in _box(index, box, lane)),
        *legend(0.0, HEAD + timeline.rows * ROW + _LEGEND - 10, PHASES),
    )
    return Drawing(
        name="roles",
        title=f"Roles: one tile of {timeline.steps} steps",
        says=(
            f"{len(timeline.lanes)} lanes, one for each role; ops stand from top to bottom in the "
            "order that program order and barriers force, curves are barriers"
        ),
        width=width,
        height=HEAD + timeline.rows * ROW + _LEGEND + 6,
        shapes=shapes,
    )


def levels_grid(timeline: Timeline, width: float) -> Iterator[Path | Text]:
    """Yield a line for every fifth level, with its number."""
    for level in range(0, timeline.rows + 1, 5):
        y = HEAD + level * ROW
        yield Path(data=f"M{MARGIN:g} {y:g}H{width:g}", style="grid")
        yield Text(x=MARGIN - 6, y=y + 4, words=str(level), style="faint", anchor="end")


def legend(x: float, y: float, words: dict[Phase, str]) -> Iterator[Rect | Text]:
    """Yield a swatch and its words for every phase."""
    for phase, said in words.items():
        yield Rect(x=x, y=y, width=12, height=12, style=f"op {phase}")
        yield Text(x=x + 17, y=y + 10, words=said)
        x += 17 + width_of(said) + 16


def _grid(timeline: Timeline, width: float, lane: float) -> Iterator[Rect | Path | Text]:
    height = timeline.rows * ROW
    for index, title in enumerate(timeline.lanes):
        x = MARGIN + index * lane
        style = "lane even" if index % 2 == 0 else "lane"
        yield Rect(x=x, y=HEAD - 6, width=lane, height=height + 12, style=style)
        words = clipped(title, lane * _BOLD)
        yield Text(x=x + lane / 2, y=HEAD - 14, words=words, style="head", anchor="middle")
    yield Text(x=0, y=12, words="level", style="faint")
    yield from levels_grid(timeline, width)


def _box(index: int, box: Box, lane: float) -> Iterator[Rect]:
    x, width = MARGIN + box.lane * lane + 4, lane - _GAP
    top = HEAD + box.top * ROW
    title = (
        f"{box.words} ({PHASES[box.phase]}, {box.engine}), `{box.source}` in line {box.line}; "
        f"levels {box.top} to {box.done - 1}"
    )
    if box.done > box.stop:  # it goes on by itself
        height = (box.done - box.top) * ROW - 2
        yield Rect(
            x=x + width + 2, y=top + 1, width=5, height=height, style=f"going {box.phase}",
            title=f"{box.words} is under way",
        )  # fmt: skip
    yield Rect(
        x=x,
        y=top + 1,
        width=width,
        height=(box.stop - box.top) * ROW - 2,
        style=f"op {box.phase}",
        title=title,
        href=f"#s{box.line}",
        name=f"op{index}",
        label=box.words if fits(box.words, width) else clipped(box.words.split("[")[0], width),
    )


def _curve(timeline: Timeline, arrow: Arrow, lane: float) -> Iterator[Path]:
    """Yield the curve of a barrier, from the signal in one op to the wait in another."""
    first, second = timeline.boxes[arrow.first], timeline.boxes[arrow.second]
    right = first.lane < second.lane
    start = MARGIN + first.lane * lane + (lane - _GAP + 4 if right else 4)
    end = MARGIN + second.lane * lane + (4 if right else lane - _GAP + 4)
    y, to = HEAD + arrow.leaves * ROW - 3, HEAD + arrow.reaches * ROW + 5
    bend = 26 if right else -26
    data = f"M{start:g} {y:g}C{start + bend:g} {y:g} {end - bend:g} {to:g} {end:g} {to:g}"
    ends = {"first": f"op{arrow.first}", "second": f"op{arrow.second}"}
    signal = f"{arrow.hands}, announced in {first.words}" if arrow.hands else first.words
    title = f"{arrow.channel}: {signal}, then {second.words}"
    yield Path(data=data, style=f"barrier {arrow.kind}", title=title, **ends)
    back = -5 if right else 5
    tip = f"M{end:g} {to:g}l{back} -3v6z"
    yield Path(data=tip, style=f"barrier tip {arrow.kind}", **ends)
