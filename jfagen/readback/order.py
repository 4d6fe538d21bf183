"""The order that a text gives its actions: program order, barriers, in-order MMAs, tile channel."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..graph.closure import Closure, close
from .execution import Execution, Place, execute
from .trace import ActionKind, Signal, Trace


@dataclass(slots=True)
class TextOrder:
    """A trace as a graph.

    Attributes:
        starts: place -> its node in program order.
        ends: place -> the node after which its accesses are over: MMAs, loads and stores have
            their own.
        completions: (barrier, completion) -> its node.
        sources: (barrier, completion) -> the nodes that make it.
        closure: None if the order has a cycle.
    """

    trace: Trace
    execution: Execution
    starts: dict[Place, int] = field(default_factory=dict)
    ends: dict[Place, int] = field(default_factory=dict)
    completions: dict[tuple[Signal, int], int] = field(default_factory=dict)
    sources: dict[tuple[Signal, int], list[int]] = field(default_factory=dict)
    closure: Closure | None = None


def order_of(trace: Trace) -> TextOrder:
    """Return the order of a trace after one execution."""
    order = TextOrder(trace, execute(trace))
    edges: list[tuple[int, int]] = []
    nodes = _role_nodes(order, edges)
    for key, places in order.execution.arrivals.items():
        order.completions[key] = nodes
        order.sources[key] = [_source(order, place) for place in places]
        edges += [(source, nodes) for source in order.sources[key]]
        nodes += 1
    for place, seen in order.execution.waits.items():
        if seen[1] >= 0:
            edges.append((order.completions[seen], order.starts[place]))
    _tile_channel(order, edges)
    for meeting in order.execution.meetings:
        edges += [(order.starts[place], order.starts[meeting.waiter]) for place in meeting.arrivals]
    order.closure = close(nodes, edges)
    return order


def _role_nodes(order: TextOrder, edges: list[tuple[int, int]]) -> int:
    nodes = 0
    for role, actions in order.trace.actions.items():
        previous = last_mma = -1
        stores: list[int] = []
        flying: list[int] = []
        for index, action in enumerate(actions):
            place = (role, index)
            order.starts[place] = order.ends[place] = nodes
            if previous >= 0:
                edges.append((previous, nodes))
            previous = nodes
            nodes += 1
            if action.kind in (ActionKind.MMA, ActionKind.LOAD, ActionKind.STORE):
                edges.append((previous, nodes))
                order.ends[place] = nodes
                if action.joined:
                    flying.append(nodes)
                elif action.kind is ActionKind.MMA:
                    if last_mma >= 0:
                        edges.append((last_mma, nodes))
                    last_mma = nodes
                if action.kind is ActionKind.STORE:
                    stores.append(nodes)
                nodes += 1
            elif action.kind is ActionKind.COMMIT:
                # The tensor core arrives when the last MMA before it is through.
                order.ends[place] = last_mma if last_mma >= 0 else previous
            elif action.kind in (ActionKind.DRAIN, ActionKind.JOIN):
                waiting = stores if action.kind is ActionKind.DRAIN else flying
                while len(waiting) > action.value:
                    edges.append((waiting.pop(0), previous))
    return nodes


def _source(order: TextOrder, place: Place) -> int:
    role, index = place
    kind = order.trace.actions[role][index].kind
    return order.starts[place] if kind is ActionKind.EXPECT else order.ends[place]


def _tile_channel(order: TextOrder, edges: list[tuple[int, int]]) -> None:
    for tile, ask in order.execution.asks.items():
        edges += [(order.starts[ask], order.starts[take]) for take in order.execution.takes[tile]]
        for take in order.execution.takes.get(tile - 1, ()):
            edges.append((order.starts[take], order.starts[ask]))
