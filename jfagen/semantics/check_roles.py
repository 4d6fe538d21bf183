"""Checks of roles: warps, registers, the default one, replicas."""

from __future__ import annotations

from ..diagnostics import Label, Note, listed
from ..syntax import ast
from .context import ROLE_WARPS, Context
from .program import Role


def check_roles(context: Context) -> None:
    """Resolve every role."""
    for node in context.tree.roles:
        if node.name.text in context.roles:
            context.twice("role", node.name, context.roles[node.name.text].span)
            continue
        indexed = context.group_symbol(node.group)
        context.roles[node.name.text] = Role(
            name=node.name.text,
            warps=_warps(context, node),
            registers=_registers(context, node),
            default=node.default is not None,
            replicas=context.tile.groups if indexed and context.tile else 1,
            indexed=indexed,
            span=node.name.span,
        )
    _check_default(context)


def _warps(context: Context, node: ast.Role) -> int:
    warps = context.number(node.warps, 0)
    if node.warps is None:
        context.reporter.report(
            "missing-warps",
            f"the role `{node.name.text}` says no `warps`",
            node.name.span,
            helps=("add `warps 4`, or `warps 1` for a role that only issues",),
        )
        return 4
    if warps not in ROLE_WARPS:
        context.reporter.report(
            "bad-warps",
            f"the role `{node.name.text}` has {warps} warps",
            node.warps.span,
            helps=(f"write {listed(map(str, ROLE_WARPS))}",),
        )
        return 4
    return warps


def _registers(context: Context, node: ast.Role) -> int | None:
    if node.default is not None:
        if node.registers is not None:
            context.reporter.report(
                "default-registers",
                f"the default role `{node.name.text}` cannot ask for registers",
                node.registers.span,
                helps=(f"it gets what the other roles leave: drop `{_said(node)}`",),
            )
        return None
    if node.registers is None:
        context.reporter.report(
            "missing-registers",
            f"the role `{node.name.text}` says no `registers`",
            node.name.span,
            helps=("every role but the default one asks: add `registers 24` or more",),
        )
        return 24
    registers = context.number(node.registers, 24)
    most = context.target.registers_per_thread
    if registers % 8 or not 24 <= registers <= most:
        near = {min(max(registers // 8 * 8 + more, 24), most) for more in (0, 8)}
        context.reporter.report(
            "bad-registers",
            f"registers of a thread are a multiple of 8 from 24 to {most}, not {registers}",
            node.registers.span,
            helps=(f"write {listed(map(str, sorted(near)))}",),
        )
        return 24
    return registers


def _said(node: ast.Role) -> str:
    return f"registers {node.registers.span.text}" if node.registers else "registers"


def _check_default(context: Context) -> None:
    defaults = [role for role in context.tree.roles if role.default is not None]
    if not defaults:
        context.reporter.report(
            "missing-default",
            "no role is the default one",
            context.tree.name.span,
            helps=("write `default` instead of `registers` in one role without replicas",),
        )
    for node in defaults[1:]:
        assert node.default is not None and defaults[0].default is not None
        context.reporter.report(
            "second-default",
            f"`{defaults[0].name.text}` is the default role already",
            node.default.span,
            notes=(Note(message="said here", label=Label(span=defaults[0].default.span)),),
            helps=("write `registers 24` or more instead",),
        )
    for node in defaults[:1]:
        if node.group is not None and context.roles[node.name.text].replicas > 1:
            context.reporter.report(
                "default-replicas",
                f"the default role cannot have replicas, and `{node.name.text}` is one for every "
                "group",
                node.group.span,
                helps=("make a role without replicas the default one",),
            )
