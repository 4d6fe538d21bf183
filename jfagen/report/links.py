"""Which lines of the kernel come from which line of the schedule."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from ..driver import Compiled
from ..emit.names import (
    DIMENSIONS,
    bytes_name,
    columns_name,
    depth_name,
    held_name,
    slices_name,
    tiles_name,
)
from ..syntax import ast, parse

_DEFINED = re.compile(r"^ *(\w+)\b[^=]*?(?::[^=]*)?= ")


@dataclass(frozen=True, slots=True)
class Links:
    """The two texts' lines, both counted from 1.

    Attributes:
        source_of: line of the kernel -> line of the schedule.
        starts: line of the schedule -> the first line of each block that comes from it.
    """

    source_of: dict[int, int]
    starts: dict[int, tuple[int, ...]]


def links(compiled: Compiled) -> Links:
    """Return the links of a compiled schedule.

    A comment that names a line of the schedule speaks for what follows it at its indentation or
    deeper; what declares a buffer's memory and its barriers speaks for itself.
    """
    lines = compiled.kernel.text.split("\n")
    source_of = dict(_by_comment(compiled, lines)) | dict(_by_name(compiled, lines))
    blocks: dict[int, list[int]] = defaultdict(list)
    for line, source in sorted(source_of.items()):
        if source_of.get(line - 1) != source:
            blocks[source].append(line)
    return Links(source_of, {source: tuple(starts) for source, starts in sorted(blocks.items())})


def _by_comment(compiled: Compiled, lines: list[str]) -> Iterator[tuple[int, int]]:
    file = re.escape(PurePath(compiled.program.source.path).name)
    place = re.compile(rf"^( *)#.*\({file}:(\d+)\)$")
    open_places: list[tuple[int, int]] = []  # indentation and line of the schedule, outermost first
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        found = place.match(line)
        while open_places and (
            indent < open_places[-1][0] or (found and indent == open_places[-1][0])
        ):
            open_places.pop()
        if found:
            open_places.append((indent, int(found[2])))
        if open_places:
            yield number, open_places[-1][1]


def _by_name(compiled: Compiled, lines: list[str]) -> Iterator[tuple[int, int]]:
    known = _names(compiled)
    for number, line in enumerate(lines, 1):
        found = _DEFINED.match(line)
        if found and found[1] in known:
            yield number, known[found[1]]


def _sizes(schedule: ast.Schedule) -> dict[str, int]:
    """Return the constants of problem and tile."""
    known: dict[str, int] = {}
    for size in schedule.tile.sizes if schedule.tile else ():
        known[DIMENSIONS[size.symbol.text]] = size.span.line
        if size.groups is not None:
            known["GROUPS"] = size.span.line
    if schedule.problem and schedule.problem.head_dim:
        known[DIMENSIONS["d"]] = schedule.problem.head_dim.span.line
    return known


def _names(compiled: Compiled) -> dict[str, int]:
    """Return what the kernel defines for the declarations: name -> line of the schedule."""
    program = compiled.program
    known = _sizes(parse(program.source))
    for buffer in program.buffers:
        spelled = (tiles_name, depth_name, slices_name, columns_name, held_name, bytes_name)
        known |= {name(buffer.name): buffer.span.line for name in spelled}
    for channel in compiled.sync.channels:
        known[channel.name] = program.buffer(channel.buffers[0]).span.line
    return known
