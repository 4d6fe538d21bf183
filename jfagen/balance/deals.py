"""Four ways to deal tiles to the SMs: an order of the tiles, and the SM of each turn."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

import numpy as np
import numpy.typing as npt

from .tiles import Tiles

Integers = npt.NDArray[np.int64]


class Way(StrEnum):
    """How tiles are dealt.

    Attributes:
        GIVEN: as the sequences come, round robin.
        SORTED: most key rows first, round robin.
        ZIGZAG: most key rows first, round 0 from left to right, round 1 from right to left.
        GREEDY: most key rows first, each to the SM with the least load: what asking at run time
            for the next tile (cluster launch control) comes to.
    """

    GIVEN = "given"
    SORTED = "sorted"
    ZIGZAG = "zigzag"
    GREEDY = "greedy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """Who gets which tile.

    Attributes:
        way: how it was dealt.
        order: the number of the tile that each turn deals.
        sm: the SM that each turn deals to.
        loads: the cost of all tiles of each SM, in steps.
    """

    way: Way
    order: Integers
    sm: Integers
    loads: npt.NDArray[np.float64]

    def tiles(self, sm: int) -> list[int]:
        """Return the tiles of one SM, in the order in which it works on them."""
        return [int(tile) for tile in self.order[self.sm == sm]]


def deal(tiles: Tiles, sms: int, way: Way) -> Deal:
    """Deal all tiles to so many SMs."""
    order = np.arange(len(tiles)) if way is Way.GIVEN else longest_first(tiles)
    costs = tiles.costs[order]
    match way:
        case Way.GIVEN | Way.SORTED:
            sm = np.arange(len(tiles)) % sms
        case Way.ZIGZAG:
            sm = _zigzag(len(tiles), sms)
        case Way.GREEDY:
            sm = _greedy(costs, sms)
        case _ as unreachable:
            assert_never(unreachable)
    loads = np.bincount(sm, weights=costs, minlength=sms).astype(np.float64)
    return Deal(way=way, order=order, sm=sm, loads=loads)


def longest_first(tiles: Tiles) -> Integers:
    """Return the tiles, those with most key rows first; among equals the order stays."""
    return np.argsort(-tiles.key_rows, kind="stable")


def _zigzag(count: int, sms: int) -> Integers:
    lap, place = np.divmod(np.arange(count), sms)
    return np.where(lap % 2 == 0, place, sms - 1 - place)


def _greedy(costs: npt.NDArray[np.float64], sms: int) -> Integers:
    """Return the SM of each turn; among SMs of equal load the lowest gets the tile."""
    queue = [(0.0, sm) for sm in range(sms)]
    chosen = np.empty(len(costs), dtype=np.int64)
    for turn, cost in enumerate(costs.tolist()):
        load, sm = queue[0]
        chosen[turn] = sm
        heapq.heapreplace(queue, (load + cost, sm))
    return chosen
