"""The barriers as a graph: a column for each role, a row for each channel, arrows between them."""

from __future__ import annotations

from collections.abc import Iterator

from ..driver import Compiled
from ..emit import number_words, phase_words
from ..passes.channels import Channel, End
from .drawing import Drawing, Path, Rect, Text, width_of

_ROW, _HEAD = 30.0, 40.0
#: The least width of the names' column and of all roles' columns together.
_NAME, _LANES = 178.0, 620.0


def barriers(compiled: Compiled) -> Drawing:
    """Return the picture of the channels."""
    channels = compiled.sync.channels
    roles = [program.role.name for program in compiled.program.role_programs]
    margin = max([_NAME, *(width_of(channel.name) + 10 for channel in channels)])
    lane = max([_LANES / max(len(roles), 1), *(width_of(role) * 1.1 + 10 for role in roles)])
    places = {role: margin + (index + 0.5) * lane for index, role in enumerate(roles)}
    height = _HEAD + _ROW * len(channels)
    shapes: list[Rect | Text | Path] = []
    for role, x in places.items():
        shapes.append(Text(x=x, y=16, words=role, style="head", anchor="middle"))
        shapes.append(Path(data=f"M{x:g} 24V{height:g}", style="grid"))
    beside = margin + lane * len(roles) + 8
    shapes.append(Text(x=beside, y=16, words="barriers, and what completes a phase", style="head"))
    width = beside
    for index, channel in enumerate(channels):
        y = _HEAD + (index + 0.5) * _ROW
        words = f"{number_words(channel)}, {phase_words(channel)}; {phase_rule(channel)}"
        width = max(width, beside + width_of(words))
        shapes += _row(compiled, channel, y, places)
        shapes.append(Text(x=beside, y=y + 4, words=words))
    return Drawing(
        name="barriers",
        title=f"Barriers: {compiled.sync.barriers} in {len(channels)} channels",
        says="a row for each channel: dots are roles that signal, arrows lead to roles that wait",
        width=width,
        height=height + 6,
        shapes=tuple(shapes),
    )


def phase_rule(channel: Channel) -> str:
    """Return how slot and phase follow from the count of uses, `c`."""
    if channel.slots == 1:
        slot, phase = "", "c & 1"
    else:
        slot, phase = f"slot c % {channel.slots}, ", f"c // {channel.slots} & 1"
    free = " ^ 1 (free at first)" if channel.lag else ""
    return f"{slot}phase {phase}{free}"


def _roles(compiled: Compiled, channel: Channel, ends: tuple[End, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for end in ends:
        for site in channel.sites(end):
            ops = found.setdefault(compiled.plan.at(site).role.name, [])
            if site.op not in ops:
                ops.append(site.op)
    return found


def _row(
    compiled: Compiled, channel: Channel, y: float, places: dict[str, float]
) -> Iterator[Rect | Text | Path]:
    yield Text(x=0, y=y + 4, words=channel.name, style=f"name {channel.kind}")
    signals, waits = (
        _roles(compiled, channel, channel.signals),
        _roles(compiled, channel, channel.waits),
    )
    style = f"channel {channel.kind}"
    for start in signals:
        for end, ops in waits.items():
            title = f"{channel.name}: {', '.join(signals[start])} -> {', '.join(ops)}"
            yield Path(data=_line(places[start], places[end], y), style=style, title=title)
    for role in signals:
        x = places[role]
        yield Rect(x=x - 4, y=y - 4, width=8, height=8, style=f"dot {channel.kind}")
    for role in waits:
        before = [places[one] < places[role] for one in signals]
        yield Path(data=_head(places[role], y, right=all(before)), style=f"tip {channel.kind}")


def _line(start: float, end: float, y: float) -> str:
    if start == end:  # a role that waits for itself, another replica or another engine
        return f"M{start:g} {y:g}c34 -14 34 14 8 2"
    return f"M{start:g} {y:g}H{end + (-9 if end > start else 9):g}"


def _head(x: float, y: float, *, right: bool) -> str:
    back = -9 if right else 9
    return f"M{x:g} {y:g}l{back} -5v10z"
