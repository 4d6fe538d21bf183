"""Names that Python keeps for itself; what else a kernel's text uses is found in the text."""

from __future__ import annotations

import keyword

from ..diagnostics import put
from ..syntax import ast
from .context import Context


def check_names(context: Context) -> None:
    """Report names that could not stand in any Python text."""
    _check(context, "kernel", context.tree.name)
    tile = context.tree.tile
    for size in tile.sizes if tile else ():
        if size.groups is not None:
            _check(context, "group index", size.groups.symbol)


def _check(context: Context, kind: str, name: ast.Name) -> None:
    if keyword.iskeyword(name.text):
        other = f"my_{name.text.lower()}"
        advice = f"choose another name, such as `{other}`"
        # A group index stands elsewhere too.
        advice = put(advice, name.span, other) if kind == "kernel" else advice
        context.reporter.report(
            "reserved-name",
            f"`{name.text}` cannot be the name of a {kind}: it is a word of Python",
            name.span,
            helps=(advice,),
        )
