"""Which part of a schedule a figure points to: ops, buffers and roles, with their lines.

Names and lines are the schedule's own. What an op does is read from the algorithm's table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

from ..algorithm import Engine, Space
from ..diagnostics import Span
from ..passes.placement import copies
from ..semantics.program import Buffer, OpUse, Program, RoleProgram
from ..types import Storage

_LARGEST = 3


class Part(StrEnum):
    """What of a schedule moves a figure."""

    NOTHING = "nothing"
    MATMULS = "ops that the tensor core executes"
    WARPS = "ops that warps execute in the loop"
    SMEM_PIPE = "who uses the load-store unit's way to shared memory"
    SMEM_OF_WARPS = "ops of warps that touch shared memory"
    OPERANDS = "buffers in shared memory that matmuls read"
    BUFFERS = "the largest buffers in shared memory"
    TRAFFIC = "ops that load from or store to global memory"
    SUMS = "ops that add to global memory in every step"
    REGISTERS = "roles whose warps execute ops"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Things on one line of a schedule.

    Attributes:
        owner: the role that they belong to, or `smem`.
        names: the things, as the schedule calls them.
        place: its file and line, for example `fwd.sched:36`.
    """

    owner: str
    names: tuple[str, ...]
    place: str

    @property
    def words(self) -> str:
        """Return the place in one line."""
        return f"{self.owner}: {', '.join(self.names)} ({self.place})"


Parts = Mapping[Part, tuple[Place, ...]]


def parts_of(program: Program, registers: Mapping[str, int]) -> Parts:
    """Return the places of every part; a part that the schedule does not have has none.

    Args:
        program: the checked schedule.
        registers: role -> registers of a thread, the default role's as derived.
    """
    smem = [buffer for buffer in program.buffers if buffer.storage is Storage.SMEM]
    read = _operands(program)
    operands = _buffers(buffer for buffer in smem if buffer.name in read)
    by_warps = _ops(program, lambda use: bool(_touched(program, use)), _on(program))
    largest = sorted(smem, key=lambda buffer: -_bytes(program, buffer))[:_LARGEST]
    return {
        Part.NOTHING: (),
        Part.MATMULS: _ops(program, lambda use: use.op.engine is Engine.MMA),
        Part.WARPS: _ops(program, _is_hot),
        # Matmuls that leave their results in registers read SMEM as warps do.
        Part.SMEM_PIPE: operands + by_warps if program.target.joins else by_warps,
        Part.SMEM_OF_WARPS: by_warps,
        Part.OPERANDS: operands,
        Part.BUFFERS: _buffers(largest, lambda b: f"{b.name} {_bytes(program, b):,} bytes"),
        Part.TRAFFIC: _ops(program, lambda use: bool(use.op.inputs or use.op.outputs)),
        Part.SUMS: _ops(program, lambda use: use.op.adds),
        Part.REGISTERS: tuple(
            _registers(rp, registers) for rp in program.role_programs if _has_warps(rp)
        ),
    }


def loops_of(program: Program) -> dict[str, tuple[Place, ...]]:
    """Return for every role the ops of its loop; of a role without one, what it does for a tile."""
    return {
        rp.role.name: _grouped(
            (rp.role.name, use.span.text, use.span) for use in rp.loop or rp.uses()
        )
        for rp in program.role_programs
    }


def _is_hot(use: OpUse) -> bool:
    return use.op.engine is Engine.WARPS and use.op.space is Space.STEP


def _touched(program: Program, use: OpUse) -> tuple[str, ...]:
    """Return the SMEM buffers that the warps of an op read or write themselves."""
    points = [
        point
        for number, point in enumerate(use.op.points)
        if use.op.engine_of(number) is Engine.WARPS
    ]
    holders = [program.holder(access.value) for point in points for access in point.accesses]
    return tuple(dict.fromkeys(one.name for one in holders if one.storage is Storage.SMEM))


def _operands(program: Program) -> set[str]:
    """Return the names of the buffers that matmuls touch."""
    return {
        program.holder(access.value).name
        for rp in program.role_programs
        for use in rp.uses()
        if use.op.engine is Engine.MMA
        for access in use.op.accesses()
    }


def _on(program: Program) -> Callable[[OpUse], str]:
    return lambda use: f"{use.span.text} on {' and '.join(_touched(program, use))}"


def _ops(
    program: Program,
    chosen: Callable[[OpUse], bool],
    spelled: Callable[[OpUse], str] = lambda use: use.span.text,
) -> tuple[Place, ...]:
    return _grouped(
        (rp.role.name, spelled(use), use.span)
        for rp in program.role_programs
        for use in rp.uses()
        if chosen(use)
    )


def _buffers(
    buffers: Iterable[Buffer], spelled: Callable[[Buffer], str] = lambda buffer: buffer.name
) -> tuple[Place, ...]:
    return _grouped(("smem", spelled(buffer), buffer.span) for buffer in buffers)


def _bytes(program: Program, buffer: Buffer) -> int:
    """Return the bytes of all copies, without what may lie over it."""
    return buffer.bytes * copies(program, buffer)


def _grouped(found: Iterable[tuple[str, str, Span]]) -> tuple[Place, ...]:
    """Return (owner, name, span) by owner and line, in the order given."""
    groups: dict[tuple[str, str], list[str]] = {}
    for owner, name, span in found:
        groups.setdefault((owner, _line(span)), []).append(name)
    return tuple(
        Place(owner=owner, names=tuple(names), place=place)
        for (owner, place), names in groups.items()
    )


def _line(span: Span) -> str:
    return f"{PurePath(span.source.path).name}:{span.line}"


def _has_warps(rp: RoleProgram) -> bool:
    return any(use.op.engine is Engine.WARPS for use in rp.uses())


def _registers(rp: RoleProgram, registers: Mapping[str, int]) -> Place:
    role = rp.role
    count = role.registers or registers.get(role.name)
    left = " that are left" if role.default else ""
    said = "the registers that are left" if count is None else f"registers {count}{left}"
    return Place(owner=role.name, names=(said,), place=_line(role.span))
