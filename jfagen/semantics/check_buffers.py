"""Checks of buffers: what they hold, shapes, memories, depth and slices."""

from __future__ import annotations

from dataclasses import replace

from ..algorithm import Algorithm, Element, Value
from ..diagnostics import (
    Counted,
    Fix,
    drop,
    meant,
    only_choice,
    phrase,
    put,
    quoted,
    without,
    write,
)
from ..syntax import ast
from ..types import DType, Storage
from .context import Context, first_word
from .program import Buffer, Problem
from .shapes import check_shape, written_extents
from .staging import SLICE_COLUMNS, StagedOp, lacks_stage, staged_ops

#: The deepest ring; slots beyond it never fit.
MOST_SLOTS = 16
#: The columns of a slice: the depth of one MMA.
FEWEST_COLUMNS = 16


def check_buffers(context: Context, problem: Problem | None) -> None:
    """Resolve every buffer."""
    algorithm = context.algorithm
    if algorithm is None:
        return
    staged = staged_ops(context)
    for node in context.tree.buffers:
        if node.lives is not None:
            instead = drop("leave it out: the compiler derives lifetimes", node.lives.span)
            context.not_built("`lives`", first_word(node.lives.span), instead)
        for name in node.names:
            if name.name.text in context.buffers:
                whole = node.span if len(node.names) == 1 else None
                context.twice("buffer", name.name, whole, context.buffers[name.name.text].span)
                continue
            value = name.name.text in {value.name for value in algorithm.values}
            through = [one for one in staged if one.node.through.text == name.name.text]
            through = [] if value else through
            if not through and _is_lost_stage(context, node, name):
                context.broken = True
            elif through:
                buffer = _staging_buffer(context, node, name, through[0])
                context.buffers[buffer.name] = buffer
            elif values := _values(context, algorithm, node, name):
                buffer = _buffer(context, problem, node, name, values)
                slices = [one.pieces for one in staged if one.source.name in buffer.holds]
                context.buffers[buffer.name] = (
                    replace(buffer, slices=slices[0]) if slices else buffer
                )
            else:
                context.broken = True


def _is_lost_stage(context: Context, node: ast.Buffer, name: ast.BufferName) -> bool:
    """Whether a buffer was meant for slices that the schedule does not send through it.

    The op that should say so is reported, and with it this buffer.
    """
    algorithm = context.algorithm
    known = {value.name for value in algorithm.values} if algorithm is not None else set()
    strange = not node.holds and name.name.text not in known
    return (
        strange
        and any(isinstance(dim, ast.Number | ast.Share) for dim in node.dims)
        and lacks_stage(context)
    )


def _staging_buffer(
    context: Context, node: ast.Buffer, name: ast.BufferName, staged: StagedOp
) -> Buffer:
    """Return a ring of staging buffers: a slot holds one slice."""
    value = staged.part
    # Slices of a width that cannot be are reported where they are said; from registers all of it.
    columns = staged.columns if staged.fits or not context.target.joins else staged.width
    dims = (value.dims[0], str(columns))
    part = replace(value, name=name.name.text, dims=dims, split="")
    grouped = context.group_symbol(name.group)
    _check_group(context, name, part, grouped)
    storage = _memory(context, node, part)
    shape = (context.extent(value.dims[0]), columns)
    known = staged.fits or columns in SLICE_COLUMNS or context.target.joins
    if known and written_extents(context, node) != shape:
        check_shape(context, node, part)
    _check_type(context, node, part, None)
    if node.holds:
        held = node.holds[0].span.to(node.holds[-1].span)
        context.reporter.report(
            "bad-stage",
            f"`{name.name.text}` holds slices of `{staged.source.name}`, nothing else",
            held,
            helps=(drop("drop `holds`, with its values", phrase("holds", held)),),
        )
    if node.slices is not None:
        _slices(context, node, part, storage, columns)
    return Buffer(
        name=name.name.text,
        storage=storage,
        symbols=part.dims,
        shape=shape,
        dtype=_dtype(part, None),
        depth=_depth(context, node, storage, 1),
        holds=(value.name,),
        slices=1,
        grouped=grouped,
        span=name.name.span,
        declared=_declared(context, node),
        turns=staged.pieces,
        flat=context.target.joins,
    )


