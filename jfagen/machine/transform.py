"""From the text of a kernel file to code that the machine can run."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import TypeVar

from .source import SourceMap, map_source

TICK = "__machine_tick__"
KERNEL = "__machine_kernel__"

_Tree = TypeVar("_Tree", bound=ast.AST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters of a device function and which of them are compile-time constants."""

    names: tuple[str, ...]
    constants: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One kernel file, compiled: its host part, its device functions and facts on its lines."""

    host: CodeType
    device: CodeType
    parameters: dict[str, Parameters]
    source: SourceMap


@lru_cache(maxsize=512)
def compile_program(text: str, filename: str) -> Program:
    """Return the compiled parts of a kernel file.

    Raises:
        SyntaxError: the text is no Python.
    """
    tree = ast.parse(text, filename)
    source = map_source(text, tree, filename)
    host: list[ast.stmt] = []
    device: list[ast.stmt] = []
    parameters = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and is_device_function(node):
            parameters[node.name] = _parameters(node)
            host.append(_placeholder(node))
            device.append(device_function(node))
        else:
            host.append(node)
    return Program(
        host=_compile(host, filename),
        device=_compile(device, filename),
        parameters=parameters,
        source=source,
    )


def is_device_function(node: ast.FunctionDef) -> bool:
    """Tell whether a function is decorated with `triton.jit`."""
    return any(
        isinstance(part, ast.Attribute | ast.Name)
        and (part.attr if isinstance(part, ast.Attribute) else part.id) == "jit"
        for decorator in node.decorator_list
        for part in ast.walk(decorator)
    )


def device_function(node: ast.FunctionDef) -> ast.FunctionDef:
    """Return a device function without decorators and annotations, its roles as functions."""
    arguments = node.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    node.decorator_list = []
    node.returns = None
    outer = _assigned(node.body, skip_roles=True) | {a.arg for a in arguments.args}
    node.body = [_Roles(outer).visit(statement) for statement in node.body]
    return node


def compile_function(text: str, filename: str, first_line: int) -> CodeType:
    """Return the code that defines one device function of another file."""
    tree = ast.parse(text, filename)
    ast.increment_lineno(tree, first_line - 1)
    functions: list[ast.stmt] = [
        device_function(node) for node in tree.body if isinstance(node, ast.FunctionDef)
    ]
    return _compile(functions, filename)


def _compile(body: list[ast.stmt], filename: str) -> CodeType:
    module = ast.Module(body=body, type_ignores=[])
    # Annotations of constexpr locals and parameters name things that only a device has.
    return compile(ast.fix_missing_locations(module), filename, "exec", dont_inherit=True)


def _parameters(node: ast.FunctionDef) -> Parameters:
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    constants = {
        argument.arg
        for argument in arguments
        if argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation)
    }
    return Parameters(names=tuple(a.arg for a in arguments), constants=frozenset(constants))


def _placeholder(node: ast.FunctionDef) -> ast.stmt:
    call = ast.parse(f"{node.name} = {KERNEL}({node.name!r})").body[0]
    return ast.copy_location(call, node)


def _is_role(node: ast.stmt) -> bool:
    if not isinstance(node, ast.With) or len(node.items) != 1:
        return False
    call = node.items[0].context_expr
    if not isinstance(call, ast.Call):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return name == "async_task"


def _assigned(body: list[ast.stmt], *, skip_roles: bool) -> set[str]:
    names: set[str] = set()
    for statement in body:
        if skip_roles and _is_role(statement):
            continue
        for field in ("body", "orelse"):
            names |= _assigned(getattr(statement, field, []), skip_roles=skip_roles)
        if isinstance(statement, ast.If | ast.While | ast.With):
            continue
        for part in ast.walk(statement):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                names.add(part.id)
    return names


class _Roles(ast.NodeTransformer):
    """Turns each role into a function and counts the rounds of `while` loops."""

    def __init__(self, outer: set[str]) -> None:
        self._outer = outer
        self._number = 0

    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        tick = ast.parse(f"{TICK}()").body[0]
        node.body.insert(0, _relocate(tick, node))
        return node

    def visit_With(self, node: ast.With) -> ast.stmt:
        if not _is_role(node):
            self.generic_visit(node)
            return node
        # A role that changes a variable of the kernel works on its own copy.
        captured = sorted(_assigned(node.body, skip_roles=False) & self._outer)
        self.generic_visit(node)
        self._number += 1
        header = f"def role_{self._number}({', '.join(f'{n}={n}' for n in captured)}): pass"
        function = ast.parse(header).body[0]
        assert isinstance(function, ast.FunctionDef)
        _relocate(function, node)
        function.decorator_list = [node.items[0].context_expr]
        function.body = node.body
        return function


def _relocate(tree: _Tree, node: ast.stmt) -> _Tree:
    for part in ast.walk(tree):
        ast.copy_location(part, node)
    return tree
