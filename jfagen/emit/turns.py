"""Turns as text: replicas hand a named barrier round."""

from __future__ import annotations

from ..proof.resources import turn_barriers
from ..semantics.program import Program, RoleProgram
from ..target import WARP_THREADS
from .view import Constant


def turn_constants(program: Program) -> tuple[Constant, ...]:
    """Return the named numbers of the turns of a kernel; none without turns."""
    barriers = turn_barriers(program)
    if barriers is None:
        return ()
    role = next(rp.role for rp in program.role_programs if rp.takes_turns)
    threads = 2 * role.warps * WARP_THREADS
    return (
        Constant(
            name="TURN_BARRIER",
            value=str(barriers.start),
            comment="named barrier of replica 0's turn; the others follow",
        ),
        Constant(name="TURN_THREADS", value=str(threads), comment="of who waits and who hands on"),
    )


def turn_wait(symbol: str) -> str:
    """Return the line with which a replica waits for its turn."""
    return f"tlx.named_barrier_wait(TURN_BARRIER + {symbol}, TURN_THREADS)"


def turn_pass(symbol: str) -> str:
    """Return the line with which a replica hands the turn on."""
    return f"tlx.named_barrier_arrive(TURN_BARRIER + ({symbol} + 1) % GROUPS, TURN_THREADS)"


def turn_start(program: Program, role_program: RoleProgram) -> tuple[str, ...]:
    """Return the lines before the first tile: the last replica lets the first one begin."""
    if not role_program.takes_turns:
        return ()
    symbol = program.tile.group_symbol
    return (f"if {symbol} == GROUPS - 1:", f"    {turn_pass(symbol or '')}")


def turn_end(program: Program, role_program: RoleProgram) -> tuple[str, ...]:
    """Return the lines after the last tile: the turn that is left over is taken back."""
    if not role_program.takes_turns:
        return ()
    symbol = program.tile.group_symbol
    return (f"if {symbol} == 0:", f"    {turn_wait(symbol or '')}")
