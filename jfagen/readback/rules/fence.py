"""fence: SMEM that warps write and TMA or MMA reads is fenced before it is handed over.

What: between a store to such a tile and the next arrival of the role stands
`tlx.fence("async_shared")`.

Why: TMA and the tensor core read SMEM through the async proxy, which does not see generic stores
until a proxy fence.

Example: `finish` stores the result tile, which `store_out` reads by TMA.

Fix: the fence is derived; a text that lacks it was edited by hand.

Assumes: the compiler inserts a fence of its own only in the role that issues the TMA store.
"""

from __future__ import annotations

from ..finding import Finding
from ..order import TextOrder
from ..trace import ActionKind

ID = "fence"
PROVES = "SMEM that warps write and TMA or MMA reads is fenced"


def check(order: TextOrder) -> list[Finding]:
    """Find tiles in SMEM that warps write and the async proxy reads without a fence between."""
    trace = order.trace
    read = {
        region.array
        for actions in trace.actions.values()
        for action in actions
        if action.kind in (ActionKind.STORE, ActionKind.MMA)
        for region in action.reads
        if trace.tiles[region.array].storage == "smem"
    }
    found: dict[int, Finding] = {}
    for role, actions in trace.actions.items():
        open_line = 0
        for action in actions:
            if action.kind is ActionKind.WRITE and action.writes[0].array in read:
                open_line = action.line
            elif action.kind is ActionKind.FENCE and action.tensor == "async_shared":
                open_line = 0
            elif action.kind in (ActionKind.ARRIVE, ActionKind.STORE) and open_line:
                message = f"`{role.name}` hands SMEM to the async proxy without a fence"
                found.setdefault(open_line, Finding("fence", (open_line, action.line), message))
    return list(found.values())
