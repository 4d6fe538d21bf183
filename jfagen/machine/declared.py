"""The roles and the head dimension that a kernel text declares, read from the text alone."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from .source import SourceMap, map_source

#: The CTA itself, before it splits into roles and after.
WHOLE_KERNEL = "kernel"

_Q_BLOCK = re.compile(r"'q_desc': 'tensordesc<\w+\[[\d, ]*?(\d+)\]>'")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRole:
    """A role by its name; `replicas` is None where the text does not say how many there are."""

    name: str
    replicas: int | None

    def names(self) -> tuple[str, ...]:
        """Return the name of the role and those of its replicas, as far as they are known."""
        count = self.replicas or 1
        numbered = tuple(f"{self.name}[{i}]" for i in range(count)) if count > 1 else ()
        return (self.name, *numbered)

    def matches(self, name: str) -> bool:
        """Tell whether `name` may mean this role."""
        stem, bracket, index = name.partition("[")
        if self.replicas is None and bracket and index.removesuffix("]").isdecimal():
            return stem == self.name
        return name in self.names()


def declared_roles(text: str) -> tuple[DeclaredRole, ...]:
    """Return the roles of a kernel text in order, that of the whole kernel last.

    Raises:
        SyntaxError: the text is no Python.
    """
    tree = ast.parse(text)
    source = map_source(text, tree, "")
    constants = _constants(tree)
    roles: dict[str, DeclaredRole] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and _called(node) == "async_tasks":
            blocks = [part for part in node.body if isinstance(part, ast.With)]
            blocks = [block for block in blocks if _called(block) == "async_task"]
            for number, block in enumerate(blocks):
                role = _role(block, number, source, constants)
                roles.setdefault(role.name, role)
    return (*roles.values(), DeclaredRole(name=WHOLE_KERNEL, replicas=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredInputs:
    """What a kernel text takes.

    Attributes:
        jagged: whether it takes packed queries with offsets of their own.
        dtype: element type of q, k and v: `bf16` or `fp16`.
    """

    jagged: bool = False
    dtype: str = "bf16"


def declared_inputs(text: str) -> DeclaredInputs:
    """Return what the signature of a kernel text takes; broadcast bf16 where it does not say.

    Raises:
        SyntaxError: the text is no Python.
    """
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SIGNATURE":
            written = ast.unparse(node.value)
            dtype = "fp16" if "tensordesc<fp16" in written else "bf16"
            return DeclaredInputs(jagged="'q_offsets'" in written, dtype=dtype)
    return DeclaredInputs()


def declared_head_dim(text: str) -> int | None:
    """Return the head dimension that a kernel text is built for; None where it does not say.

    Either the module names `HEAD_DIM`, or the block of `q_desc` in its `SIGNATURE` ends with it.

    Raises:
        SyntaxError: the text is no Python.
    """
    tree = ast.parse(text)
    named = _constants(tree).get("HEAD_DIM")
    if named is not None:
        return named
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SIGNATURE":
            if found := _Q_BLOCK.search(ast.unparse(node.value)):
                return int(found[1])
    return None


def _called(node: ast.With) -> str:
    call = node.items[0].context_expr
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        return call.func.attr
    return ""


def _role(
    block: ast.With, number: int, source: SourceMap, constants: dict[str, int]
) -> DeclaredRole:
    call = block.items[0].context_expr
    assert isinstance(call, ast.Call)
    is_default = [ast.unparse(argument) for argument in call.args] == ["'default'"]
    fallback = "default" if is_default else f"role {number}"
    name = (source.role_name(call.lineno) or fallback).split("[")[0]
    replicas: int | None = 1
    for keyword in call.keywords:
        if keyword.arg == "replicate":
            replicas = _integer(keyword.value, constants)
    return DeclaredRole(name=name, replicas=replicas)


def _constants(tree: ast.Module) -> dict[str, int]:
    """Return the whole numbers that the module names: `N = 2` or `N = tl.constexpr(2)`."""
    constants = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value
            if isinstance(value, ast.Call) and len(value.args) == 1:
                value = value.args[0]
            if (number := _integer(value, {})) is not None:
                constants[node.targets[0].id] = number
    return constants


def _integer(node: ast.expr, constants: dict[str, int]) -> int | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    return constants.get(node.id) if isinstance(node, ast.Name) else None
