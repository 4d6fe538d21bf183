"""How far every node of an order is from its beginning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import networkx as nx

from .closure import Edge


def levels(weights: Sequence[int], edges: Iterable[Edge]) -> tuple[int, ...]:
    """Return the earliest level of each node: the weights of the longest path that leads to it.

    Args:
        weights: of every node, in levels that it takes.
        edges: an order without cycles.
    """
    graph: nx.DiGraph[int] = nx.DiGraph(list(edges))
    graph.add_nodes_from(range(len(weights)))
    level = [0] * len(weights)
    for node in nx.topological_sort(graph):
        for following in graph.successors(node):
            level[following] = max(level[following], level[node] + weights[node])
    return tuple(level)
