"""The loop of a schedule: where it is, and whether its steps may begin anywhere."""

from __future__ import annotations

from ..diagnostics import drop
from ..syntax import ast
from .context import Context


def loop_of(tree: ast.Schedule) -> ast.Loop | None:
    """Return the schedule's loop."""
    return next((item for item in tree.program if isinstance(item, ast.Loop)), None)


def is_staggered(context: Context) -> bool:
    """Return whether the steps of a tile begin elsewhere in every CTA; report where they cannot."""
    loop, algorithm = loop_of(context.tree), context.algorithm
    if loop is None or loop.staggered is None or algorithm is None:
        return False
    if not algorithm.cyclic:
        context.reporter.report(
            "bad-loop",
            f"the steps of `{algorithm.name}` have a last one, so they cannot begin anywhere",
            loop.staggered.span,
            helps=(drop("leave it out", loop.staggered.span),),
        )
    return True
