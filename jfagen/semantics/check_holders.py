"""Checks that every value has exactly one buffer."""

from __future__ import annotations

from ..algorithm import Algorithm, Space, Value
from ..diagnostics import Edit, Fix, Label, Note, below, drop, put, without
from ..syntax import ast
from ..types import Storage
from .check_buffers import element_of, memories
from .context import Context
from .program import Buffer, Problem


def check_holders(context: Context, problem: Problem | None) -> None:
    """See that every value lives somewhere, and only there."""
    algorithm = context.algorithm
    if algorithm is None:
        return
    for value in (value for value in algorithm.values if not value.staging):
        holders = [b for b in context.buffers.values() if value.name in b.holds]
        for second in holders[1:]:
            held = _values_of(context, second)
            place = next((one.span for one in held if one.text == value.name), None)
            advice = f"keep `{value.name}` in one of the two"
            if place is not None and len(held) > 1:
                advice = without(advice, place, [one.span for one in held])
            elif second.declared is not None:
                advice = drop(advice, second.declared.whole)
            context.reporter.report(
                "held-twice",
                f"`{value.name}` lives in `{holders[0].name}` already",
                place or second.span,
                notes=(Note(message="first here", label=Label(span=holders[0].span)),),
                helps=(advice,),
            )
        if not holders and not context.broken:
            context.reporter.report(
                "missing-buffer",
                f"no buffer holds `{value.name}`",
                context.tree.name.span,
                helps=_holder_helps(context, algorithm, problem, value),
            )


def _values_of(context: Context, buffer: Buffer) -> tuple[ast.Name, ...]:
    """Return the values that a buffer says it holds; none if its name says so."""
    for node in context.tree.buffers:
        if any(name.name.text == buffer.name for name in node.names):
            return node.holds
    return ()


def _holder_helps(
    context: Context, algorithm: Algorithm, problem: Problem | None, value: Value
) -> tuple[str, ...]:
    """Return the ring that could hold a value, or the declaration that is missing."""
    for buffer in context.buffers.values():
        first = algorithm.value(buffer.holds[0])
        alike = (first.space, first.dims, first.grouped, first.element) == (
            *(value.space, value.dims, value.grouped, value.element),
        )
        in_smem = buffer.storage is Storage.SMEM and Storage.SMEM in memories(context, value)
        if value.space is Space.STEP and in_smem and alike:
            both = ", ".join([*buffer.holds, value.name])
            advice = f"let `{buffer.name}` hold it: `holds {both}`"
            return (_held_too(advice, buffer, both, _values_of(context, buffer)),)
    symbol = context.tile.group_symbol if context.tile and value.grouped else None
    group = f"[{symbol}]" if symbol else ""
    element = element_of(context, value, problem)
    memory = sorted(memories(context, value))[-1]  # `tmem` before `reg`, which cannot cross roles
    dims = ", ".join(context.dims_of(value))
    line = f"{memory} {value.name}{group} : {element}[{dims}]"
    advice, declared = f"add `{line}`", context.tree.buffers
    return (below(advice, declared[-1].span, line) if declared else advice,)


def _held_too(advice: str, buffer: Buffer, values: str, held: tuple[ast.Name, ...]) -> str:
    """Return the advice that a buffer holds other values than those it says it holds."""
    if held:
        return put(advice, held[0].span.to(held[-1].span), values)
    if buffer.declared is None:
        return advice
    whole = buffer.declared.whole
    end = whole.source.span(whole.end, whole.end)
    return Fix(advice, Edit(end, f"  holds {values}"))
