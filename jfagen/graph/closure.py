"""Happens-before closures of small graphs, as one integer bitset per node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import networkx as nx

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Closure:
    """Which nodes happen before each node.

    Attributes:
        before: node -> bitset of its ancestors (bit i is node i).
        predecessors: node -> its direct predecessors.
    """

    before: tuple[int, ...]
    predecessors: tuple[tuple[int, ...], ...]

    def ordered(self, first: int, second: int) -> bool:
        """Return whether `first` happens before `second`."""
        return bool(self.before[second] >> first & 1)

    def is_implied(self, edge: Edge) -> bool:
        """Return whether the other edges already order the two ends of `edge`."""
        first, second = edge
        return any(
            other != first and self.before[other] >> first & 1
            for other in self.predecessors[second]
        )


def close(nodes: int, edges: Iterable[Edge]) -> Closure | None:
    """Return the closure of a graph of `nodes` nodes, or None if it has a cycle."""
    predecessors: list[list[int]] = [[] for _ in range(nodes)]
    successors: list[list[int]] = [[] for _ in range(nodes)]
    waiting = [0] * nodes
    for first, second in dict.fromkeys(edges):
        predecessors[second].append(first)
        successors[first].append(second)
        waiting[second] += 1
    before = [0] * nodes
    ready = [node for node in range(nodes) if not waiting[node]]
    done = 0
    while ready:
        node = ready.pop()
        done += 1
        reached = 0
        for first in predecessors[node]:
            reached |= before[first] | 1 << first
        before[node] = reached
        for second in successors[node]:
            waiting[second] -= 1
            if not waiting[second]:
                ready.append(second)
    if done < nodes:
        return None
    return Closure(before=tuple(before), predecessors=tuple(map(tuple, predecessors)))


def find_cycle(edges: Iterable[Edge]) -> tuple[int, ...]:
    """Return the nodes of a short cycle, in order; empty if there is none."""
    graph = nx.DiGraph(list(dict.fromkeys(edges)))
    for node in sorted(nx.nodes_with_selfloops(graph)):
        return (node,)
    best: tuple[int, ...] = ()
    for component in nx.strongly_connected_components(graph):
        if len(component) < 2:
            continue
        inner = graph.subgraph(component)
        start = min(component)
        for successor in sorted(inner.successors(start)):
            path = nx.shortest_path(inner, successor, start)
            if not best or len(path) < len(best):
                best = tuple(path)
    return best


def has_cycle_without_progress(edges: Iterable[tuple[str, str, int]]) -> bool:
    """Return whether a cycle of the marked graph has a sum of weights of at most 0.

    Every edge (a, b, w) says: a in iteration i happens before b in iteration i + w. Scaling the
    weights turns "at most 0" into "negative", which Bellman-Ford finds.
    """
    graph: nx.DiGraph[str] = nx.DiGraph()
    edges = list(edges)
    scale = len({node for edge in edges for node in edge[:2]}) + 1
    for first, second, weight in edges:
        value = weight * scale - 1
        if not graph.has_edge(first, second) or graph[first][second]["weight"] > value:
            graph.add_edge(first, second, weight=value)
    return bool(nx.negative_edge_cycle(graph))
