"""intra-role: warps of one role that read and rewrite the same TMEM meet in between.

A role of four warps reads and writes tensor memory lane by lane: every warp owns 32 lanes, and a
thread sees only what it wrote itself. With eight warps two of them share the lanes and split the
columns, otherwise for a wide tile than for a narrow one, so that one warp may overwrite what the
other has not read yet.
"""

from __future__ import annotations

from ..finding import Finding
from ..memory import memory_map
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
        if role.warps <= LANE_WARPS:
            continue
        read: list[tuple[object, int, int, int]] = []
        for action in actions:
            if action.kind is ActionKind.READ:
                spot = where.spot(action.reads[0])
                read.append(((spot.root, spot.copy), spot.start, spot.stop, action.line))
            elif action.kind is ActionKind.WRITE:
                spot = where.spot(action.writes[0])
                for place, start, stop, line in read:
                    if place == (spot.root, spot.copy) and start < spot.stop and spot.start < stop:
                        message = (
                            f"`{role.name}` has {role.warps} warps and rewrites what they still read"
                        )
                        found.append(Finding(ID, (action.line, line), message))
                        break
                if found:
                    break
            elif action.kind is ActionKind.WAIT:
                read.clear()
    return found
