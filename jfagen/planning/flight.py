"""Which matmuls a role has in flight, and where it waits for them.

A matmul whose result lies in registers is issued and goes on by itself; the role waits for it just
before the first point that touches the result, or that writes the registers it reads, or earlier
where the schedule says so; at the end of a lap it waits for all of them, since the toolchain dies
of registers that a matmul owns from lap to lap. How many stay in flight at a wait follows from the
order: those that were issued later.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..algorithm import Engine, Mode, Op
from ..semantics.program import OpUse, Program
from .move import Drain, Join, Move


@dataclass(slots=True)
class Flight:
    """Which matmuls of one role are in flight, in order of issue.

    Attributes:
        drains: op -> its waits for stores.
        flying: matmuls with their steps; their results and operands in registers are theirs.
    """

    program: Program
    drains: dict[str, tuple[Drain, ...]]
    flying: list[tuple[OpUse, int]] = field(default_factory=list)

    def move(self, use: OpUse, step: int) -> Move:
        """Return the move of one op, and what it has to wait for."""
        joins: list[Join] = []
        for name, offset in use.settles:
            settled = (name, step - use.offset + offset)
            joins += self._join(0, [(one.op.name, at) == settled for one, at in self.flying])
        for point in range(len(use.op.points) if use.op.engine is Engine.WARPS else 0):
            met = [self._meet(use.op, point, one.op) for one, _ in self.flying]
            joins += self._join(point, met)
        if self.program.joins(use.op):
            self.flying.append((use, step))
        return Move(use, step, tuple(joins), self.drains.get(use.op.name, ()))

    def end_lap(self, moves: list[Move], *, alone: bool) -> list[Move]:
        """Return the moves of a lap, the last one followed by waits for all that still flies.

        After the last lap, where it stands by itself, whoever needs a result waits for it, and
        what nobody needs ends with the tile.
        """
        if not moves or not self.flying or alone:
            return moves
        *first, last = moves
        ends = self._join(len(last.use.op.points), [True] * len(self.flying))
        return [*first, replace(last, joins=(*last.joins, *ends))]

    def _join(self, point: int, met: list[bool]) -> list[Join]:
        """Wait for matmuls up to the last one that is met: they end in order of issue."""
        last = max((index for index, is_met in enumerate(met) if is_met), default=-1)
        joins: list[Join] = []
        for use, step in self.flying[: last + 1]:
            self.flying.pop(0)
            pending = sum(self.program.multiplications(other.op) for other, _ in self.flying)
            joins.append(Join(point, use, step, pending))
        return joins

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
