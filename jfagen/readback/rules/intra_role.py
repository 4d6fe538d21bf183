"""intra-role: warps of one role that read and rewrite the same TMEM meet in between.

What: a role of more than four warps does not rewrite tensor memory that it has read without a
rendezvous of all its warps since.

Why: four warps own 32 lanes each, and a thread sees only what it wrote itself. Eight warps share
the lanes in pairs and split the columns, otherwise for a wide tile than for a narrow one: one warp
may overwrite what the other has not read yet.

Example: eight warps that read 128 columns of scores and write 64 columns of P over them.

Fix: four warps a role; roles of eight are not built yet.

Assumes: every warp reaches TMEM by its own lanes alone (PTX ISA, "Tensor Memory Access").
"""

from __future__ import annotations

from ..finding import Finding
from ..memory import Spot, memory_map
from ..order import TextOrder
from ..trace import ActionKind

ID = "intra-role"
PROVES = "no role of more than four warps rewrites TMEM that its other warps still read"
LANE_WARPS = 4


def check(order: TextOrder) -> list[Finding]:
    """Return the first rewrite of every large role without a rendezvous since the read."""
    where = memory_map(order.trace)
    found: list[Finding] = []
    for role, actions in order.trace.actions.items():
        read: list[tuple[Spot, int]] = []
        for action in actions if role.warps > LANE_WARPS else ():
            if action.kind is ActionKind.WAIT:
                read.clear()
            elif action.kind is ActionKind.READ:
                read.append((where.spot(action.reads[0]), action.line))
            elif action.kind is ActionKind.WRITE:
                spot = where.spot(action.writes[0])
                lines = [line for earlier, line in read if earlier.overlaps(spot)]
                if lines:
                    message = f"`{role.name}` has {role.warps} warps and rewrites what they read"
                    found.append(Finding(ID, (action.line, lines[0]), message))
                    break
    return found
