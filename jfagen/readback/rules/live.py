"""live, on the text: no role waits for ever.

The trace is executed once; if the rule `parity` holds, every other order of events pairs arrivals,
phases and waits in the same way, so that one execution is enough.
"""

from __future__ import annotations

from ..finding import Finding, line_of
from ..order import TextOrder

ID = "live"
PROVES = "no deadlock, for tiles of 0, 1 and N steps in a row"


def check(order: TextOrder) -> list[Finding]:
    """Find roles that wait for ever."""
    places = order.execution.stuck
    if not places:
        return [] if order.closure is not None else [Finding("live", (0,), "the order has a cycle")]
    words: list[str] = []
    for role, index in places:
        action = order.trace.actions[role][index]
        what = f"`{action.signal.name}[{action.signal.index}]`" if action.signal else "a tile"
        words.append(f"`{role.name}` waits for {what} at line {action.line}")
    lines = tuple(line_of(order, place) for place in places)
    return [Finding("live", lines, "the kernel hangs: " + "; ".join(words))]
