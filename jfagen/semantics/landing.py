"""Loads that land on the barrier of another one: `load_q[j] with load_lse[j]`."""

from __future__ import annotations

from dataclasses import replace

from ..algorithm import Engine, Op
from ..syntax import ast
from .context import Context
from .program import OpUse


def landing(context: Context, use: OpUse, first: ast.Op, loop: list[OpUse]) -> OpUse:
    """Return a load that lands on the barrier of another one; report what cannot."""
    name = first.name.text
    leader = next((one for one in reversed(loop) if one.op.name == name), None)
    if leader is None:
        return use
    loads = {one.op.engine for one in (use, leader)} == {Engine.LOAD}
    slots = [_slots(context, one.op) for one in (use, leader)]
    if not loads:
        why = f"`{(use if use.op.engine is not Engine.LOAD else leader).op.name}` is no load"
    elif use.offset != leader.offset:
        why = "they load for different steps"
    elif slots[0] != slots[1]:
        why = f"their rings have {slots[0]} and {slots[1]} slots"
    else:
        return replace(use, lands_with=name)
    context.reporter.report(
        "bad-with",
        f"`{use.op.name}` cannot land on the barrier of `{name}`: {why}",
        use.span,
        helps=(
            f"give them rings of one depth and the same step, or place `{use.span.text}` alone",
        ),
    )
    return use


def _slots(context: Context, op: Op) -> int:
    """Return the slots of the ring that an op fills; 0 if none is declared."""
    values = {access.value for access in op.accesses()}
    buffers = context.buffers.values()
    return next((b.depth for b in buffers if values & set(b.holds)), 0)
