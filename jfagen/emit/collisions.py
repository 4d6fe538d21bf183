"""Names of a schedule that clash in the text: found in the text, not in a list kept by hand."""

from __future__ import annotations

import ast
import builtins
import keyword
from collections import Counter
from dataclasses import dataclass

from ..diagnostics import Diagnostic, Label, Span, put
from ..semantics.program import Program


@dataclass(frozen=True, slots=True)
class _Bound:
    """The names that a kernel file binds.

    Attributes:
        top: at module level, with repetitions.
        parameters: of the kernel.
        allocated: by the kernel before its roles, with repetitions.
        inside: by roles, helpers and the host part, without loop variables over groups.
    """

    top: Counter[str]
    parameters: frozenset[str]
    allocated: Counter[str]
    inside: frozenset[str]


def clashes(program: Program, text: str) -> list[Diagnostic]:
    """Return one finding for every name that the text would use for two things."""
    bound = _bound(program, text)
    found: list[Diagnostic] = []
    everything = bound.parameters | bound.inside | set(bound.allocated)
    if program.name in everything or bound.top[program.name] > 1 or _is_word(program.name):
        found.append(_finding("kernel", program.name, program.name_span))
    symbol = program.tile.group_symbol
    if symbol and (symbol in everything or symbol in bound.top or _is_word(symbol)):
        found.append(_finding("group index", symbol, program.tile.symbol_span or program.tile.span))
    twice = {name for name, count in (bound.top + bound.allocated).items() if count > 1}
    twice |= set(bound.allocated) & (bound.parameters | bound.inside)
    for buffer in program.buffers:
        derived = [n for n in sorted(twice) if n.lower().startswith(f"{buffer.name.lower()}_")]
        if derived:
            found.append(_finding("buffer", buffer.name, buffer.span, derived[0]))
    return found


def _is_word(name: str) -> bool:
    return keyword.iskeyword(name) or hasattr(builtins, name)


def _finding(kind: str, name: str, span: Span, derived: str = "") -> Diagnostic:
    becomes = f", for it becomes `{derived}`" if derived else ""
    whose = "Python" if keyword.iskeyword(name) else "the kernel's text"
    other = f"my_{name.lower()}"
    advice = f"choose another name, such as `{other}`"
    return Diagnostic(
        id="reserved-name",
        message=f"`{name}` cannot be the name of a {kind}: it is a word of {whose}{becomes}",
        label=Label(span=span),
        # Buffers and the group index stand elsewhere too.
        helps=(put(advice, span, other) if kind == "kernel" else advice,),
    )


def _bound(program: Program, text: str) -> _Bound:
    tree = ast.parse(text)
    top: Counter[str] = Counter()
    allocated: Counter[str] = Counter()
    parameters: frozenset[str] = frozenset()
    inside: set[str] = set()
    for node in tree.body:
        top.update(_names(node))
        if not isinstance(node, ast.FunctionDef):
            continue
        if node.name == program.name and any(isinstance(n, ast.With) for n in node.body):
            parameters = frozenset(argument.arg for argument in node.args.args)
            for statement in node.body:
                if isinstance(statement, ast.Assign):
                    allocated.update(_names(statement))
                else:
                    inside |= _stored(statement, program.tile.group_symbol)
        else:
            inside |= {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
            inside |= _stored(node, None)
    return _Bound(top, parameters, allocated, frozenset(inside))


def _over_groups(loop: ast.For) -> bool:
    return ast.unparse(loop.iter) == "tl.static_range(GROUPS)"


def _names(node: ast.stmt) -> list[str]:
    """Return the names that one statement binds."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
        case ast.FunctionDef(name=name):
            return [name]
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return [alias.asname or alias.name for alias in aliases]
        case _:
            return []


def _stored(node: ast.AST, symbol: str | None) -> set[str]:
    """Return the names that are bound below a node; group loops bind the group index."""
    loops = {
        id(n.target)
        for n in ast.walk(node)
        if isinstance(n, ast.AnnAssign) or (isinstance(n, ast.For) and _over_groups(n))
        if isinstance(n.target, ast.Name) and n.target.id == symbol
    }
    return {
        n.id
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in loops
    }
