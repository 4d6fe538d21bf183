"""intra-role: warps of one role that read and rewrite the same TMEM meet in between.

What: a role of more than four warps does not rewrite tensor memory that it has read without a
rendezvous of all its warps since, or a wait for what only all their arrivals make happen.

Why: four warps own 32 lanes each, and a thread sees only what it wrote itself. Eight warps share
the lanes in pairs and split the columns, otherwise for a wide tile than for a narrow one: one warp
may overwrite what the other has not read yet.

Example: eight warps that read 128 columns of scores and write 64 columns of P over them.

Fix: the rendezvous is derived; a text that lacks it was edited by hand.

Assumes: every warp reaches TMEM by its own lanes alone (PTX ISA, "Tensor Memory Access").
"""

from __future__ import annotations

from ...target import WARP_THREADS
from ..execution import Place
from ..finding import Finding
from ..memory import Spot, memory_map
from ..order import TextOrder
from ..trace import ActionKind, RoleText

ID = "intra-role"
PROVES = "no role of more than four warps rewrites TMEM that its other warps still read"
LANE_WARPS = 4


def check(order: TextOrder) -> list[Finding]:
    """Return the first rewrite of every large role without a rendezvous since the read."""
    return [
        found
        for role in order.trace.actions
        if _warps(order, role) > LANE_WARPS and (found := _first(order, role)) is not None
    ]


def _warps(order: TextOrder, role: RoleText) -> int:
    return role.warps or order.trace.default_warps


def _first(order: TextOrder, role: RoleText) -> Finding | None:
    """Return the first write over what the role has read, and not all warps have read for sure."""
    where, warps = memory_map(order.trace), _warps(order, role)
    read: list[tuple[Spot, int, int]] = []
    for index, action in enumerate(order.trace.actions[role]):
        if action.kind is ActionKind.MEET and action.value == warps * WARP_THREADS:
            read.clear()
        elif action.kind is ActionKind.WAIT:
            read = [one for one in read if not _through(order, (role, index), one[2])]
        elif action.kind is ActionKind.READ:
            read.append((where.spot(action.reads[0]), action.line, order.starts[role, index]))
        elif action.kind is ActionKind.WRITE:
            spot = where.spot(action.writes[0])
            lines = [line for earlier, line, _ in read if earlier.overlaps(spot)]
            if lines:
                message = f"`{role.name}` has {warps} warps and rewrites what they read"
                return Finding(ID, (action.line, lines[0]), message)
    return None


def _through(order: TextOrder, wait: Place, node: int) -> bool:
    """Whether a phase is complete only when all warps have made a read: they arrived since."""
    seen = order.execution.waits.get(wait)
    completion = order.completions.get(seen) if seen is not None else None
    closure = order.closure
    return completion is not None and closure is not None and closure.ordered(node, completion)
