"""Shapes of buffers as schedules write them."""

from __future__ import annotations

from ..algorithm import Value
from ..diagnostics import put
from ..syntax import ast
from .context import Context


def check_shape(context: Context, node: ast.Buffer, value: Value) -> None:
    """Report a buffer whose dimensions are not those of its value."""
    dims = tuple(map(_dim_text, node.dims))
    right = context.dims_of(value)
    if dims == right:
        return
    wrong = [i for i, pair in enumerate(zip(dims, right, strict=False)) if len({*pair}) > 1]
    place = whole = node.dims[0].span.to(node.dims[-1].span)
    if len(dims) == len(right) and len(wrong) == 1:
        place = node.dims[wrong[0]].span
    wanted = f"[{', '.join(right)}]"
    context.reporter.report(
        "bad-shape",
        f"`{value.name}` has the shape {wanted}, not [{', '.join(dims)}]",
        place,
        helps=(put(f"write `{wanted}`", whole, ", ".join(right)),),
    )


def written_extents(context: Context, node: ast.Buffer) -> tuple[int, ...]:
    """Return the shape of a buffer as it is written, in numbers."""
    return tuple(
        dim.value if isinstance(dim, ast.Number) else context.extent(_dim_text(dim))
        for dim in node.dims
    )


def _dim_text(dim: ast.Dim) -> str:
    match dim:
        case ast.Name():
            return dim.text
        case ast.Number():
            return str(dim.value)
        case ast.Share():
            return f"{dim.symbol.text}/{dim.parts.value}"
