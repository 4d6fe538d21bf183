"""tiles: every tile exactly once, whatever the number of SMs, by every role alike.

What: the walk of every role is executed for 1, 2, 3 and 5 SMs and 1, 2, 5 and 7 tiles; together the
CTAs visit every tile once, all roles of a CTA the same ones; with cluster launch control there is
one request a tile and none after a refusal. Where a grid may be a bound, two ids more are handed
out than there are tiles: whoever gets only such does nothing.

Why: a tile that is left out keeps stale memory, one that is done twice races with itself.

Example: a zigzag whose last round is not full.

Fix: the walk is a template; a text that deals wrongly was edited by hand.

Assumes: other numbers of SMs and tiles are dealt by the same arithmetic.
"""

from __future__ import annotations

from ..finding import Finding
from ..kernel_text import KernelText
from ..recorder import Cta
from ..trace import ActionKind, Trace

ID = "tiles"
WORD = "enumerated"
PROVES = "every tile dealt exactly once, for 1 to 5 SMs and 1 to 7 tiles"

#: Numbers of SMs and of tiles that are enumerated: fewer, as many and more of the one.
SMS, TILES = (1, 2, 3, 5), (1, 2, 5, 7)


def check(text: KernelText, walk: str) -> list[Finding]:
    """Enumerate grids and tile lists; return the first that is dealt wrongly.

    Tiles have no steps here: the walk is the same for all, and the pipeline is never entered.

    Args:
        text: the kernel.
        walk: how its tiles are dealt: `clc`, `one_per_cta`, or a static deal.
    """
    bound = walk in ("clc", "one_per_cta")
    for number in TILES:
        offered = number + (text.spare_tiles(number) if bound else 0)
        for ctas in SMS:
            grid = offered if bound else min(ctas, number)
            found = _deal(text, walk, number, offered, ctas, grid)
            if found is not None:
                return [found]
    return []


def _deal(
    text: KernelText, walk: str, number: int, offered: int, ctas: int, grid: int
) -> Finding | None:
    running = min(ctas, grid)
    handed = _handed(offered, running) if walk == "clc" else [None] * grid
    dealt: list[int] = []
    for index in range(running if walk == "clc" else grid):
        cta = Cta(index=index, number=grid, handed=handed[index])
        trace = text.trace((0,) * number, cta=cta)
        walks = set(trace.visited.values())
        if len(walks) != 1:
            return Finding("tiles", (0,), f"the roles of CTA {index} walk over different tiles")
        mine = walks.pop()
        if walk == "clc" and (wrong := _requests(trace, index, len(mine))) is not None:
            return wrong
        if mine and min(mine) >= number and (wrong := _works(trace, index)) is not None:
            return wrong
        dealt += mine
    if sorted(dealt) != list(range(offered)):
        return Finding("tiles", (0,), f"{number} tiles on {ctas} SMs are dealt as {sorted(dealt)}")
    return None


def _works(trace: Trace, index: int) -> Finding | None:
    """Return what a CTA does that got nothing but ids past the last tile."""
    idle = (ActionKind.ASK, ActionKind.TAKE, ActionKind.DRAIN)
    for actions in trace.actions.values():
        for action in actions:
            if action.kind not in idle:
                return Finding("tiles", (action.line,), f"CTA {index} works past the last tile")
    return None


def _handed(number: int, running: int) -> list[tuple[int, ...] | None]:
    """Return an uneven way to hand out the tiles that no running CTA started with."""
    rest = list(range(running, number))
    return [tuple(rest[index::running]) for index in range(running)]


def _requests(trace: Trace, index: int, tiles_worked_on: int) -> Finding | None:
    """One request for every tile, by one role; the last is refused and nobody asks again."""
    asks = {
        role: sum(action.kind is ActionKind.ASK for action in actions)
        for role, actions in trace.actions.items()
    }
    if sorted(asks.values())[-1] == sum(asks.values()) == tiles_worked_on:
        return None
    return Finding(
        "tiles", (0,), f"CTA {index} asks {sum(asks.values())} times for {tiles_worked_on}"
    )
