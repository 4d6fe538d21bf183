"""What a role has in flight, and where it waits for it.

A matmul whose result lies in registers is issued and goes on by itself; the role waits for it just
before the first point that touches the result, or that writes the registers it reads, or earlier
where the schedule says so; at the end of a lap it waits for all of them, since the toolchain dies
of registers that a matmul owns from lap to lap. A tile that a role stores by TMA itself is waited
for where the role writes that memory again. How many stay in flight at a wait follows from the
order: those that were issued later.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..algorithm import Engine, Mode, Op
from ..semantics.program import OpUse, Program, Staging
from .move import COPY, Drain, Join, Move


@dataclass(slots=True)
class Flight:
    """Which matmuls and stores of one role are in flight, in order of issue.

    Attributes:
        flying: matmuls with their steps; their results and operands in registers are theirs.
        stores: buffers that TMA still reads.
    """

    program: Program
    flying: list[tuple[OpUse, int]] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)

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
        return Move(use, step, tuple(joins), self._drains(use))

    def _drains(self, use: OpUse) -> tuple[Drain, ...]:
        """Return the waits for stores that read what an op writes; enter its own stores."""
        drains: list[Drain] = []
        if use.staging is not None:
            self._stage(use.staging, drains)
        elif self.program.lingers(use):
            self.stores += [self.program.holder(a.value).name for a in use.op.accesses()]
        elif use.op.engine is Engine.WARPS:
            for number, point in enumerate(use.op.points):
                written = {
                    self.program.holder(a.value).name
                    for a in point.accesses
                    if a.mode is not Mode.READ
                }
                self._free(number, written, drains)
        return tuple(drains)

    def _stage(self, staging: Staging, drains: list[Drain]) -> None:
        """Enter the slices of one tile; each waits for its slot, and first for what shares it."""
        kept = self.program.pending(staging)
        pending = self._pending({staging.buffer}, but=staging.buffer)
        if pending is not None and pending < kept:
            drains.append(Drain(COPY, pending))
        for _ in range(staging.pieces):
            self.stores = [*(self.stores[-kept:] if kept else ()), staging.buffer]

    def _free(self, point: int, written: set[str], drains: list[Drain]) -> None:
        """Wait until no store reads the memory of what is written at a point."""
        pending = self._pending(written)
        if pending is not None:
            self.stores = self.stores[len(self.stores) - pending :]
            drains.append(Drain(point, pending))

    def _pending(self, written: set[str], but: str = "") -> int | None:
        """Return how many stores are younger than the last one that reads some buffers' memory.

        None if no store does; those of the buffer `but` do not count.
        """
        for younger, name in enumerate(reversed(self.stores)):
            if name != but and any(self.program.shares_memory(name, one) for one in written):
                return younger
        return None

    def end_lap(self, moves: list[Move], *, alone: bool) -> list[Move]:
        """Return the moves of a lap, the last one followed by waits for all that still flies.

        After the last lap, where it stands by itself, whoever needs a result waits for it.
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
