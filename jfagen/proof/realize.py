"""The order that the kernel really has: program order and barriers, nothing else.

Built from the plan and the channels alone, so that it does not trust how the channels were found.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ..algorithm import Engine, Space
from ..graph.closure import Closure, close
from ..passes.channels import Channel, End, SyncPlan, When
from ..planning import Plan, Site, Unrolled, unroll

Completion = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Waiting:
    """One wait: which completion it needs and before which node it stands.

    Attributes:
        completion: (channel, group, slice, number); the number is negative for a slot that is
            free from the start.
    """

    completion: Completion
    node: int


@dataclass(slots=True)
class Realized:
    """Events and barrier completions of a few tiles.

    Attributes:
        completions: completion -> its node.
        signals: completion -> the nodes that arrive.
        waits: every wait.
        edges: the whole order.
        closure: None if the order has a cycle: a deadlock.
    """

    unrolled: Unrolled
    completions: dict[Completion, int] = field(default_factory=dict)
    signals: dict[Completion, list[int]] = field(default_factory=lambda: defaultdict(list))
    waits: list[Waiting] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    closure: Closure | None = None


def realize(plan: Plan, sync: SyncPlan, trips: tuple[int, ...]) -> Realized:
    """Return the order of tiles with these numbers of steps."""
    unrolled = unroll(plan, trips)
    realized = Realized(unrolled, edges=list(unrolled.order))
    for index, channel in enumerate(sync.channels):
        for end in channel.signals:
            for group, site in _with_groups(channel, end):
                for number, tile, step in _instances(plan, channel, end, site, trips):
                    piece = site.slice if channel.slices > 1 else 0
                    completion = (index, group, piece, number)
                    key = (site, tile, step)
                    node = unrolled.handed.get(key, unrolled.end[key])
                    realized.signals[completion].append(node)
        for end in channel.waits:
            for group, site in _with_groups(channel, end):
                for number, tile, step in _instances(plan, channel, end, site, trips):
                    piece = site.slice if channel.slices > 1 else 0
                    completion = (index, group, piece, number - channel.lag)
                    realized.waits.append(Waiting(completion, unrolled.start[site, tile, step]))
    _connect(realized, sync)
    nodes = len(unrolled.events) + len(realized.completions)
    realized.closure = close(nodes, realized.edges)
    return realized


def _with_groups(channel: Channel, end: End) -> list[tuple[int, Site]]:
    if not channel.groups:
        return [(0, end.site)]
    return list(zip(channel.groups, channel.sites(end), strict=True))


def _instances(
    plan: Plan, channel: Channel, end: End, site: Site, trips: tuple[int, ...]
) -> list[tuple[int, int, int]]:
    """Return (count, tile, step) of every time that an end takes part."""
    found: list[tuple[int, int, int]] = []
    tiles = steps = 0
    for tile, trip in enumerate(trips):
        if not trip:
            continue
        if channel.per is Space.STEP:
            for step in range(trip):
                found.append((channel.rate * (steps + step) + end.position, tile, step))
        elif plan.space(site) is Space.TILE:
            found.append((tiles, tile, -1))
        else:
            found.append((tiles, tile, 0 if end.when is When.FIRST else trip - 1))
        tiles += 1
        steps += trip
    return found


def _connect(realized: Realized, sync: SyncPlan) -> None:
    node = len(realized.unrolled.events)
    for completion, sources in realized.signals.items():
        if len(sources) >= sync.channels[completion[0]].arrivals:
            realized.completions[completion] = node
            realized.edges += [(source, node) for source in sources]
            node += 1
    for waiting in realized.waits:
        if waiting.completion in realized.completions:
            realized.edges.append((realized.completions[waiting.completion], waiting.node))


def executes(plan: Plan, realized: Realized, site: Site, tile: int, step: int) -> tuple[int, int]:
    """Return the nodes between which an access happens.

    An MMA touches memory when it executes, after every earlier MMA of its role; one that its role
    waits for, at some time before that wait.
    """
    key = (site, tile, step)
    if plan.engine(site) is Engine.MMA and not plan.joins(site):
        return realized.unrolled.end[key], realized.unrolled.end[key]
    return realized.unrolled.start[key], realized.unrolled.end[key]
