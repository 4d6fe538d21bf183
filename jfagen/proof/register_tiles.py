"""What a role keeps in registers: the tiles that live at once, counted for one thread.

A tile lives from the op that writes it to the last one that reads it, one that a matmul in flight
reads or writes until the role waits for it. An elementwise op writes over what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..algorithm import Mode
from ..diagnostics import Span
from ..planning import Join, Move, tile_moves
from ..semantics.program import Buffer, OpUse, Program, RoleProgram
from ..target import WARP_THREADS
from ..types import Storage

#: Registers of a thread that tiles leave to addresses, counters and temporaries: a choice, not a
#: measurement. It is also what the toolchain gives a role that only issues.
SPARE_REGISTERS = 24
#: Registers that the addresses of a matmul's lasting operands take if they are kept from lap to
#: lap: measured on a kernel with three of them (fbtriton 3.7.4).
ADDRESS_REGISTERS = 32
#: A vector over the rows: the threads of a matmul's result see two rows each.
VECTOR_REGISTERS = 2
#: Bytes of one register, and of a float32.
_BYTES = 4
#: Laps in which every distance between two ops of a loop has shown itself.
_LAPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterTile:
    """Tiles of one value that a role keeps in registers.

    Attributes:
        name: of the buffer, or of what an op hands on.
        shape: of one tile.
        element_bytes: of an element.
        tiles: how many at a time.
        slices: whether they are slices on their way out.
        registers: of one thread for all of them.
        span: where it is declared, or the op that hands it on.
    """

    name: str
    shape: tuple[int, ...]
    element_bytes: int
    tiles: int
    slices: bool
    registers: int
    span: Span


def register_tiles(program: Program, role_program: RoleProgram) -> list[RegisterTile]:
    """Return what one replica of a role keeps in registers where it keeps most."""
    kept = {
        tile.name: tile
        for tile in (*_tiles(program, role_program), *_handed(role_program, program))
    }
    lives = _Lives(program, role_program, frozenset(kept)).found() if kept else []
    most: list[RegisterTile] = []
    for moment in range(max((end for _, _, end in lives), default=-1) + 1):
        alive = {name for name, start, end in lives if start <= moment <= end}
        now = [tile for name, tile in kept.items() if name in alive]
        if _registers(now) > _registers(most):
            most = now
    return [*most, *_staged(program, role_program)]


def needed_registers(program: Program, role: str) -> int:
    """Return the fewest registers of a thread that a role can work with; 0 if it keeps no tile."""
    tiles = register_tiles(program, program.program_of(role))
    return _registers(tiles) + SPARE_REGISTERS if tiles else 0


def is_short(program: Program, role_program: RoleProgram) -> bool:
    """Whether a role has no registers for addresses of matmul operands from lap to lap."""
    has = role_program.role.registers
    if has is None or not any(program.joins(use.op) for use in role_program.loop):
        return False
    return needed_registers(program, role_program.role.name) + ADDRESS_REGISTERS > has


def _registers(tiles: list[RegisterTile]) -> int:
    return sum(tile.registers for tile in tiles)


def _tile(
    name: str, shape: tuple[int, ...], element_bytes: int, tiles: int, threads: int, span: Span
) -> RegisterTile:
    size = element_bytes
    for extent in shape:
        size *= extent
    each = VECTOR_REGISTERS if len(shape) == 1 else -(-size // (threads * _BYTES))
    return RegisterTile(
        name=name,
        shape=shape,
        element_bytes=element_bytes,
        tiles=tiles,
        slices=False,
        registers=tiles * each,
        span=span,
    )


def _tiles(program: Program, role_program: RoleProgram) -> Iterator[RegisterTile]:
    """Yield the buffers in registers that a role uses, times the groups that it works for."""
    role = role_program.role
    for buffer in program.buffers:
        uses = [use for use in role_program.uses() if _touches(use, buffer)]
        if buffer.storage is Storage.REG and uses:
            groups = {group for use in uses for group in use.groups}
            copies = 1 if role.replicas > 1 else max(len(groups), 1)
            threads = role.warps * WARP_THREADS
            yield _tile(buffer.name, buffer.shape, buffer.dtype.bytes, copies, threads, buffer.span)


def _handed(role_program: RoleProgram, program: Program) -> Iterator[RegisterTile]:
    """Yield what ops of a role hand on to later ones."""
    threads = role_program.role.warps * WARP_THREADS
    for use in role_program.uses():
        for name in use.op.keeps:
            shape = tuple(map(_extents(program).__getitem__, program.algorithm.kept[name]))
            if len(shape) == 1 and not program.target.joins:
                continue  # beside tiles in tensor memory they are among the spare ones
            yield _tile(name, shape, _BYTES, 1, threads, use.span)


def _extents(program: Program) -> dict[str, int]:
    return {"m": program.tile.m, "n": program.tile.n, "d": program.problem.head_dim}


def _staged(program: Program, role_program: RoleProgram) -> Iterator[RegisterTile]:
    """Yield the slices that an op reads into registers: those that it holds, one that it copies.

    A tile that is in registers goes out of them.
    """
    staging = role_program.staging
    if staging is None or program.target.joins:
        return
    buffer = program.buffer(staging.buffer)
    copies = min(staging.hold + 1, staging.pieces)
    threads = role_program.role.warps * WARP_THREADS
    tile = _tile(buffer.name, buffer.shape, buffer.dtype.bytes, copies, threads, buffer.span)
    yield replace(tile, slices=copies > 1)


def _touches(use: OpUse, buffer: Buffer) -> bool:
    return any(access.value in buffer.holds for access in use.op.accesses())


class _Lives:
    """When the values of a role live, on a clock that ticks at every wait and every point."""

    def __init__(self, program: Program, role_program: RoleProgram, names: frozenset[str]) -> None:
        self.program = program
        self.role_program = role_program
        self.names = names
        self.taken = {name for use in role_program.loop for name in use.op.takes}
        self.clock = 0
        self.open: dict[str, tuple[int, int]] = {}
        self.closed: list[tuple[str, int, int]] = []

    def found(self) -> list[tuple[str, int, int]]:
        """Return (name, first moment, last moment) of every life in a tile of several steps."""
        reach = max((abs(use.offset) for use in self.role_program.loop), default=0)
        for move in tile_moves(self.program, self.role_program, _LAPS + reach):
            self._move(move)
        return [*self.closed, *((name, *life) for name, life in self.open.items())]

    def _move(self, move: Move) -> None:
        joins = list(move.joins)
        for number, point in enumerate(move.use.op.points):
            while joins and joins[0].point <= number:
                self._end(joins.pop(0))
            self.clock += 1
            for access in point.accesses:
                name = self.program.holder(access.value).name
                overwrites = access.mode is Mode.WRITE
                self._touch(name, starts=overwrites)
            for name in move.use.op.takes if not number else ():
                self._touch(name, starts=False)
        for name in move.use.op.keeps:
            # What no op of a step takes is carried on from step to step.
            self._touch(name, starts=name in self.taken)
        for join in joins:
            self._end(join)

    def _end(self, join: Join) -> None:
        """A matmul lets go of its operands and hands its result over."""
        self.clock += 1
        for access in join.use.op.accesses():
            self._touch(self.program.holder(access.value).name, starts=False)

    def _touch(self, name: str, *, starts: bool) -> None:
        if name not in self.names:
            return
        start, _ = self.open.get(name, (self.clock, 0))
        if starts and name in self.open:
            self.closed.append((name, *self.open[name]))
            start = self.clock
        self.open[name] = (start, self.clock)
