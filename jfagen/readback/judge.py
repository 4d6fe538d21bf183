"""The rules on the text itself: deadlock, phases, races and fences of a trace."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from .execution import Place
from .memory import Spot, memory_map
from .order import TextOrder
from .trace import ActionKind


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a text.

    Attributes:
        rule: id of the rule.
        lines: of the text, the first one is the place.
        message: what is wrong, in words.
    """

    rule: str
    lines: tuple[int, ...]
    message: str


def judge(order: TextOrder) -> list[Finding]:
    """Return what the rules find; after a deadlock the others have nothing to stand on."""
    stuck = live(order)
    if stuck:
        return stuck
    return [*parity(order), *race(order), *fence(order)]


def _line(order: TextOrder, place: Place) -> int:
    return order.trace.actions[place[0]][place[1]].line


def live(order: TextOrder) -> list[Finding]:
    """Find roles that wait for ever."""
    places = order.execution.stuck
    if not places:
        return [] if order.closure is not None else [Finding("live", (0,), "the order has a cycle")]
    words: list[str] = []
    for role, index in places:
        action = order.trace.actions[role][index]
        what = f"`{action.signal.name}[{action.signal.index}]`" if action.signal else "a tile"
        words.append(f"`{role.name}` waits for {what} at line {action.line}")
    lines = tuple(_line(order, place) for place in places)
    return [Finding("live", lines, "the kernel hangs: " + "; ".join(words))]


def parity(order: TextOrder) -> list[Finding]:
    """Find waits that can pass early or be lapped, and arrivals that can fall into another phase."""
    closure = order.closure
    assert closure is not None
    found: dict[tuple[str, str], Finding] = {}
    for place, (signal, number) in order.execution.waits.items():
        node = order.starts[place]
        after = order.completions.get((signal, number + 1))
        if after is not None and not closure.ordered(node, after):
            found.setdefault(
                (signal.name, "lapped"),
                Finding("parity", (_line(order, place),), f"a wait on `{signal.name}` can be lapped"),
            )
        before = order.completions.get((signal, number - 1))
        if before is not None and not closure.ordered(before, node):
            found.setdefault(
                (signal.name, "early"),
                Finding("parity", (_line(order, place),), f"a wait on `{signal.name}` can pass early"),
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
                    (_line(order, place),),
                    f"arrivals of two phases of `{signal.name}` are not ordered",
                ),
            )
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Access:
    """One access: where, between which nodes, by whom."""

    spot: Spot
    begins: int
    ends: int
    writes: bool
    place: Place
    array: str


def accesses(order: TextOrder) -> dict[tuple[str, int], list[_Access]]:
    """Return every access, by root and copy."""
    where = memory_map(order.trace)
    found: dict[tuple[str, int], list[_Access]] = defaultdict(list)
    for role, actions in order.trace.actions.items():
        for index, action in enumerate(actions):
            place = (role, index)
            ends = order.ends[place]
            begins = ends if action.kind is ActionKind.MMA else order.starts[place]
            for regions, writes in ((action.reads, False), (action.writes, True)):
                for region in regions:
                    spot = where.spot(region)
                    access = _Access(spot, begins, ends, writes, place, region.array)
                    found[spot.root, spot.copy].append(access)
    return found


def race(order: TextOrder) -> list[Finding]:
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
                if before[second.begins] >> first.ends & 1 or before[first.begins] >> second.ends & 1:
                    continue
                lines = (_line(order, first.place), _line(order, second.place))
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


def fence(order: TextOrder) -> list[Finding]:
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
