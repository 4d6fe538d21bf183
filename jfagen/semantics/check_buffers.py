"""Checks of buffers: what they hold, shapes, memories, depth and slices."""

from __future__ import annotations

from ..algorithm import Element, Value
from ..diagnostics import Label, Note, did_you_mean, quoted
from ..syntax import ast
from ..types import DType, Storage
from .context import Context
from .program import Buffer, Problem

#: The deepest ring; slots beyond it never fit.
MOST_SLOTS = 16


def check_buffers(context: Context, problem: Problem | None) -> None:
    """Resolve every buffer, and see that every value has exactly one."""
    for node in context.tree.buffers:
        for name in node.names:
            if name.name.text in context.buffers:
                context.twice("buffer", name.name, context.buffers[name.name.text].span)
                continue
            buffer = _buffer(context, problem, node, name)
            if buffer is not None:
                context.buffers[buffer.name] = buffer
    if context.algorithm is not None:
        _check_values(context)


def _buffer(
    context: Context, problem: Problem | None, node: ast.Buffer, name: ast.BufferName
) -> Buffer | None:
    if node.lives is not None:
        context.not_built("`lives`", node.lives.span, "the compiler derives lifetimes: leave it out")
    algorithm = context.algorithm
    if algorithm is None:
        return None
    holds = tuple(held.text for held in node.holds) or (name.name.text,)
    known = [value.name for value in algorithm.values]
    for held in node.holds:
        if held.text not in known:
            context.unknown("value", held, known)
    if not node.holds and name.name.text not in known:
        context.reporter.report(
            "unknown-value",
            f"`{algorithm.name}` has no value `{name.name.text}`",
            name.name.span,
            helps=did_you_mean(name.name.text, known)
            or (f"say what it holds: `holds {known[0]}`, one of {quoted(known)}",),
        )
    values = [algorithm.value(held) for held in holds if held in known]
    storage = Storage(node.memory.text)
    grouped = context.group_symbol(name.group)
    for value in values:
        _check_value(context, node, name, value, storage, grouped)
    shape = tuple(_extent(context, dim) for dim in node.dims)
    buffer = Buffer(
        name=name.name.text,
        storage=storage,
        symbols=tuple(str(dim) if isinstance(dim, ast.Name) else str(dim.value) for dim in node.dims),
        shape=shape,
        dtype=_dtype(context, node, problem),
        depth=_depth(context, node, storage),
        holds=holds,
        slices=_slices(context, node, values, shape),
        grouped=grouped,
        span=name.name.span,
    )
    return buffer if len(values) == len(holds) else None


def _check_value(
    context: Context,
    node: ast.Buffer,
    name: ast.BufferName,
    value: Value,
    storage: Storage,
    grouped: bool,
) -> None:
    report = context.reporter.report
    if storage not in value.storages:
        legal = quoted(sorted(value.storages))
        report(
            "bad-memory",
            f"`{value.name}` cannot live in `{storage}`",
            node.memory.span,
            helps=(f"its ops need it in {legal}",),
        )
    dims = tuple(dim.text if isinstance(dim, ast.Name) else str(dim.value) for dim in node.dims)
    if dims != value.dims:
        report(
            "bad-shape",
            f"`{value.name}` has the shape [{', '.join(value.dims)}], not [{', '.join(dims)}]",
            node.dims[0].span.to(node.dims[-1].span),
        )
    wanted = DType.F32.value if value.element is Element.F32 else "bf16"
    if node.element.text not in (wanted, "dtype" if value.element is Element.INPUT else wanted):
        report(
            "bad-type",
            f"`{value.name}` has elements of type `{wanted}`, not `{node.element.text}`",
            node.element.span,
            helps=(f"write `{wanted}`",),
        )
    groups = context.tile.groups if context.tile else 1
    symbol = context.tile.group_symbol if context.tile else None
    if value.grouped and groups > 1 and not grouped:
        report(
            "missing-index",
            f"`{value.name}` is one for every group",
            name.name.span,
            helps=(f"write `{name.name.text}[{symbol}]`",),
        )
    if grouped and not value.grouped:
        report(
            "extra-index",
            f"`{value.name}` is the same for all groups",
            name.span,
            helps=(f"write `{name.name.text}`",),
        )


def _extent(context: Context, dim: ast.Name | ast.Number) -> int:
    if isinstance(dim, ast.Number):
        return dim.value
    if dim.text not in ("m", "n", "d"):
        context.unknown("dimension", dim, ("m", "n", "d"))
    return context.dims.get(dim.text, 128)


def _dtype(context: Context, node: ast.Buffer, problem: Problem | None) -> DType:
    text = node.element.text
    if text == "dtype":
        return problem.dtype if problem else DType.BF16
    if text not in list(DType):
        context.unknown("element type", node.element, [*DType, "dtype"])
        return DType.BF16
    return DType(text)


def _depth(context: Context, node: ast.Buffer, storage: Storage) -> int:
    depth = context.number(node.depth, 1)
    if node.depth is None:
        return 1
    if not 1 <= depth <= MOST_SLOTS:
        context.reporter.report(
            "bad-depth",
            f"depth must be 1 to {MOST_SLOTS}, got {depth}",
            node.depth.span,
            helps=("leave `depth` out for one slot",),
        )
        return 1
    if storage is Storage.REG and depth > 1:
        context.reporter.report("bad-depth", "registers have no depth", node.depth.span)
        return 1
    return depth


def _slices(
    context: Context, node: ast.Buffer, values: list[Value], shape: tuple[int, ...]
) -> int:
    slices = context.number(node.slices, 1)
    if node.slices is None or not values:
        return 1
    width = shape[-1] // slices if slices else 0
    if not values[0].sliceable:
        context.reporter.report(
            "bad-slices", f"`{values[0].name}` cannot be handed over in slices", node.slices.span
        )
    elif slices not in (1, 2, 4, 8) or width < 16:
        context.reporter.report(
            "bad-slices",
            f"{slices} slices of `{values[0].name}`, which is {shape[-1]} columns wide",
            node.slices.span,
            helps=("write 1, 2, 4 or 8: a slice has at least 16 columns, the depth of one MMA",),
        )
    else:
        return slices
    return 1


def _check_values(context: Context) -> None:
    """See that every value lives somewhere, and only there."""
    assert context.algorithm is not None
    report = context.reporter.report
    for value in context.algorithm.values:
        holders = [b for b in context.buffers.values() if value.name in b.holds]
        for second in holders[1:]:
            report(
                "held-twice",
                f"`{value.name}` lives in `{holders[0].name}` already",
                second.span,
                notes=(Note(message="first here", label=Label(span=holders[0].span)),),
            )
        if not holders and not context.reporter.has_errors():
            group = "[g]" if value.grouped and context.tile and context.tile.groups > 1 else ""
            element = "f32" if value.element is Element.F32 else "bf16"
            report(
                "missing-buffer",
                f"no buffer holds `{value.name}`",
                context.tree.name.span,
                helps=(
                    f"add `{sorted(value.storages)[0]} {value.name}{group} : "
                    f"{element}[{', '.join(value.dims)}]`",
                ),
            )
    for buffer in context.buffers.values():
        held = [context.algorithm.value(value) for value in buffer.holds]
        if len({(v.space, v.dims, v.element) for v in held}) > 1:
            report(
                "mixed-ring",
                f"{quoted(buffer.holds, 'and')} cannot take turns: they differ in shape or rhythm",
                buffer.span,
            )
        if len(held) > 1 and buffer.storage is not Storage.SMEM:
            report("mixed-ring", "only `smem` rings can hold several values", buffer.span)
