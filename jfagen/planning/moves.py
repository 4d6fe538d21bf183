"""Moves: what a role does for one tile, in order, as the schedule and the target demand it.

A matmul whose result lies in registers is issued and goes on by itself; the role waits for it just
before the first point that touches the result, or that writes the registers it reads. How many
matmuls stay in flight at that wait follows from the order of the ops: those that were issued after
it. Replicas that take turns do so around the ops of a turn. Everybody who walks a role asks here,
so that no two walks can differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..algorithm import Engine, Mode, Op
from ..semantics.program import OpUse, Program, RoleProgram


@dataclass(frozen=True, slots=True)
class Join:
    """The wait for one matmul.

    Attributes:
        point: index of the point of the op before which it stands.
        use: the matmul.
        step: its step.
        pending: matmuls that were issued later and may still be in flight.
    """

    point: int
    use: OpUse
    step: int
    pending: int


@dataclass(frozen=True, slots=True)
class Move:
    """One op of one step.

    Attributes:
        use: the op as placed.
        step: its own step; -1 for an op that runs once a tile.
        joins: matmuls that are waited for at its points, in order of issue.
        takes_turn: the role waits for its turn before it.
        passes_turn: the role passes the turn on after it.
    """

    use: OpUse
    step: int
    joins: tuple[Join, ...] = ()
    takes_turn: bool = False
    passes_turn: bool = False


@dataclass(frozen=True, slots=True)
class TileMoves:
    """What a role does for one tile.

    Attributes:
        before, after: ops that run once a tile.
        laps: lap of the loop -> its moves, in order.
    """

    before: tuple[Move, ...]
    laps: dict[int, tuple[Move, ...]]
    after: tuple[Move, ...]

    def __iter__(self) -> Iterator[Move]:
        """Yield every move in order."""
        yield from self.before
        for moves in self.laps.values():
            yield from moves
        yield from self.after


def laps(role_program: RoleProgram, steps: int) -> range:
    """Return the laps of a role's loop so that every op runs for each of its steps."""
    offsets = [use.offset for use in role_program.loop]
    return range(-max(offsets), steps - min(offsets))


def tile_moves(program: Program, role_program: RoleProgram, steps: int) -> TileMoves:
    """Return the moves of a role for a tile of `steps` steps, at least one."""
    walk = _Walk(program)
    before = tuple(walk.move(use, -1) for use in role_program.before)
    around: dict[int, tuple[Move, ...]] = {}
    for lap in laps(role_program, steps) if role_program.loop else ():
        uses = [use for use in role_program.loop if 0 <= lap + use.offset < steps]
        around[lap] = tuple(_in_turn([walk.move(use, lap + use.offset) for use in uses]))
    after = tuple(walk.move(use, -1) for use in role_program.after)
    return TileMoves(before, around, after)


def _in_turn(moves: list[Move]) -> Iterator[Move]:
    """Yield moves with the borders of their turns marked."""
    turns = [-1, *(move.use.turn for move in moves), -1]
    for index, move in enumerate(moves):
        earlier, mine, later = turns[index : index + 3]
        yield Move(
            move.use,
            move.step,
            move.joins,
            takes_turn=mine >= 0 and mine != earlier,
            passes_turn=mine >= 0 and mine != later,
        )


@dataclass(slots=True)
class _Walk:
    """Remembers which matmuls of one role are in flight, in order of issue."""

    program: Program
    flying: list[tuple[OpUse, int]] = field(default_factory=list)

    def move(self, use: OpUse, step: int) -> Move:
        """Return the move of one op, and what it has to wait for."""
        joins: list[Join] = []
        for point in range(len(use.op.points) if use.op.engine is Engine.WARPS else 0):
            last = max(
                (
                    index
                    for index, (matmul, _) in enumerate(self.flying)
                    if self._meet(use.op, point, matmul.op)
                ),
                default=-1,
            )
            for matmul, issued in self.flying[: last + 1]:
                self.flying.pop(0)
                joins.append(Join(point, matmul, issued, len(self.flying)))
        if self.program.joins(use.op):
            self.flying.append((use, step))
        return Move(use, step, tuple(joins))

    def _meet(self, op: Op, point: int, matmul: Op) -> bool:
        """Whether a point of an op touches registers that a matmul in flight owns.

        It owns its result altogether, and what it reads as long as nobody writes it.
        """
        registers = self.program.registers_of(matmul) & self.program.registers_of(op)
        writes = {a.value for a in matmul.accesses() if a.mode is not Mode.READ}
        return any(
            access.value in registers and (access.mode is not Mode.READ or access.value in writes)
            for access in op.points[point].accesses
        )
