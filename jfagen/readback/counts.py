"""Counts that the text declares twice: warps that arrive, roles that take a tile."""

from __future__ import annotations

from .recorder import ReadbackError
from .trace import ActionKind, Trace


def check_counts(trace: Trace, default_warps: int) -> None:
    """Hold declared counts against what the roles do.

    Args:
        trace: of the whole text.
        default_warps: warps of the role that declares none, from the launch options.

    Raises:
        ReadbackError: a barrier counts the threads of other warps than arrive, or the tile channel
            other consumers than take from it.
    """
    for role, actions in trace.actions.items():
        warps = role.warps or default_warps
        for action in actions:
            if action.kind is not ActionKind.ARRIVE or action.signal is None:
                continue
            barrier = trace.barriers[action.signal.name]
            if barrier.warps not in (0, warps):
                raise ReadbackError(
                    f"`{barrier.name}` counts the threads of {barrier.warps} warps; `{role.name}` "
                    f"arrives with {warps}",
                    barrier.line,
                )
    takers = [
        role
        for role, actions in trace.actions.items()
        if any(action.kind is ActionKind.TAKE for action in actions)
    ]
    if trace.consumers not in (0, len(takers)):
        raise ReadbackError(
            f"the tile channel counts {trace.consumers} consumers; {len(takers)} roles and "
            "replicas take from it",
            0,
        )
