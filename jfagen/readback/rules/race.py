"""race, on the text: no two unordered accesses to the same memory, one of them a write."""

from __future__ import annotations

from ..accesses import accesses
from ..finding import Finding, line_of
from ..order import TextOrder

ID = "race"
PROVES = "no two unordered accesses to the same memory, one of them a write"


def check(order: TextOrder) -> list[Finding]:
    """Find accesses to the same memory, one of them a write, that nothing orders."""
    closure = order.closure
    assert closure is not None
    before = closure.before
    found: dict[tuple[int, int], Finding] = {}
    for group in accesses(order).values():
        group.sort(key=lambda access: access.spot.start)
        for index, first in enumerate(group):
            for second in group[index + 1 :]:
                if second.spot.start >= first.spot.stop:
                    break
                if not (first.writes or second.writes) or first.ends == second.begins:
                    continue
                if (
                    before[second.begins] >> first.ends & 1
                    or before[first.begins] >> second.ends & 1
                ):
                    continue
                lines = (line_of(order, first.place), line_of(order, second.place))
                found.setdefault(
                    (min(lines), max(lines)),
                    Finding(
                        "race",
                        lines,
                        f"nothing orders `{first.place[0].name}` on `{first.array}` and "
                        f"`{second.place[0].name}` on `{second.array}`",
                    ),
                )
    return list(found.values())
