"""parity, on the text: no wait passes early or is lapped, no arrival falls into another phase."""

from __future__ import annotations

from ..execution import Meeting
from ..finding import Finding, line_of
from ..order import TextOrder
from ..trace import Signal

ID = "parity"
PROVES = "no wait passes early or is lapped"


def check(order: TextOrder) -> list[Finding]:
    """Find waits that pass early or are lapped, and arrivals that fall into another phase."""
    closure = order.closure
    assert closure is not None
    found: dict[tuple[str, str], Finding] = {}
    for place, (signal, number) in order.execution.waits.items():
        node = order.starts[place]
        after = order.completions.get((signal, number + 1))
        if after is not None and not closure.ordered(node, after):
            found.setdefault(
                (signal.name, "lapped"),
                Finding(
                    "parity", (line_of(order, place),), f"a wait on `{signal.name}` can be lapped"
                ),
            )
        role, index = place
        previous = order.starts[role, index - 1] if index else -1
        earlier = order.sources.get((signal, number - 1), [])
        if any(s != previous and (index == 0 or not closure.ordered(s, previous)) for s in earlier):
            found.setdefault(
                (signal.name, "early"),
                Finding(
                    "parity", (line_of(order, place),), f"a wait on `{signal.name}` can pass early"
                ),
            )
    for (signal, number), sources in order.sources.items():
        earlier = order.sources.get((signal, number - 1), [])
        if any(
            first != second and not closure.ordered(first, second)
            for first in earlier
            for second in sources
        ):
            place = order.execution.arrivals[signal, number][0]
            found.setdefault(
                (signal.name, "twice"),
                Finding(
                    "parity",
                    (line_of(order, place),),
                    f"arrivals of two phases of `{signal.name}` are not ordered",
                ),
            )
    return [*found.values(), *_named(order)]


def _named(order: TextOrder) -> list[Finding]:
    """Find arrivals at a named barrier that may come before those of the generation before met."""
    closure = order.closure
    assert closure is not None
    if order.execution.again:
        words = "a second arrival at a named barrier, where nobody has met the first"
        return [Finding("parity", (line_of(order, order.execution.again[0]),), words)]
    last: dict[Signal, Meeting] = {}
    for meeting in order.execution.meetings:
        earlier = last.get(meeting.signal)
        last[meeting.signal] = meeting
        if meeting.threads != meeting.wanted:
            words = f"{meeting.threads} threads meet at a named barrier of {meeting.wanted}"
            return [Finding("parity", (line_of(order, meeting.waiter),), words)]
        for place in meeting.arrivals if earlier else ():
            assert earlier is not None
            if not closure.ordered(order.starts[earlier.waiter], order.starts[place]):
                words = "an arrival at a named barrier can fall into the generation before"
                return [Finding("parity", (line_of(order, place),), words)]
    return []
