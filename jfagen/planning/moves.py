"""Moves: what a role does for one tile, in order, as the schedule and the target demand it.

Where a role waits for its matmuls and its stores follows from the order of the ops: see `flight`
and `stores`.
Before a matmul in registers that reads what its role writes to SMEM the toolchain has a proxy
fence; where the op before it writes there, that fence serves both, and the tile is handed on
behind it. Replicas that take turns do so around the ops of a turn. Everybody who walks a role asks
here, so that no two walks can differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from ..algorithm import Engine, Mode
from ..semantics.program import OpUse, Program, RoleProgram
from ..types import Storage
from .flight import Flight
from .move import Handed, Move, TileMoves
from .stores import store_waits


def laps(role_program: RoleProgram, steps: int) -> range:
    """Return the laps of a role's loop so that every op runs for each of its steps."""
    offsets = [use.offset for use in role_program.loop]
    return range(-max(offsets), steps - min(offsets))


def tile_moves(program: Program, role_program: RoleProgram, steps: int) -> TileMoves:
    """Return the moves of a role for a tile of `steps` steps, at least one."""
    flight = Flight(program, store_waits(program, role_program))
    before = tuple(flight.move(use, -1) for use in role_program.before)
    around: dict[int, tuple[Move, ...]] = {}
    for lap in laps(role_program, steps) if role_program.loop else ():
        uses = [use for use in role_program.loop if 0 <= lap + use.offset < steps]
        moves = [flight.move(use, lap + use.offset) for use in uses]
        moves = _handed_on(flight.program, moves)
        alone = bool(role_program.after) and _is_alone(role_program, steps, lap)
        moves = flight.end_lap(moves, alone=alone)
        around[lap] = tuple(_in_turn(moves))
    after = flight.end_lap([flight.move(use, -1) for use in role_program.after], alone=False)
    return TileMoves(before, around, tuple(after))


def _handed_on(program: Program, moves: list[Move]) -> list[Move]:
    """Return the moves of a lap with tiles that the next one fences and hands on."""
    found = list(moves)
    for index, (first, second) in enumerate(pairwise(moves)):
        point = _written_for(program, first.use, second.use)
        # A matmul of the same step waits for what is to be handed on.
        if point >= 0 and second.step < first.step and not second.joins:
            found[index] = replace(found[index], withheld=point)
            found[index + 1] = replace(second, hands=Handed(first.use, first.step, point))
    return found


def _written_for(program: Program, first: OpUse, second: OpUse) -> int:
    """Return the point at which warps write SMEM that a matmul in registers reads; -1 for none."""
    if not program.joins(second.op) or first.op.engine is not Engine.WARPS:
        return -1
    read = {program.holder(a.value).name for a in second.op.accesses() if a.mode is Mode.READ}
    for number, point in enumerate(first.op.points):
        for access in point.accesses:
            buffer = program.holder(access.value)
            written = access.mode is not Mode.READ and buffer.storage is Storage.SMEM
            if written and buffer.name in read:
                return number
    return -1


def _is_alone(role_program: RoleProgram, steps: int, lap: int) -> bool:
    """Whether a lap is the last one of a loop of which the last one differs from the others."""
    return lap == laps(role_program, steps)[-1] and len({u.offset for u in role_program.loop}) > 1


def _in_turn(moves: list[Move]) -> Iterator[Move]:
    """Yield moves with the borders of their turns marked."""
    turns = [-1, *(move.use.turn for move in moves), -1]
    for index, move in enumerate(moves):
        earlier, mine, later = turns[index : index + 3]
        yield replace(
            move,
            takes_turn=mine >= 0 and mine != earlier,
            passes_turn=mine >= 0 and mine != later,
        )
