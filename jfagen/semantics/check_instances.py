"""Checks of what depends on the instance: numbers with cases."""

from __future__ import annotations

from collections.abc import Iterator

from ..diagnostics import Label, Note, put, quoted, without
from ..syntax import ast
from .context import Context
from .instances import text_of


def check_cases(context: Context) -> None:
    """Report cases that no kernel of the schedule is in."""
    for count in _counts(context.tree):
        if isinstance(count, ast.Cases):
            _check(context, count)


def _counts(tree: ast.Schedule) -> Iterator[ast.Count | None]:
    for size in tree.tile.sizes if tree.tile else ():
        yield size.size
    for role in tree.roles:
        yield from (role.warps, role.registers)
    for buffer in tree.buffers:
        yield from (buffer.depth, buffer.slices)


def _check(context: Context, count: ast.Cases) -> None:
    seen: dict[tuple[str, str], ast.Case] = {}
    spans = [case.span for case in count.cases]
    for case in count.cases:
        field, value = case.field.text, text_of(case.value)
        first = seen.setdefault((field, value), case)
        offered = context.instance.offered.get(field, (value,))
        if first is not case:
            context.reporter.report(
                "said-twice",
                f"the case `{field} {value}` is given twice",
                case.span,
                notes=(Note(message="first given here", label=Label(span=first.span)),),
                helps=(without("keep one of the two: the first one counts", case.span, spans),),
            )
        elif value not in offered:
            default = str(count.default.value)
            instead = (
                put(f"write `{default}` alone", count.span, default)
                if len(count.cases) == 1
                else without(f"drop `{case.span.text}`", case.span, spans)
            )
            context.reporter.report(
                "idle-case",
                f"`{field}` is never {value}: the problem says {quoted(offered)}",
                case.field.span.to(case.value.span),
                helps=(instead,),
            )