def _values(
    context: Context, algorithm: Algorithm, node: ast.Buffer, name: ast.BufferName
) -> list[Value]:
    """Return the values that a buffer holds; none if one of them is unknown or does not fit in."""
    known = [value.name for value in algorithm.values if not value.staging]
    unknown = [held for held in node.holds if held.text not in known]
    for word in unknown:
        context.unknown("unknown-value", "value", word, known)
    if not node.holds and name.name.text not in known:
        helps = meant(name.name.span, known) or (
            f"a buffer is called after its value, or says `holds`; values: {quoted(known, 'and')}",
        )
        context.reporter.report(
            "unknown-value",
            f"there is no value `{name.name.text}` for this buffer to hold",
            name.name.span,
            helps=helps,
        )
        return []
    if unknown:
        return []
    held = node.holds or (name.name,)
    values = [algorithm.value(word.text) for word in held]
    return values if _can_take_turns(context, node, held, values) else []


def _can_take_turns(
    context: Context, node: ast.Buffer, held: tuple[ast.Name, ...], values: list[Value]
) -> bool:
    first = values[0]
    for word, value in zip(held[1:], values[1:], strict=True):
        different = [
            what
            for what, same in (
                (f"`{value.name}` is new once a {value.space}", value.space is first.space),
                (f"`{value.name}` is one for every group", value.grouped == first.grouped),
                (f"its shape is [{', '.join(value.dims)}]", value.dims == first.dims),
            )
            if not same
        ]
        if different or value.name == first.name or node.memory.text != Storage.SMEM:
            why = different[0] if different else "only `smem` has rings of several values"
            instead = f"give `{value.name}` a buffer of its own"
            if value.name == first.name:
                spans = [one.span for one in held]
                why, instead = "it is the same value", without("write it once", word.span, spans)
            context.reporter.report(
                "mixed-ring",
                f"`{value.name}` cannot take turns with `{first.name}`: {why}",
                word.span,
                helps=(instead,),
            )
            return False
    return True


def _buffer(
    context: Context,
    problem: Problem | None,
    node: ast.Buffer,
    name: ast.BufferName,
    values: list[Value],
) -> Buffer:
    value = values[0]
    grouped = context.group_symbol(name.group)
    storage = _memory(context, node, value)
    check_shape(context, node, value)
    _check_type(context, node, value, problem)
    _check_group(context, name, value, grouped)
    dims = context.dims_of(value)
    shape = tuple(map(context.extent, dims))
    return Buffer(
        name=name.name.text,
        storage=storage,
        symbols=dims,
        shape=shape,
        dtype=_dtype(value, problem),
        depth=_depth(context, node, storage, len(values)),
        holds=tuple(value.name for value in values),
        slices=_slices(context, node, value, storage, shape[-1]),
        grouped=grouped,
        span=name.name.span,
        declared=_declared(context, node),
    )


def _declared(context: Context, node: ast.Buffer) -> Counted | None:
    """Return where a buffer is declared by itself, with the number of its slots."""
    if len(node.names) > 1:
        return None
    return Counted(node.span, context.chosen(node.depth).span if node.depth else None)


def _memory(context: Context, node: ast.Buffer, value: Value) -> Storage:
    """Return the memory of a buffer, so that nothing follows from a wrong one."""
    legal = sorted(memories(context, value))
    if node.memory.text in legal:
        return Storage(node.memory.text)
    instead = only_choice(f"write {quoted(legal)}, where its ops need it", node.memory.span, legal)
    if node.memory.text == Storage.TMEM and not context.target.tmem_columns:
        context.lacks("`tmem`", node.memory.span, instead)
        return Storage.TMEM
    context.reporter.report(
        "bad-memory",
        f"`{value.name}` cannot live in `{node.memory.text}`",
        node.memory.span,
        helps=(instead,),
    )
    return legal[-1]


