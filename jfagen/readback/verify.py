"""The last passes: the text is the plan, and what only the text shows is right."""

from __future__ import annotations

from ..passes.channels import SyncPlan
from ..passes.needed import steady_steps
from ..passes.placement import Placement
from ..planning import Plan
from ..semantics.program import NextTile
from . import compare
from .finding import Finding
from .kernel_text import KernelText, parse_kernel
from .order import TextOrder, order_of
from .rules import ORDER_RULES, TEXT_ONLY, live, tiles

#: The rules that `verify_text` adds to those on the plan.
TEXT_RULES = (*TEXT_ONLY, compare)


def verify_text(plan: Plan, placement: Placement, sync: SyncPlan, text: str) -> list[Finding]:
    """Return where the text departs from the plan, and what the rules on the text find."""
    kernel = parse_kernel(text)
    many = steady_steps(plan)
    single = plan.program.tiles.next is NextTile.NONE
    long, short = ((many,), (1,)) if single else ((many, 0, many), (1, 1, 1))
    found: list[Finding] = []
    # Laps with and without a mask are different lines of the text.
    for trips, full in ((long, False), (long, True), (short, True)):
        trace = kernel.trace(trips, full=full)
        found += [
            Finding(compare.ID, (difference.line,), difference.message)
            for difference in compare.differences(plan, placement, sync, trace)
        ]
        if not found:
            order = order_of(trace)
            found += [f for rule in TEXT_ONLY if rule is not tiles for f in rule.check(order)]
    # Several tile sequences may show the same.
    return list(dict.fromkeys(found)) or tiles.check(kernel, plan.program.tiles.next.value)


def prove_text(text: str) -> list[Finding]:
    """Return what the rules find in a kernel's text, edited by hand or not; no plan is needed."""
    kernel = parse_kernel(text)
    walk = tile_walk(text)
    for trips, full in text_sequences(kernel, walk):
        found = judge(order_of(kernel.trace(trips, full=full)))
        if found:
            return found
    return tiles.check(kernel, walk)


def judge(order: TextOrder) -> list[Finding]:
    """Return what the rules find; after a deadlock the others have nothing to stand on."""
    found = live.check(order)
    for rule in ORDER_RULES if not found else ():
        found += rule.check(order)
    return found


def tile_walk(text: str) -> str:
    """Return how the text goes from tile to tile."""
    if "tlx.clc_consumer" in text:
        return NextTile.CLC.value
    persistent = "tl.num_programs" in text
    return NextTile.ROUND_ROBIN.value if persistent else NextTile.NONE.value


def text_sequences(kernel: KernelText, walk: str) -> list[tuple[tuple[int, ...], bool]]:
    """Return the tile sequences that show every neighbourhood, from the depths in the text."""
    trace = kernel.trace((1,))
    depths = [b.number for b in trace.barriers.values()] + [t.number for t in trace.tiles.values()]
    many = max(depths) + 4
    if walk == NextTile.NONE.value:
        return [((many,), False), ((1,), False), ((many,), True), ((0,), False)]
    pairs = [(many, many), (1, many), (many, 1), (1, 1, 1), (many, 0, many), (0, 1), (0, 0)]
    pairs += [(2, 1, 1), (1, 1, 2), (2, 1, 2), (3, 1, 3)]
    return [*((pair, False) for pair in pairs), ((many, many), True)]
