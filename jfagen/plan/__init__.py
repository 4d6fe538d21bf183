"""The plan: the static places of a program and their unrolling over tiles and steps."""

from __future__ import annotations

from .events import Actor, Event, EventKind, Site, Touch, Unrolled
from .sites import Placed, Plan, make_plan
from .unroll import laps, unroll

__all__ = [
    "Actor",
    "Event",
    "EventKind",
    "Placed",
    "Plan",
    "Site",
    "Touch",
    "Unrolled",
    "laps",
    "make_plan",
    "unroll",
]
