"""Where the tiles of a text lie: overlap trees as the toolchain lays them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .trace import Region, Tiles, Trace


@dataclass(frozen=True, slots=True)
class Spot:
    """A range of one memory: TMEM columns or SMEM bytes of one copy of a root."""

    root: str
    copy: int
    start: int
    stop: int

    def overlaps(self, other: Spot) -> bool:
        """Return whether the two share memory."""
        same = (self.root, self.copy) == (other.root, other.copy)
        return same and self.start < other.stop and other.start < self.stop


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """Array -> (root, offset in it); sizes are in the unit of the memory."""

    places: dict[str, tuple[str, int]]
    tiles: dict[str, Tiles]

    def spot(self, region: Region) -> Spot:
        """Return where an access lies."""
        tiles = self.tiles[region.array]
        root, offset = self.places[region.array]
        if tiles.storage == "tmem":
            start = offset + region.start * tiles.element_bytes // 4
            stop = offset + max(1, region.stop * tiles.element_bytes // 4)
            return Spot(root, region.copy, start, max(stop, start + 1))
        return Spot(root, region.copy, offset, offset + tile_size(tiles))


def tile_size(tiles: Tiles) -> int:
    """Return the columns or bytes of one tile."""
    if tiles.storage == "tmem":
        return max(1, tiles.shape[-1] * tiles.element_bytes // 4)
    size = tiles.element_bytes
    for extent in tiles.shape:
        size *= extent
    return size


def memory_map(trace: Trace) -> MemoryMap:
    """Return where every array of a trace lies."""
    places: dict[str, tuple[str, int]] = {}
    for space, tree in trace.overlaps.items():
        _lay_out(trace, tree, space, 0, places)
    for name, tiles in trace.tiles.items():
        places.setdefault(name, (tiles.space or name, 0))
    return MemoryMap(places, dict(trace.tiles))


def _lay_out(
    trace: Trace,
    tree: Any,  # noqa: ANN401
    root: str,
    start: int,
    places: dict[str, tuple[str, int]],
) -> int:
    if isinstance(tree, str):
        places[tree] = (root, start)
        return start + tile_size(trace.tiles[tree])
    kind, parts = tree
    if kind == "shared":
        return max(_lay_out(trace, part, root, start, places) for part in parts)
    cursor = start
    for part in parts:
        width = _width(trace, part)
        cursor = -(-cursor // width) * width
        cursor = _lay_out(trace, part, root, cursor, places)
    return cursor


def _width(trace: Trace, tree: Any) -> int:  # noqa: ANN401
    if isinstance(tree, str):
        return tile_size(trace.tiles[tree])
    kind, parts = tree
    widths = [_width(trace, part) for part in parts]
    return max(widths) if kind == "shared" else sum(widths)