def memories(context: Context, value: Value) -> frozenset[Storage]:
    """Return the memories in which the ops of the target can use a value."""
    target, legal = context.target, set(value.storages)
    if not target.tmem_columns:
        legal.discard(Storage.TMEM)
    of_matmuls = context.algorithm is not None and context.algorithm.of_matmuls(value.name)
    if of_matmuls and not target.joins:
        legal.discard(Storage.REG)
    return frozenset(legal)


def _check_type(context: Context, node: ast.Buffer, value: Value, problem: Problem | None) -> None:
    wanted = element_of(context, value, problem)
    if node.element.text in (wanted, "dtype" if value.element is Element.INPUT else wanted):
        return
    types = context.instance.offered["dtype"] if wanted == "dtype" else (wanted,)
    context.reporter.report(
        "bad-type",
        f"`{value.name}` has elements of type {quoted(types)}, not "
        + ("always " if node.element.text in types else "")
        + f"`{node.element.text}`",
        node.element.span,
        helps=(write(node.element.span, wanted),),
    )


def _check_group(context: Context, name: ast.BufferName, value: Value, grouped: bool) -> None:
    tile = context.tile
    if tile is not None and value.grouped and tile.groups > 1 and not grouped:
        context.reporter.report(
            "missing-index",
            f"`{value.name}` is one for every group",
            name.name.span,
            helps=(write(name.span, f"{name.name.text}[{tile.group_symbol}]"),),
        )
    if grouped and not value.grouped:
        context.reporter.report(
            "extra-index",
            f"`{value.name}` is the same for all groups",
            name.span,
            helps=(write(name.span, name.name.text),),
        )


def _dtype(value: Value, problem: Problem | None) -> DType:
    if value.element is Element.F32:
        return DType.F32
    return problem.dtype if problem else DType.BF16


def element_of(context: Context, value: Value, problem: Problem | None) -> str:
    """Return the word for the elements of a value that is right in every instance."""
    if value.element is Element.INPUT and context.instance.varies("dtype"):
        return "dtype"
    return _dtype(value, problem).value


def _depth(context: Context, node: ast.Buffer, storage: Storage, values: int) -> int:
    depth = context.number(node.depth, 1)
    if node.depth is None:
        return 1
    if not 1 <= depth <= MOST_SLOTS:
        place = context.chosen(node.depth).span
        least = put(f"write `depth {values}` or more", place, str(values))
        context.reporter.report(
            "bad-depth",
            f"depth must be 1 to {MOST_SLOTS}, got {depth}",
            place,
            helps=(least if depth < 1 else f"write at most {MOST_SLOTS}",),
        )
        return 1
    if storage is Storage.REG and depth > 1:
        context.reporter.report(
            "bad-depth",
            "registers have one slot",
            node.depth.span,
            helps=(_dropped("depth", node.depth),),
        )
        return 1
    return depth


def _dropped(word: str, count: ast.Count) -> Fix:
    """Return the advice to drop a word with its number."""
    return drop(f"drop `{word} {count.span.text}`", phrase(word, count.span))


def _slices(context: Context, node: ast.Buffer, value: Value, storage: Storage, width: int) -> int:
    slices = context.number(node.slices, 1)
    if node.slices is None:
        return 1
    legal = [count for count in (1, 2, 4, 8) if width // count >= FEWEST_COLUMNS]
    if not value.sliceable:
        context.reporter.report(
            "bad-slices",
            f"`{value.name}` cannot be handed over in slices",
            node.slices.span,
            helps=(_dropped("slices", node.slices),),
        )
    elif storage is Storage.REG:
        context.reporter.report(
            "bad-slices",
            f"`{value.name}` stays in registers, so nobody takes it slice by slice",
            node.slices.span,
            helps=(_dropped("slices", node.slices),),
        )
    elif slices not in legal:
        context.reporter.report(
            "bad-slices",
            f"{slices} slices of `{value.name}`, which is {width} columns wide",
            context.chosen(node.slices).span,
            helps=(
                f"write {', '.join(map(str, legal[:-1]))} or {legal[-1]}: slices are equal and "
                f"have at least {FEWEST_COLUMNS} columns, the depth of one MMA",
            ),
        )
    else:
        return slices
    return 1
