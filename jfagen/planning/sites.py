"""The static places of a program: which sites every op use has and what is touched there."""

from __future__ import annotations

from dataclasses import dataclass

from ..algorithm import Access, Engine, Op, Space
from ..semantics.program import Buffer, GroupRef, OpUse, Program, Role, RoleProgram
from ..types import Storage
from .events import Site, Touch


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an op runs.

    Attributes:
        role: the role that has it.
        program: that role's program.
        use: the op as placed.
    """

    role: Role
    program: RoleProgram
    use: OpUse


@dataclass(frozen=True, slots=True)
class Plan:
    """What the passes ask about the program's static structure.

    Attributes:
        program: the checked schedule.
        placed: (op name, group) -> where it runs.
        touches: site -> accesses to memory there, in order; registers are left out.
        sites: op name and group -> its sites in order.
    """

    program: Program
    placed: dict[tuple[str, int], Placed]
    touches: dict[Site, tuple[Touch, ...]]
    sites: dict[tuple[str, int], tuple[Site, ...]]

    def at(self, site: Site) -> Placed:
        """Return where the op at `site` runs."""
        return self.placed[site.op, site.group]

    def engine(self, site: Site) -> Engine:
        """Return what executes the op at `site`."""
        return self.at(site).use.op.engine

    def joins(self, site: Site) -> bool:
        """Return whether the role that issues the op at `site` waits for its end itself."""
        return self.engine(site) is Engine.STORE or self.program.joins(self.at(site).use.op)

    def space(self, site: Site) -> Space:
        """Return how often the op at `site` runs."""
        return self.at(site).use.op.space

    def replica(self, site: Site) -> int:
        """Return which replica of its role runs `site`."""
        use = self.at(site).use
        return site.group if use.group_ref is GroupRef.REPLICA else 0


def make_plan(program: Program) -> Plan:
    """Return the sites of every op use and what is touched at each."""
    placed: dict[tuple[str, int], Placed] = {}
    touches: dict[Site, tuple[Touch, ...]] = {}
    sites: dict[tuple[str, int], tuple[Site, ...]] = {}
    for role_program in program.role_programs:
        for use in role_program.uses():
            for group in use.groups or (-1,):
                placed[use.op.name, group] = Placed(
                    role=role_program.role, program=role_program, use=use
                )
                found = _op_sites(program, use.op, group)
                sites[use.op.name, group] = tuple(found)
                touches.update(found)
    return Plan(program=program, placed=placed, touches=touches, sites=sites)


def _op_sites(program: Program, op: Op, group: int) -> dict[Site, tuple[Touch, ...]]:
    found: dict[Site, tuple[Touch, ...]] = {}
    for index, point in enumerate(op.points):
        slices = max((_slices(program, access) for access in point.accesses), default=1)
        for piece in range(slices if point.per_slice else 1):
            site = Site(op=op.name, group=group, point=index, slice=piece)
            found[site] = tuple(
                touch
                for access in point.accesses
                if (touch := _touch(program, access, group, piece)) is not None
            )
    return found


def _slices(program: Program, access: Access) -> int:
    buffer = program.holder(access.value)
    return buffer.slices if program.algorithm.value(access.value).sliceable else 1


def _touch(program: Program, access: Access, group: int, piece: int) -> Touch | None:
    buffer = program.holder(access.value)
    if buffer.storage is Storage.REG:
        return None
    return Touch(
        buffer=buffer.name,
        value=access.value,
        group=group if buffer.grouped else -1,
        slice=piece if _sliced(program, buffer, access) else -1,
        mode=access.mode,
        first_step=access.first_step,
        first_read=access.first_read,
    )


def _sliced(program: Program, buffer: Buffer, access: Access) -> bool:
    return buffer.slices > 1 and program.algorithm.value(access.value).sliceable
