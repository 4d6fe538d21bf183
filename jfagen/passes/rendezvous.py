"""Rendezvous: where the warps of one role meet before some of them rewrite what others still read.

Four warps own 32 lanes of tensor memory each, and a thread rewrites only what it has read itself.
Eight warps share the lanes in pairs and split the columns of a tile in halves: another half of a
narrow tile than of the wide one that it lies over.
"""

from __future__ import annotations

from ..algorithm import Engine, Mode
from ..planning import Plan, Site, tile_moves
from ..semantics.program import RoleProgram
from ..target import WARPS_PER_GROUP
from ..types import Storage
from .layout import Extent, Layout

#: Steps after which every order of a loop has shown itself once more.
_STEPS = 3


def find_rendezvous(plan: Plan, layout: Layout) -> tuple[Site, ...]:
    """Return the sites before which all warps of their role have to meet.

    A write needs it if the role has read an overlapping part of tensor memory since it last met.
    What a barrier between the two implies is not asked for: a rendezvous costs a few cycles.
    """
    found: dict[Site, None] = {}
    for role_program in plan.program.role_programs:
        if role_program.role.warps > WARPS_PER_GROUP:
            _search(plan, layout, role_program, found)
    return tuple(sorted(found))


def _search(plan: Plan, layout: Layout, role_program: RoleProgram, found: dict[Site, None]) -> None:
    steps = _STEPS + max((abs(use.offset) for use in role_program.loop), default=0)
    read: list[Extent] = []
    for move in tile_moves(plan.program, role_program, steps):
        for group in move.use.groups or (-1,):
            for site in plan.sites[move.use.op.name, group]:
                if plan.engine(site) is not Engine.WARPS:
                    continue
                written = _extents(plan, layout, site, reads=False)
                if any(one.overlaps(other) for one in read for other in written):
                    found[site] = None
                    read.clear()
                read += _extents(plan, layout, site, reads=True)


def _extents(plan: Plan, layout: Layout, site: Site, *, reads: bool) -> list[Extent]:
    """Return the parts of tensor memory that are read at a site, or else written."""
    return [
        layout.extents[touch.buffer]
        for touch in plan.touches[site]
        if plan.program.buffer(touch.buffer).storage is Storage.TMEM
        and touch.mode is not (Mode.WRITE if reads else Mode.READ)
    ]
