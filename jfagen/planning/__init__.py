"""The plan: the static places of a program and their unrolling over tiles and steps."""

from __future__ import annotations

from .events import Actor, Event, EventKind, Site, Touch, Unrolled
from .move import COPY, Drain, Handed, Join, Move, TileMoves
from .moves import laps, tile_moves
from .sites import Placed, Plan, make_plan
from .unroll import unroll

__all__ = [
    "COPY",
    "Actor",
    "Drain",
    "Event",
    "EventKind",
    "Handed",
    "Join",
    "Move",
    "Placed",
    "Plan",
    "Site",
    "TileMoves",
    "Touch",
    "Unrolled",
    "laps",
    "make_plan",
    "tile_moves",
    "unroll",
]
