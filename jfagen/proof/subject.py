"""What a rule looks at: the plan, its results, and the orders of the tile sequences."""

from __future__ import annotations

from dataclasses import dataclass

from ..passes.channels import SyncPlan
from ..passes.needed import distant_tiles, steady_steps
from ..passes.placement import Placement
from ..planning import Plan
from ..semantics.program import NextTile
from .realize import Realized, realize


@dataclass(frozen=True, slots=True)
class Subject:
    """A compiled schedule before its text.

    Attributes:
        realized: one order for every tile sequence that is proved.
    """

    plan: Plan
    placement: Placement
    sync: SyncPlan
    realized: tuple[Realized, ...]


def tile_sequences(plan: Plan) -> tuple[tuple[int, ...], ...]:
    """Return tiles of 0, 1 and N steps in every order of two, (N, 0, N), (1, 1, 1), and short ones.

    Where offsets differ, the first and last laps of a short tile meet: so tiles of 2 to N - 1 steps
    are looked at too, two alike and beside one of a single step; where a ring holds several tiles,
    also those that share a slot of it. A CTA that runs one tile has just one of each length.

    N is the largest lag plus the largest depth plus one: by then every order of the endless loop
    has shown itself (checked against longer unrollings and brute force in the tests).
    """
    many = steady_steps(plan)
    lengths = (0, 1, many)
    if plan.program.tiles.next is NextTile.NONE:
        return tuple((steps,) for steps in range(many + 1))
    short = [pair for steps in range(2, many) for pair in ((steps, steps), (1, steps), (steps, 1))]
    pairs = tuple((first, second) for first in lengths for second in lengths)
    return (*pairs, (many, 0, many), (1, 1, 1), *short, *distant_tiles(plan))


def make_subject(plan: Plan, placement: Placement, sync: SyncPlan) -> Subject:
    """Return the subject with every tile sequence realized once."""
    orders = tuple(realize(plan, sync, trips) for trips in tile_sequences(plan))
    return Subject(plan=plan, placement=placement, sync=sync, realized=orders)
