"""Checks of roles: warps, registers, the default one, replicas."""

from __future__ import annotations

from collections.abc import Iterator

from ..algorithm import Engine
from ..diagnostics import (
    Counted,
    Label,
    Note,
    drop,
    inside,
    listed,
    only_choice,
    phrase,
    put,
)
from ..syntax import ast
from ..target import FEWEST_REGISTERS, REGISTER_STEP, default_role_registers
from .check_placement import LANE_WARPS
from .context import ROLE_WARPS, Context
from .program import Role


def check_roles(context: Context) -> None:
    """Resolve every role."""
    for node in context.tree.roles:
        if node.name.text in context.roles:
            first = context.roles[node.name.text].span
            context.twice("role", node.name, node.span, first)
            continue
        indexed = context.group_symbol(node.group)
        asked = context.chosen(node.registers) if node.registers else None
        context.roles[node.name.text] = Role(
            name=node.name.text,
            warps=_warps(context, node),
            registers=_registers(context, node),
            default=node.default is not None,
            replicas=context.tile.groups if indexed and context.tile else 1,
            indexed=indexed,
            span=node.name.span,
            declared=Counted(node.span, asked.span if asked else None),
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
            context.chosen(node.warps).span,
            helps=(_warps_help(context, node, node.warps),),
        )
        return 4
    return warps


def _warps_help(context: Context, node: ast.Role, warps: ast.Count) -> str:
    """Return what may be written: an op that warps execute wants exactly four."""
    ops = context.algorithm.ops if context.algorithm else ()
    mine = {step.name.text for step in _ops(context.tree, node.name.text)}
    legal = [set(op.warps) for op in ops if op.engine is Engine.WARPS and op.name in mine]
    if legal:
        common = sorted(set.intersection(*legal)) or [LANE_WARPS]
        texts = [*map(str, common)]
        words = f"write {listed(texts)}, which see all rows that `{node.name.text}` works on"
        return only_choice(words, context.chosen(warps).span, texts)
    return f"write {listed(map(str, ROLE_WARPS))}"


def _ops(tree: ast.Schedule, role: str) -> Iterator[ast.Op]:
    """Yield the ops in the blocks of a role."""
    for item in tree.program:
        for block in item.blocks if isinstance(item, ast.Loop) else (item,):
            steps = list(block.steps) if block.role.text == role else []
            while steps:
                step = steps.pop(0)
                if isinstance(step, ast.Turn):
                    steps[:0] = step.steps
                elif isinstance(step, ast.Landing):
                    yield from step.ops
                elif isinstance(step, ast.Staged):
                    yield step.op
                elif isinstance(step, ast.Op):
                    yield step


def _registers(context: Context, node: ast.Role) -> int | None:
    if node.default is not None:
        if node.registers is not None:
            asked = node.registers.span
            words = f"it gets what the other roles leave: drop `registers {asked.text}`"
            context.reporter.report(
                "default-registers",
                f"the default role `{node.name.text}` cannot ask for registers",
                asked,
                helps=(drop(words, phrase("registers", asked)),),
            )
        return None
    if node.registers is None:
        words = f"every role but the default one asks: add `registers {FEWEST_REGISTERS}` or more"
        context.reporter.report(
            "missing-registers",
            f"the role `{node.name.text}` says no `registers`",
            node.name.span,
            helps=(inside(words, node.span, f"registers {FEWEST_REGISTERS}"),),
        )
        return FEWEST_REGISTERS
    registers = context.number(node.registers, FEWEST_REGISTERS)
    most = context.target.registers_per_thread
    if registers % REGISTER_STEP or not FEWEST_REGISTERS <= registers <= most:
        fits = _most_registers(context, node)
        near = {
            min(max(registers // REGISTER_STEP * REGISTER_STEP + more, FEWEST_REGISTERS), fits)
            for more in (0, REGISTER_STEP)
        }
        texts = [*map(str, sorted(near))]
        context.reporter.report(
            "bad-registers",
            f"registers of a thread are a multiple of {REGISTER_STEP} from "
            f"{FEWEST_REGISTERS} to {most}, not {registers}",
            context.chosen(node.registers).span,
            helps=(
                only_choice(f"write {listed(texts)}", context.chosen(node.registers).span, texts),
            ),
        )
        return FEWEST_REGISTERS
    return registers


def _most_registers(context: Context, asking: ast.Role) -> int:
    """Return the most that a role may ask for, so that the default role is left with enough."""
    target, tile = context.target, context.tile
    default_warps, others = 4, []
    for node in context.tree.roles:
        warps = _plain(context, node.warps)
        warps = warps if warps in ROLE_WARPS else 4
        if node.default is not None:
            default_warps = warps
            continue
        asked = _plain(context, node.registers)
        legal = (
            asked % REGISTER_STEP == 0 and FEWEST_REGISTERS <= asked <= target.registers_per_thread
        )
        copies = tile.groups if tile and node.group else 1
        others += [(node is asking, warps, asked if legal else FEWEST_REGISTERS)] * copies
    for most in range(target.registers_per_thread, FEWEST_REGISTERS, -REGISTER_STEP):
        requests = [(warps, most if own else asked) for own, warps, asked in others]
        if default_role_registers(target, default_warps, requests) >= FEWEST_REGISTERS:
            return most
    return FEWEST_REGISTERS


def _plain(context: Context, count: ast.Count | None) -> int:
    """Return a number without a word about those that are not built."""
    return 0 if count is None else context.chosen(count).value


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
        words = f"write `registers {FEWEST_REGISTERS}` or more instead"
        context.reporter.report(
            "second-default",
            f"`{defaults[0].name.text}` is the default role already",
            node.default.span,
            notes=(Note(message="said here", label=Label(span=defaults[0].default.span)),),
            helps=(put(words, node.default.span, f"registers {FEWEST_REGISTERS}"),),
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
