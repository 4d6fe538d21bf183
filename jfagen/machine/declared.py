"""The roles that a kernel text declares, read from the text alone."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .source import SourceMap, map_source

#: The CTA itself, before it splits into roles and after.
WHOLE_KERNEL = "kernel"


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
            tasks = [part for part in node.body if isinstance(part, ast.With)]
            for number, task in enumerate(task for task in tasks if _called(task) == "async_task"):
                role = _role(task, number, source, constants)
                roles.setdefault(role.name, role)
    return (*roles.values(), DeclaredRole(name=WHOLE_KERNEL, replicas=1))


def _called(node: ast.With) -> str:
    call = node.items[0].context_expr
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        return call.func.attr
    return ""


def _role(
    task: ast.With, number: int, source: SourceMap, constants: dict[str, int]
) -> DeclaredRole:
    call = task.items[0].context_expr
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
