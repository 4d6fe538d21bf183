"""The TMEM map, the SMEM map and the barrier table as text: in kernels and in `explain`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from ..passes.channels import Arrival, Channel, End, SyncPlan, When
from ..passes.placement import Placement
from ..planning import Plan, Site
from ..semantics.program import Program
from ..semantics.regions import Arrangement, Beside, Leaf, leaves
from ..types import Storage

_WHEN = {When.EVERY: "", When.FIRST: " (first step)", When.LAST: " (last step)"}
#: The widest line of a table; kernels move it in by four.
WIDTH = 112


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns.

    A last cell that is too long is broken at `; `; so are the others, if that is not enough.
    """
    last = max(len(part) for row in rows for part in _parts(row[-1]))
    cells = [[[cell] for cell in row[:-1]] for row in rows]
    if _margin(cells) + last > WIDTH:
        cells = [[_parts(cell) for cell in row[:-1]] for row in rows]
    widths, margin = _widths(cells), _margin(cells)
    lines: list[str] = []
    for row, inner in zip(rows, cells, strict=True):
        end = _parts(row[-1]) if margin + len(row[-1]) > WIDTH else [row[-1]]
        for *line, words in zip_longest(*inner, end, fillvalue=""):
            head = "".join(f"{cell.ljust(w)}  " for cell, w in zip(line, widths, strict=True))
            lines.append(f"{head}{words}".rstrip())
    return lines


def _parts(cell: str) -> list[str]:
    *parts, last = cell.split("; ")
    return [*(f"{part};" for part in parts), last]


def _widths(cells: list[list[list[str]]]) -> list[int]:
    return [
        max(len(part) for cell in column for part in cell) for column in zip(*cells, strict=True)
    ]


def _margin(cells: list[list[list[str]]]) -> int:
    """Return the column at which the last cells begin."""
    widths = _widths(cells)
    return sum(widths) + 2 * len(widths)


def span_text(start: int, stop: int) -> str:
    """Return a range of columns or bytes, both ends included."""
    return str(start) if stop == start + 1 else f"{start}..{stop - 1}"


def memory_map(program: Program, placement: Placement, storage: Storage) -> list[str]:
    """Return where every buffer of one memory lies, one line for every copy of a root."""
    rows: list[list[str]] = []
    for tree in placement.layout.trees:
        root = leaves(tree)[0].buffer
        buffer = program.buffer(root)
        if buffer.storage is not storage:
            continue
        size = placement.layout.sizes[root]
        groups = range(program.tile.groups) if buffer.grouped else [-1]
        for group in groups:
            for slot in range(buffer.depth):
                copy = max(group, 0) * buffer.depth + slot
                first = placement.first[root] + copy * size
                index = (f"[{group}]" if group >= 0 and program.tile.groups > 1 else "") + (
                    f" slot {slot}" if buffer.depth > 1 else ""
                )
                text = _tree_text(program, placement, tree, first, index)
                rows.append([span_text(first, first + size), text])
    return aligned(rows) if rows else []


def place_words(placement: Placement, buffer: str) -> str:
    """Return the columns or bytes of a buffer's first slot; empty if it is in registers."""
    extent = placement.layout.extents.get(buffer)
    if extent is None:
        return ""
    first = placement.first[extent.root]
    return span_text(first + extent.start, first + extent.stop)


def _tree_text(
    program: Program, placement: Placement, tree: Arrangement, first: int, index: str
) -> str:
    if isinstance(tree, Leaf):
        holds = program.buffer(tree.buffer).holds
        held = f" ({' and '.join(holds)} in turn)" if holds != (tree.buffer,) else ""
        if program.algorithm.value(holds[0]).staging:
            held = " (slices on their way out)"
        return f"{tree.buffer}{index}{held}"
    parts = []
    for part in tree.parts:
        text = _tree_text(program, placement, part, first, index)
        if isinstance(part, Leaf):
            extent = placement.layout.extents[part.buffer]
            if part is not tree.parts[0] or isinstance(tree, Beside):
                text = f"{text} at {span_text(first + extent.start, first + extent.stop)}"
        parts.append(text)
    return ", ".join(parts) if isinstance(tree, Beside) else " over ".join(parts)


def barrier_table(plan: Plan, sync: SyncPlan) -> list[str]:
    """Return the barrier table: name, number, what completes a phase, who arrives, who waits."""
    rows = [["barrier", "number", "phase", "arrives", "waits"]]
    for channel in sync.channels:
        rows.append(
            [
                channel.name,
                number_words(channel),
                phase_words(channel),
                end_words(plan, channel, channel.signals),
                end_words(plan, channel, channel.waits),
            ]
        )
    return aligned(rows)


def _is_like(one: End, other: End) -> bool:
    """Whether two ends are those of one op, of the same group or of another one."""
    return replace(one.site, group=other.site.group) == other.site


def phase_words(channel: Channel) -> str:
    """Return what completes one phase."""
    match channel.arrival:
        case Arrival.BYTES:
            loads = channel.arrivals // len(channel.bytes)
            each = " + ".join(map(str, channel.bytes))
            return f"{f'{loads} x ' if loads > 1 else ''}{each} bytes"
        case Arrival.COMMIT:
            return f"{channel.arrivals} commit{'s' * (channel.arrivals > 1)}"
        case Arrival.THREADS:
            return f"{channel.arrivals * channel.warps * 32} threads"
        case Arrival.ROLES:
            return f"{channel.arrivals} arrival{'s' * (channel.arrivals > 1)}"


def number_words(channel: Channel) -> str:
    """Return how many barriers an array has: groups, slots and slices."""
    factors = [len(channel.groups), channel.slots, channel.slices]
    shown = [str(factor) for factor in factors if factor > 1]
    return " x ".join(shown) or "1"


def end_words(plan: Plan, channel: Channel, ends: tuple[End, ...]) -> str:
    """Return who signals or waits: each role once, with its ops; slices are told by the number."""
    found: dict[str, dict[str, None]] = {}
    for end in ends:
        sites: dict[str, list[Site]] = {}
        for site in channel.sites(end):
            sites.setdefault(plan.at(site).role.name, []).append(site)
        for role, own in sites.items():
            words = _one_end(plan, channel, end, ends)
            if len(sites) > 1:  # an op whose groups are shared out among roles
                words = ", ".join(f"{site.op}[{site.group}]{_WHEN[end.when]}" for site in own)
            found.setdefault(role, {})[words] = None
    return "; ".join(f"{role}: {', '.join(words)}" for role, words in found.items())


def _one_end(plan: Plan, channel: Channel, end: End, ends: tuple[End, ...]) -> str:
    groups = plan.program.tile.groups
    alike = [one for one in ends if replace(one, site=end.site) == end and _is_like(one, end)]
    single = len(channel.groups) > 1 or len(alike) == groups
    group = f"[{end.site.group}]" if not single and end.site.group >= 0 else ""
    return f"{end.site.op}{group}{_WHEN[end.when]}"
