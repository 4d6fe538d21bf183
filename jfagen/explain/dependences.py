"""What orders each dependence: a channel, or a path through others."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..emit import aligned
from ..passes.dependences import Dependence, find_dependences
from ..passes.needed import trip_counts
from ..planning import Site
from ..proof.realize import Realized, executes, realize
from .tables import titled

if TYPE_CHECKING:
    from ..driver import Compiled


def dependence_topic(compiled: Compiled) -> str:
    """Return one line for every dependence between two ops, with what orders it."""
    plan = compiled.plan
    realized = realize(plan, compiled.sync, trip_counts(plan)[0])
    layout = compiled.placement.layout
    rows: dict[tuple[Site, Site, str, str], list[str]] = {}  # the last instance is the tightest
    for found in find_dependences(plan, realized.unrolled, layout).found:
        first, second = found.first[0], found.second[0]
        key = (first, second, found.earlier.buffer, found.later.buffer)
        if first.op != second.op and first.group <= 0 and second.group <= 0:
            rows[key] = [_words(found), ordered_by(compiled, realized, found)]
    lines = aligned([["dependence", "ordered by"], *rows.values()])
    return titled("dependences of the first group, each from the sequential program", lines)


def _words(found: Dependence) -> str:
    first, second = found.first[0], found.second[0]
    shared = found.earlier.buffer
    if found.later.buffer != shared:
        shared = f"{shared} under {found.later.buffer}"
    return f"{first.op} -> {second.op} on {shared}"


def ordered_by(compiled: Compiled, realized: Realized, found: Dependence) -> str:
    """Return the barriers and roles on a shortest path from the first access to the second."""
    plan = compiled.plan
    _, start = executes(plan, realized, *found.first)
    end, _ = executes(plan, realized, *found.second)
    path = shortest_path(realized, start, end)
    names = {node: completion for completion, node in realized.completions.items()}
    events = realized.unrolled.events
    words: list[str] = []
    for node in path:
        if node in names:
            words.append(f"`{compiled.sync.channels[names[node][0]].name}`")
        elif not words or words[-1] != events[node].actor.role:
            words.append(events[node].actor.role)
    if len(words) == 1:
        return f"program order of {words[0]}"
    return " -> ".join(words)


def shortest_path(realized: Realized, start: int, end: int) -> list[int]:
    """Return the nodes of a shortest path in the realized order; empty if there is none."""
    successors: dict[int, list[int]] = {}
    for first, second in realized.edges:
        successors.setdefault(first, []).append(second)
    back: dict[int, int] = {start: start}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if node == end:
            break
        for following in successors.get(node, ()):
            if following not in back:
                back[following] = node
                queue.append(following)
    if end not in back:
        return []
    path = [end]
    while path[-1] != start:
        path.append(back[path[-1]])
    return path[::-1]
