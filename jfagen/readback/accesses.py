"""Every access of a text with its place in memory and in the order."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from .execution import Place
from .memory import Spot, memory_map
from .order import TextOrder
from .trace import ActionKind


@dataclass(frozen=True, slots=True)
class Access:
    """One access: where, between which nodes, by whom."""

    spot: Spot
    begins: int
    ends: int
    writes: bool
    place: Place
    array: str


def accesses(order: TextOrder) -> dict[tuple[str, int], list[Access]]:
    """Return every access, by root and copy."""
    where = memory_map(order.trace)
    found: dict[tuple[str, int], list[Access]] = defaultdict(list)
    for role, actions in order.trace.actions.items():
        for index, action in enumerate(actions):
            place = (role, index)
            ends = order.ends[place]
            in_order = action.kind is ActionKind.MMA and not action.joined
            begins = ends if in_order else order.starts[place]
            for regions, writes in ((action.reads, False), (action.writes, True)):
                for region in regions:
                    spot = where.spot(region)
                    access = Access(spot, begins, ends, writes, place, region.array)
                    found[spot.root, spot.copy].append(access)
    return found
