"""Read an emitted file without running it: its target, its budget and the lines of its roles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..comments import place_in
from .records import Arch, Budget, CompileFailed, Finding

_ROLE_COMMENT = re.compile(r"#\s*([A-Za-z_]\w*)(?:\[\w+\])?:")
_NEEDED = ("SIGNATURE", "OPTIONS")
_REGISTER_KEYWORDS = ("registers", "num_regs")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedRole:
    """One `with tlx.async_task(...)` block; lines count from 1 and the last one is included."""

    name: str
    source: str | None
    first_line: int
    last_line: int
    warps: int | None
    copies: int
    registers: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """What the emitted text says about its kernel."""

    kernel: str
    target: Arch | None
    budget: Budget
    roles: tuple[EmittedRole, ...]

    def role_at(self, line: int) -> str | None:
        """Return the name of the role whose block holds the line."""
        for role in self.roles:
            if role.first_line <= line <= role.last_line:
                return role.name
        return None


def read_emitted(text: str) -> Emitted:
    """Return what the emitted text declares, or raise `CompileFailed` with what it lacks."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise _refused(f"line {error.lineno} is not Python: {error.msg}") from None
    assigned = dict(_assignments(tree))
    missing = [name for name in _NEEDED if name not in assigned]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        raise _refused(f"the file does not define {names}")
    function = _kernel(tree, assigned)
    return Emitted(
        kernel=function.name,
        target=_target(assigned),
        budget=_budget(assigned),
        roles=tuple(_roles(function, text.splitlines(), assigned)),
    )


def _refused(message: str) -> CompileFailed:
    return CompileFailed(
        Finding(
            id="not-an-emitted-kernel",
            message=message,
            help="`compile` takes a schedule, or a Python file that `build` wrote",
        )
    )


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _target(assigned: dict[str, ast.expr]) -> Arch | None:
    if "TARGET" not in assigned:
        return None
    name = str(_literal(assigned, "TARGET"))
    if name not in list(Arch):
        known = ", ".join(f"`{arch}`" for arch in Arch)
        raise _refused(f"`TARGET` is `{name}`, known are {known}")
    return Arch(name)


def _literal(assigned: dict[str, ast.expr], name: str) -> object:
    try:
        return ast.literal_eval(assigned[name])
    except ValueError:
        raise _refused(f"`{name}` is not a plain literal") from None


def _budget(assigned: dict[str, ast.expr]) -> Budget:
    if "BUDGET" not in assigned:
        return Budget(registers={})
    stated = _literal(assigned, "BUDGET")
    if not isinstance(stated, dict):
        raise _refused("`BUDGET` is not a dictionary")
    return Budget(
        smem_bytes=stated.get("smem_bytes"),
        tmem_columns=stated.get("tmem_columns"),
        registers=dict(stated.get("registers", {})),
    )


def _default_warps(assigned: dict[str, ast.expr]) -> int | None:
    try:
        warps = ast.literal_eval(assigned["OPTIONS"]).get("num_warps")
    except ValueError:
        return None
    return warps if isinstance(warps, int) else None


def _kernel(tree: ast.Module, assigned: dict[str, ast.expr]) -> ast.FunctionDef:
    """Return the function that KERNEL names; without it, the only one that has roles."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if "KERNEL" in assigned:
        name = _literal(assigned, "KERNEL")
        named = [function for function in functions if function.name == name]
        if not named:
            raise _refused(f"`KERNEL` names `{name}`, and no function has that name")
        return named[-1]
    with_roles = [function for function in functions if any(_role_blocks(function))]
    if len(with_roles) != 1:
        raise _refused(f"the file does not define `KERNEL`, and {len(with_roles)} have roles")
    return with_roles[0]


def _role_blocks(function: ast.FunctionDef) -> Iterator[tuple[ast.With, ast.Call]]:
    """Yield every `with tlx.async_task(...)` block with its call, in the order of the text."""
    blocks = [node for node in ast.walk(function) if isinstance(node, ast.With)]
    for block in sorted(blocks, key=lambda node: node.lineno):
        match block.items[0].context_expr:
            case ast.Call(func=ast.Attribute(attr="async_task")) as call:
                yield block, call


def _roles(
    function: ast.FunctionDef, lines: list[str], assigned: dict[str, ast.expr]
) -> Iterator[EmittedRole]:
    default_warps = _default_warps(assigned)
    for block, call in _role_blocks(function):
        is_default = any(isinstance(argument, ast.Constant) for argument in call.args)
        name, source = _role_comment(lines, block.lineno)
        yield EmittedRole(
            name=name or ("default" if is_default else f"line {block.lineno}"),
            source=source,
            first_line=block.lineno,
            last_line=block.end_lineno or block.lineno,
            warps=default_warps if is_default else _integer(call, assigned, "num_warps"),
            copies=_integer(call, assigned, "replicate") or 1,
            registers=_integer(call, assigned, *_REGISTER_KEYWORDS),
        )


def _role_comment(lines: list[str], first_line: int) -> tuple[str | None, str | None]:
    """Return the role's name and its place in the schedule, from the comment above the block."""
    for line in reversed(lines[: first_line - 1]):
        if not line.lstrip().startswith("#"):
            break
        if found := _ROLE_COMMENT.match(line.strip()):
            return found.group(1), place_in(line)
    return None, None


def _integer(call: ast.Call, assigned: dict[str, ast.expr], *names: str) -> int | None:
    """Return the integer that the call passes under one of the names, named constants included."""
    for keyword in call.keywords:
        if keyword.arg not in names:
            continue
        value: ast.expr | None = keyword.value
        if isinstance(value, ast.Name):
            value = assigned.get(value.id)
        if isinstance(value, ast.Call) and len(value.args) == 1:  # tl.constexpr(2)
            value = value.args[0]
        if isinstance(value, ast.Constant) and isinstance(value.value, int):
            return value.value
    return None
