"""Ops that go out in column slices: what the schedule says of them, before buffers are checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..algorithm import Algorithm, Mode, Op, Value
from ..diagnostics import (
    Label,
    Note,
    below,
    drop,
    listed,
    meant,
    only_choice,
    phrase,
    put,
    quoted,
    write,
)
from ..syntax import ast
from .context import Context
from .program import Buffer, OpUse, Staging

#: Columns of a slice: 64 to 256 bytes of float32 a row, which TMA takes in one or two boxes.
SLICE_COLUMNS = (16, 32, 64)
#: What an example says: a TMA box of 128 bytes a row.
_EXAMPLE_COLUMNS = 32
#: Slices that a role can hold: each takes registers for all of its columns.
MOST_HELD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedOp:
    """One op in slices as the schedule says it.

    Attributes:
        node: the whole phrase.
        op: the op.
        source: the value that is sent out.
        part: the value of one slice on its way.
        columns: of a slice.
        pieces: slices of the tile.
        fits: whether slices can be that wide.
        width: columns of the tile.
    """

    node: ast.Staged
    op: Op
    source: Value
    part: Value
    columns: int
    pieces: int
    fits: bool
    width: int


#: Why there is one width only where a tile lies in registers.
_WHOLE = "from registers a tile goes out whole, as its threads hold it"


def staged_ops(context: Context) -> tuple[StagedOp, ...]:
    """Return every op that the schedule sends out in slices; what is wrong is told elsewhere."""
    algorithm = context.algorithm
    found: list[StagedOp] = []
    for node in staged_nodes(context.tree) if algorithm is not None else ():
        assert algorithm is not None
        ops = [op for op in algorithm.ops if op.name == node.op.name.text and op.staged]
        if not ops:
            continue
        source, part = staged_values(algorithm, ops[0])
        columns, width = context.chosen(node.width).value, _width(context, source)
        fits = columns in _sizes(context, width)
        found.append(
            StagedOp(
                node=node,
                op=ops[0],
                source=source,
                part=part,
                columns=columns,
                pieces=width // columns if fits else 1,
                fits=fits,
                width=width,
            )
        )
    return tuple(found)


def lacks_stage(context: Context) -> bool:
    """Whether an op is placed that goes out in slices, but through no buffer that is declared."""
    ops = context.algorithm.ops if context.algorithm else ()
    names = {op.name for op in ops if op.staged and _direct(context, op) is None}
    declared = {name.name.text for node in context.tree.buffers for name in node.names}
    return any(
        step.through.text not in declared
        if isinstance(step, ast.Staged)
        else isinstance(step, ast.Op) and step.name.text in names
        for item in context.tree.program
        for block in (item.blocks if isinstance(item, ast.Loop) else (item,))
        for step in block.steps
    )


def staged_nodes(tree: ast.Schedule) -> Iterator[ast.Staged]:
    """Yield every phrase with slices."""
    for item in tree.program:
        for block in item.blocks if isinstance(item, ast.Loop) else (item,):
            yield from (step for step in block.steps if isinstance(step, ast.Staged))


def staged_values(algorithm: Algorithm, op: Op) -> tuple[Value, Value]:
    """Return the tile that an op sends out, and the slice that is on its way."""
    source = next(a.value for a in op.accesses() if a.mode is Mode.READ)
    part = next(a.value for a in op.accesses() if algorithm.value(a.value).staging)
    return algorithm.value(source), algorithm.value(part)


def _check_slices(context: Context, staged: StagedOp) -> None:
    """Report slices of a width that cannot be, and more of them held than there are."""
    node, report = staged.node, context.reporter.report
    width = _width(context, staged.source)
    legal = _sizes(context, width)
    context.number(node.width, legal[0])
    if staged.columns not in legal:
        place, texts = context.chosen(node.width).span, [*map(str, legal)]
        advice = f"write {listed(texts)}"
        # A tile of another width, in another kernel, is not to be sliced alike.
        fixed = not context.instance.varies("head_dim")
        report(
            "bad-slices",
            f"slices of {staged.columns} columns of `{staged.source.name}`, which is {width} wide",
            place,
            notes=(Note(message=_WHOLE),) if context.target.joins else (),
            helps=(only_choice(advice, place, texts) if fixed else advice,),
        )
        return
    hold = context.number(node.hold, 0)
    if node.hold is not None and hold and context.target.joins:
        words = f"drop `hold {node.hold.span.text}`"
        report(
            "bad-hold",
            f"`{staged.source.name}` is in registers already: there is nothing to hold",
            context.chosen(node.hold).span,
            helps=(drop(words, phrase("hold", node.hold.span)),),
        )
        return
    most = min(staged.pieces, MOST_HELD)
    if node.hold is not None and hold > most:
        report(
            "bad-hold",
            f"{hold} slices are to be held, but of {staged.pieces} slices at most {most} can be",
            context.chosen(node.hold).span,
            helps=(f"write {listed(map(str, range(most + 1)))}",),
        )


def _sizes(context: Context, width: int) -> list[int]:
    """Return the columns that a slice of a tile may have.

    From registers a tile goes out as its threads hold it: whole.
    """
    if context.target.joins:
        return [width]
    return [columns for columns in SLICE_COLUMNS if columns <= width]


def _width(context: Context, source: Value) -> int:
    """Return the columns of the tile that is sent out."""
    return context.extent(context.dims_of(source)[1])


def staged_use(context: Context, use: OpUse, node: ast.Staged | None) -> OpUse | None:
    """Return a use with the slices in which it goes out; report what is wrong, None if it is lost.

    Args:
        context: the check.
        use: the op as placed.
        node: the phrase in which it stands; None if it says nothing of slices.
    """
    if node is None:
        if (direct := _direct(context, use.op)) is not None:
            return replace(use, op=direct)
        if use.op.staged:
            context.reporter.report(
                "missing-slices",
                f"`{use.op.name}` goes out in slices, through a ring of staging buffers",
                use.span,
                helps=(write(use.span, _example(context, use)),),
            )
        return None if use.op.staged else use
    if not use.op.staged:
        _no_slices(context, node, use.op)
        return use
    staged = next(one for one in staged_ops(context) if one.node is node)
    _check_slices(context, staged)
    buffer = context.buffers.get(node.through.text)
    if buffer is None:
        _no_stage(context, staged)
        return None
    if staged.part.name not in buffer.holds:
        _holds_a_value(context, staged, buffer)
        return None
    staging = Staging(
        buffer=buffer.name,
        pieces=staged.pieces,
        hold=context.number(node.hold, 0),
    )
    return replace(use, staging=staging)


def _direct(context: Context, op: Op) -> Op | None:
    """Return an op as it is without slices, out of registers; None if it has to have them."""
    if not (op.direct and context.target.joins):
        return None
    return replace(op, points=op.direct, staged=False, direct=())


def _holds_a_value(context: Context, staged: StagedOp, buffer: Buffer) -> None:
    context.reporter.report(
        "bad-stage",
        f"`{buffer.name}` holds `{buffer.holds[0]}`, slices need a ring of their own",
        staged.node.through.span,
        notes=(Note(message="declared here", label=Label(span=buffer.span)),),
        helps=(f"write another name, and add `{_declaration(context, staged, 'stage')}`",),
    )


def _declaration(context: Context, staged: StagedOp, name: str) -> str:
    """Return the line that declares a ring of staging buffers."""
    symbol = context.tile.group_symbol if context.tile else None
    group = f"[{symbol}]" if symbol else ""
    return f"smem {name}{group} : f32[{staged.part.dims[0]}, {staged.columns}]  depth 2"


def _no_stage(context: Context, staged: StagedOp) -> None:
    through = staged.node.through
    declared = [name.name.text for node in context.tree.buffers for name in node.names]
    if through.text in declared:
        return
    line = _declaration(context, staged, through.text)
    advice = f"add `{line}`"
    if context.tree.buffers:
        advice = below(advice, context.tree.buffers[-1].span, line)
    context.reporter.report(
        "unknown-buffer",
        f"there is no buffer `{through.text}`",
        through.span,
        helps=meant(through.span, declared) or (advice,),
    )


def _example(context: Context, use: OpUse) -> str:
    """Return how an op in slices is written."""
    assert context.algorithm is not None
    source, _ = staged_values(context.algorithm, use.op)
    sizes = _sizes(context, _width(context, source))
    columns = _EXAMPLE_COLUMNS if _EXAMPLE_COLUMNS in sizes else sizes[0]
    return f"{use.span.text} in slices of {columns} through {_stage_name(context)}"


def _stage_name(context: Context) -> str:
    """Return a buffer that is declared for slices, or a name for one."""
    found = [
        name.name.text
        for node in context.tree.buffers
        for name in node.names
        if any(isinstance(dim, ast.Number | ast.Share) for dim in node.dims)
    ]
    return found[0] if found else "stage"


def _no_slices(context: Context, node: ast.Staged, op: Op) -> None:
    """Report slices of an op that does not go out in slices."""
    names = (
        [other.name for other in context.algorithm.ops if other.staged]
        if (context.algorithm)
        else []
    )
    rest = node.op.span.source.span(node.op.span.end, node.span.end)
    blanks = len(rest.text) - len(rest.text.lstrip())
    word = rest.source.span(rest.start + blanks, rest.start + blanks + len("in"))
    only = f": only {quoted(names, 'and')} does" if names else ""
    context.reporter.report(
        "bad-slices",
        f"`{op.name}` does not go out in slices{only}",
        word,
        helps=(put(f"write `{node.op.span.text}` alone", node.span, node.op.span.text),),
    )
