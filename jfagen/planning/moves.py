"""Moves: what a role does for one tile, in order, as the schedule and the target demand it.

A matmul whose result lies in registers is issued and goes on by itself; the role waits for it just
before the first point that touches the result, or that writes the registers it reads, or earlier
where the schedule says so; at the end of a lap it waits for all of them, since the toolchain dies
of registers that a matmul owns from lap to lap. How many matmuls stay in flight at a wait follows
from the order of the ops: those that were issued after it. A tile that a role stores by TMA itself
is waited for where the role writes that memory again: that too follows from the order. Before a
matmul in registers that reads what its role writes to SMEM the toolchain has a proxy fence; where
the op before it writes there, that fence serves both, and the tile is handed on behind it. Replicas that take turns do so around the ops of a turn. Everybody who walks a role asks here,
so that no two walks can differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ..algorithm import Engine, Mode, Op
from ..semantics.program import OpUse, Program, RoleProgram, Staging
from ..types import Storage


#: The point of an op in slices at which one is copied to its staging buffer.
COPY = 1


@dataclass(frozen=True, slots=True)
class Join:
    """The wait for one matmul.

    Attributes:
        point: index of the point of the op before which it stands; their number if behind all.
        use: the matmul.
        step: its step.
        pending: multiplications that were issued later and may still be in flight.
    """

    point: int
    use: OpUse
    step: int
    pending: int


@dataclass(frozen=True, slots=True)
class Drain:
    """The wait until stores of the role have read their tiles.

    Attributes:
        point: index of the point of the op before which it stands; their number if behind all.
        pending: stores that were issued later and may still read theirs.
    """

    point: int
    pending: int


@dataclass(frozen=True, slots=True)
class Handed:
    """A tile that is fenced and handed on by a later move than the one that writes it.

    Attributes:
        use: the op that writes it.
        step: its step.
        point: the point at which it does.
    """

    use: OpUse
    step: int
    point: int


@dataclass(frozen=True, slots=True)
class Move:
    """One op of one step.

    Attributes:
        use: the op as placed.
        step: its own step; -1 for an op that runs once a tile.
        joins: matmuls that are waited for at its points, in order of issue.
        drains: waits for stores before its points.
        hands: what it fences before its own work, and hands on behind it.
        withheld: the point of its own of which the next move does that; -1 for none.
        takes_turn: the role waits for its turn before it.
        passes_turn: the role passes the turn on after it.
    """

    use: OpUse
    step: int
    joins: tuple[Join, ...] = ()
    drains: tuple[Drain, ...] = ()
    hands: Handed | None = None
    withheld: int = -1
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
    walk = _Walk(program, role_program)
    if role_program.leaves_stores:
        # What the tile before has left reads on.
        _walk_tile(walk, role_program, steps)
    return _walk_tile(walk, role_program, steps)


def _walk_tile(walk: _Walk, role_program: RoleProgram, steps: int) -> TileMoves:
    before = tuple(walk.move(use, -1) for use in role_program.before)
    around: dict[int, tuple[Move, ...]] = {}
    for lap in laps(role_program, steps) if role_program.loop else ():
        uses = [use for use in role_program.loop if 0 <= lap + use.offset < steps]
        moves = [walk.move(use, lap + use.offset) for use in uses]
        moves = _handed_on(walk.program, moves)
        moves = walk.end_lap(moves, alone=_is_alone(role_program, steps, lap))
        around[lap] = tuple(_in_turn(moves))
    after = tuple(walk.move(use, -1) for use in role_program.after)
    return TileMoves(before, around, after)


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
    """Return the point at which an op's warps write SMEM that a matmul in registers reads; else -1."""
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


@dataclass(slots=True)
class _Walk:
    """Remembers which matmuls and stores of one role are in flight, in order of issue."""

    program: Program
    role_program: RoleProgram
    flying: list[tuple[OpUse, int]] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)

    def move(self, use: OpUse, step: int) -> Move:
        """Return the move of one op, and what it has to wait for."""
        joins: list[Join] = []
        for name, offset in use.settles:
            joins += self._join(0, lambda one, issued, n=name, s=step - use.offset + offset: (
                (one.op.name, issued) == (n, s)
            ))
        for point in range(len(use.op.points) if use.op.engine is Engine.WARPS else 0):
            joins += self._join(point, lambda one, _, p=point: self._meet(use.op, p, one.op))
        if self.program.joins(use.op):
            self.flying.append((use, step))
        return Move(use, step, tuple(joins), self._drains(use))

    def _drains(self, use: OpUse) -> tuple[Drain, ...]:
        """Return the waits for stores that read what an op writes; enter its own stores."""
        drains: list[Drain] = []
        if use.staging is not None:
            self._stage(use.staging, drains)
        elif self.role_program.lingers(use):
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
        others = [name for name in self.stores if name != staging.buffer]
        if any(self.program.shares_memory(name, staging.buffer) for name in others):
            last = max(
                index
                for index, name in enumerate(self.stores)
                if name in others and self.program.shares_memory(name, staging.buffer)
            )
            pending = len(self.stores) - 1 - last
            if pending < self.program.pending(staging):
                drains.append(Drain(COPY, pending))
        kept = self.program.pending(staging)
        for _ in range(staging.pieces):
            self.stores = [*(self.stores[-kept:] if kept else ()), staging.buffer]

    def _free(self, point: int, written: set[str], drains: list[Drain]) -> None:
        """Wait until no store reads the memory of what is written at a point."""
        read = [
            index
            for index, name in enumerate(self.stores)
            if any(self.program.shares_memory(name, buffer) for buffer in written)
        ]
        if read:
            self.stores = self.stores[read[-1] + 1 :]
            drains.append(Drain(point, len(self.stores)))

    def end_lap(self, moves: list[Move], *, alone: bool) -> list[Move]:
        """Return the moves of a lap, the last one followed by waits for all that still flies.

        After the last lap, where it stands by itself, whoever needs a result waits for it.
        """
        if not moves or not self.flying or alone:
            return moves
        *first, last = moves
        ends = self._join(len(last.use.op.points), lambda *_: True)
        return [*first, replace(last, joins=(*last.joins, *ends))]

    def _join(self, point: int, meets: Callable[[OpUse, int], bool]) -> list[Join]:
        """Wait for matmuls up to the last one that is met: they end in order of issue."""
        met = [index for index, (use, step) in enumerate(self.flying) if meets(use, step)]
        joins: list[Join] = []
        for use, step in self.flying[: met[-1] + 1] if met else ():
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
