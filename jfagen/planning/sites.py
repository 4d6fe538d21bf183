"""The static places of a program: which sites every op use has and what is touched there."""

from __future__ import annotations

from dataclasses import dataclass

from ..algorithm import Access, Engine, Space
from ..semantics.program import GroupRef, OpUse, Program, Role, RoleProgram, Staging
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
        return self.at(site).use.op.engine_of(site.point)

    def staging(self, site: Site) -> Staging | None:
        """Return how the op at `site` sends its tile out; None if it does not."""
        return self.at(site).use.staging

    def place(self, site: Site) -> int:
        """Return which of its op's sites one is, in order."""
        return self.sites[site.op, site.group].index(site)

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
                found = _op_sites(program, use, group)
                sites[use.op.name, group] = tuple(found)
                touches.update(found)
    return Plan(program=program, placed=placed, touches=touches, sites=sites)


def _op_sites(program: Program, use: OpUse, group: int) -> dict[Site, tuple[Touch, ...]]:
    if use.staging is not None:
        return _staged_sites(program, use, use.staging, group)
    found: dict[Site, tuple[Touch, ...]] = {}
    for index, point in enumerate(use.op.points):
        slices = max((program.holder(access.value).slices for access in point.accesses), default=1)
        for piece in range(slices if point.per_slice else 1):
            site = Site(op=use.op.name, group=group, point=index, slice=piece)
            found[site] = _touches(program, point.accesses, group, piece, sliced=point.per_slice)
    return found


def _staged_sites(
    program: Program, use: OpUse, staging: Staging, group: int
) -> dict[Site, tuple[Touch, ...]]:
    """Return the sites of an op in slices: read, copy to the stage, send; the held ones read first.

    A slice that is not held is read where it is copied.
    """
    read, copy, send = (point.accesses for point in use.op.points)
    found: dict[Site, tuple[Touch, ...]] = {}

    def enter(point: int, piece: int, accesses: tuple[Access, ...]) -> None:
        site = Site(op=use.op.name, group=group, point=point, slice=piece)
        found[site] = _touches(program, accesses, group, piece, sliced=True)

    for piece in range(staging.prompt):
        enter(1, piece, read + copy)
        enter(2, piece, send)
    for piece in range(staging.prompt, staging.pieces):
        enter(0, piece, read)
    for piece in range(staging.prompt, staging.pieces):
        enter(1, piece, copy)
        enter(2, piece, send)
    return found


def _touches(
    program: Program, accesses: tuple[Access, ...], group: int, piece: int, *, sliced: bool
) -> tuple[Touch, ...]:
    touches: list[Touch] = []
    for access in accesses:
        buffer = program.holder(access.value)
        if buffer.storage is Storage.REG:
            continue
        every = range(program.tile.groups) if access.every_group else (group,)
        touches += [
            Touch(
                buffer=buffer.name,
                value=access.value,
                group=one if buffer.grouped else -1,
                slice=piece if sliced and buffer.slices > 1 else -1,
                mode=access.mode,
                first_step=access.first_step,
                first_read=access.first_read,
                turn=piece if buffer.turns > 1 else buffer.holds.index(access.value),
            )
            for one in (every if buffer.grouped else every[:1])
        ]
    return tuple(touches)
