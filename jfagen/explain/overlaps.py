"""Certificates of overlaps: for two buffers that share memory, what orders which access first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..emit import place_words
from ..passes.dependences import Dependence, find_dependences
from ..passes.needed import trip_counts
from ..proof.realize import realize
from .dependences import ordered_by
from .tables import titled

if TYPE_CHECKING:
    from ..driver import Compiled


def overlaps_topic(compiled: Compiled) -> str:
    """Return the certificates of all overlaps."""
    pairs = compiled.placement.layout.overlapping()
    if not pairs:
        return "overlaps: none, every buffer has a place of its own"
    lines = [line for pair in pairs for line in certificate(compiled, *pair)]
    return titled("overlaps, each with what orders the accesses to the shared memory", lines)


def overlap_topic(compiled: Compiled, buffer: str) -> str:
    """Return the place of one buffer and the certificates of its overlaps."""
    extents = compiled.placement.layout.extents
    if buffer not in extents:
        return f"{buffer}: registers, never shared between roles"
    extent = extents[buffer]
    others = [name for name in extents if name != buffer and extents[name].overlaps(extent)]
    lines = [line for other in others for line in certificate(compiled, buffer, other)]
    unit = compiled.program.buffer(buffer).storage
    place = place_words(compiled.placement, buffer)
    title = f"{buffer}: {unit} {place} in its first slot, the place of `{extent.root}`"
    return titled(title, lines or ["shares its place with nothing"])


def certificate(compiled: Compiled, one: str, other: str) -> list[str]:
    """Return what keeps two overlapping buffers apart in time."""
    plan = compiled.plan
    realized = realize(plan, compiled.sync, trip_counts(plan)[0])
    layout = compiled.placement.layout
    lines: dict[str, None] = {}
    for found in find_dependences(plan, realized.unrolled, layout).found:
        if {found.earlier.buffer, found.later.buffer} != {one, other}:
            continue
        if found.first[0].group > 0 or found.second[0].group > 0:
            continue
        lines[f"  {_access(found)}: {ordered_by(compiled, realized, found)}"] = None
    return [f"{one} and {other}", *lines]


def _access(found: Dependence) -> str:
    first, second = found.first, found.second
    distance = "next tile" if first[1] != second[1] else ""
    if not distance and first[2] >= 0 and second[2] >= 0:
        distance = {0: "same step", 1: "next step"}.get(second[2] - first[2], "later step")
    after = f" ({distance})" if distance else ""
    return (
        f"{first[0].op} {found.earlier.mode}s {found.earlier.buffer} before "
        f"{second[0].op} {found.later.mode}s {found.later.buffer}{after}"
    )
