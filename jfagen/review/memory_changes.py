"""What changed in buffers and in where they lie."""

from __future__ import annotations

from collections.abc import Iterator

from ..diagnostics import quoted
from ..types import Storage
from .changes import Change, Part
from .facts import BufferFact, Facts
from .pairing import Pairing

_MEMORIES = {Storage.SMEM: "SMEM", Storage.TMEM: "TMEM", Storage.REG: "registers"}


def buffer_changes(before: Facts, after: Facts, pairing: Pairing) -> Iterator[Change]:
    """Yield what changed in each buffer, its place apart."""
    new = {buffer.name: buffer for buffer in after.buffers}
    for buffer in before.buffers:
        other = new.pop(pairing.buffers.get(buffer.name, ""), None)
        if other is None:
            words = f"is gone: {_words(buffer)}"
            yield Change(part=Part.BUFFERS, name=buffer.name, words=words)
            continue
        if other.name != buffer.name:
            words = f"was called `{buffer.name}`"
            yield Change(part=Part.BUFFERS, name=other.name, words=words)
        for old, now in _differences(buffer, other):
            yield Change(part=Part.BUFFERS, name=other.name, words=f"{old} -> {now}")
    for buffer in new.values():
        yield Change(part=Part.BUFFERS, name=buffer.name, words=f"is new: {_words(buffer)}")


def _words(buffer: BufferFact) -> str:
    ring = f", a ring of {buffer.depth}" if buffer.depth > 1 else ""
    slices = f", in {buffer.slices} slices" if buffer.slices > 1 else ""
    return f"{_MEMORIES[buffer.storage]} {buffer.tile}{ring}{slices}"


def _differences(buffer: BufferFact, other: BufferFact) -> Iterator[tuple[str, str]]:
    if buffer.storage != other.storage:
        yield f"in {_MEMORIES[buffer.storage]}", f"in {_MEMORIES[other.storage]}"
    if buffer.tile != other.tile:
        yield buffer.tile, other.tile
    if buffer.depth != other.depth:
        yield _slots(buffer.depth), _slots(other.depth)
    if buffer.slices != other.slices:
        yield _slices(buffer.slices), _slices(other.slices)
    if buffer.holds != other.holds:
        yield f"holds {quoted(buffer.holds, 'and')}", f"holds {quoted(other.holds, 'and')}"


def _slots(depth: int) -> str:
    return f"a ring of {depth} slots" if depth > 1 else "one slot"


def _slices(slices: int) -> str:
    return f"handed over in {slices} slices" if slices > 1 else "handed over whole"


def place_changes(before: Facts, after: Facts, pairing: Pairing) -> Iterator[Change]:
    """Yield what lies over what now or does not any more, and buffers that moved."""
    old = {
        tuple(sorted(pairing.buffers.get(name, name) for name in pair)) for pair in before.shares
    }
    new = set(after.shares)
    for one, other in sorted(new - old):
        words = f"shares its place with `{other}`, at other times"
        yield Change(part=Part.PLACES, name=one, words=words)
    for one, other in sorted(old - new):
        words = f"does not share its place with `{other}` any more"
        yield Change(part=Part.PLACES, name=one, words=words)
    places = {buffer.name: buffer for buffer in after.buffers}
    for buffer in before.buffers:
        moved = places.get(pairing.buffers.get(buffer.name, ""))
        if moved is None or moved.storage != buffer.storage or moved.place == buffer.place:
            continue
        unit = "columns" if buffer.storage is Storage.TMEM else "bytes"
        unit += " of the first slot" * (buffer.several or moved.several)
        words = f"{unit} {buffer.place} -> {moved.place}"
        yield Change(part=Part.PLACES, name=moved.name, words=words)
