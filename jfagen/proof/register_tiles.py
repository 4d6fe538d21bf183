"""What a role keeps in registers: its tiles, counted for one thread."""

from __future__ import annotations

from dataclasses import dataclass

from ..semantics.program import Buffer, Program, RoleProgram
from ..target import WARP_THREADS
from ..types import Storage

#: Registers of a thread that tiles leave to addresses, counters and temporaries: a choice, not a
#: measurement. It is also what the toolchain gives a role that only issues.
SPARE_REGISTERS = 24
#: A vector over the rows: the threads of a matmul's result see two rows each.
VECTOR_REGISTERS = 2
#: Bytes of one register.
_BYTES = 4


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """Tiles of one shape that a role keeps in registers.

    Attributes:
        tiles: how many at a time.
        registers: of one thread for all of them.
    """

    buffer: Buffer
    tiles: int
    registers: int


def register_tiles(program: Program, role_program: RoleProgram) -> list[RegisterTile]:
    """Return what one replica of a role keeps in registers.

    An op in slices keeps those that it holds, and the one that it copies.
    """
    found: list[RegisterTile] = []
    role, staging = role_program.role, role_program.staging
    for buffer in program.buffers:
        uses = [
            use
            for use in role_program.uses()
            if any(access.value in buffer.holds for access in use.op.accesses())
        ]
        if staging is not None and staging.buffer == buffer.name:
            copies = min(staging.hold + 1, staging.pieces)
        elif buffer.storage is Storage.REG and uses:
            groups = {group for use in uses for group in use.groups}
            copies = 1 if role.replicas > 1 else max(len(groups), 1)
        else:
            continue
        registers = copies * _registers(buffer, role.warps * WARP_THREADS)
        found.append(RegisterTile(buffer, copies, registers))
    return found


def needed_registers(program: Program, role: str) -> int:
    """Return the fewest registers of a thread that a role can work with; 0 if it keeps no tile."""
    tiles = register_tiles(program, program.program_of(role))
    return sum(tile.registers for tile in tiles) + SPARE_REGISTERS if tiles else 0


def _registers(buffer: Buffer, threads: int) -> int:
    if len(buffer.shape) == 1:
        return VECTOR_REGISTERS
    return -(-buffer.bytes // (threads * _BYTES))
