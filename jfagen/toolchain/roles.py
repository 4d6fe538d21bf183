"""Trace machine code back to roles, through the emitted line of each instruction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from .cfg import ControlFlow, control_flow, waiting_blocks
from .emitted import Emitted, EmittedRole
from .figures import (
    Family,
    HotLoop,
    count,
    hot_loops,
    instructions_of,
    lap_lengths,
    register_limit,
    registers_named,
)
from .records import LoopFigures, RoleFigures
from .sass import Instruction, Listing


def measure(
    listing: Listing, emitted: Emitted
) -> tuple[tuple[RoleFigures, ...], tuple[LoopFigures, ...]]:
    """Return the figures of every role and of every hot loop, in the order of the roles."""
    graph = control_flow(listing)
    waiting = waiting_blocks(graph)
    names = [role.name for role in emitted.roles]
    loops = [_loop(graph, loop, emitted) for loop in hot_loops(graph, waiting)]
    loops.sort(key=lambda loop: (names.index(loop.role) if loop.role else -1, loop.address))
    roles = tuple(_role(graph, role, emitted) for role in emitted.roles)
    return roles, _fold_copies(loops)


def _role(graph: ControlFlow, role: EmittedRole, emitted: Emitted) -> RoleFigures:
    limits: Counter[int | None] = Counter()
    for block in graph.order:
        held = sum(
            1
            for x in graph.blocks[block].instructions
            if x.line and emitted.role_at(x.line) == role.name
        )
        if held:
            limits[register_limit(graph, block)] += held
    requested = emitted.budget.registers.get(role.name, role.registers)
    return RoleFigures(
        name=role.name,
        source=role.source,
        first_line=role.first_line,
        last_line=role.last_line,
        warps=role.warps,
        copies=role.copies,
        registers_requested=requested,
        registers_found=limits.most_common(1)[0][0] if limits else None,
        instructions=limits.total(),
    )


def _loop(graph: ControlFlow, loop: HotLoop, emitted: Emitted) -> LoopFigures:
    held = list(instructions_of(graph, loop.own))
    counts = count(held)
    shortest, longest = lap_lengths(graph, loop)
    role = _role_of(held, emitted) or _role_above(graph, loop.header, emitted)
    lines = [x.line for x in held if x.line and emitted.role_at(x.line) == role]
    return LoopFigures(
        role=role,
        copies=1,
        innermost=loop.innermost,
        address=graph.blocks[loop.header].instructions[0].address,
        first_line=min(lines, default=None),
        last_line=max(lines, default=None),
        instructions=counts.total(),
        shortest_path=shortest,
        longest_path=longest,
        counts={each.value: counts[each] for each in Family if counts[each]},
        registers_named=registers_named(held),
        register_limit=register_limit(graph, loop.header),
    )


def _role_of(instructions: Iterable[Instruction], emitted: Emitted) -> str | None:
    """Return the role that most of the instructions were written in."""
    votes = Counter(name for x in instructions if x.line and (name := emitted.role_at(x.line)))
    return votes.most_common(1)[0][0] if votes else None


def _role_above(graph: ControlFlow, block: int, emitted: Emitted) -> str | None:
    """Return the role of the nearest code that every way to the block passes."""
    while block != 0:
        block = graph.dominators[block]
        if name := _role_of(graph.blocks[block].instructions, emitted):
            return name
    return None


def _fold_copies(loops: list[LoopFigures]) -> tuple[LoopFigures, ...]:
    """Return the loops with those of a role that have the same figures as one."""
    folded: list[LoopFigures] = []
    for loop in loops:
        for index, kept in enumerate(folded):
            if _without_place(loop) == _without_place(kept):
                # Code moved in from elsewhere widens the lines of one copy, so the fewest count.
                closest = min(loop, kept, key=_lines)
                folded[index] = replace(closest, address=kept.address, copies=kept.copies + 1)
                break
        else:
            folded.append(loop)
    return tuple(folded)


def _without_place(loop: LoopFigures) -> LoopFigures:
    return replace(loop, address=0, copies=1, first_line=None, last_line=None)


def _lines(loop: LoopFigures) -> int:
    if loop.first_line is None or loop.last_line is None:
        return 0
    return loop.last_line - loop.first_line
