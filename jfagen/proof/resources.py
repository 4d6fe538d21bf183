"""What a kernel takes of the hardware, counted from the program and not by the packer."""

from __future__ import annotations

from dataclasses import dataclass

from ..passes.channels import SyncPlan
from ..passes.placement import Placement, allocated_columns, copies
from ..semantics.program import NextTile, Program
from ..target import WARP_THREADS, default_role_registers, total_threads
from ..types import Storage

#: SMEM of a cluster-launch-control channel of one stage: a 16-byte answer and two mbarriers.
CLC_BYTES = 32
#: The most SMEM that the toolchain was seen to add: scalars that it hands to the roles, the
#: tensor-memory address, and padding. Measured on compiled kernels: 312 to 568 bytes with
#: fbtriton 3.7.4.
CAPTURE_BYTES = 568


#: The first named barrier that a kernel may take: ids 0 and 1 are the default role's and the
#: dispatch's, every other role instance has one, and the toolchain's own kernels start at 7.
FIRST_NAMED_BARRIER = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Budgets of one CTA.

    Attributes:
        smem_bytes: buffers, barriers and the tile channel; without what the toolchain adds.
        smem_limit: what the compiled kernel may take.
        tmem_columns: as allocated: a power of two.
        threads: of all roles, padded to groups of four warps.
        registers: per thread of every role, the default one as derived.
        barriers: mbarriers of the channels.
    """

    smem_bytes: int
    smem_limit: int
    tmem_columns: int
    threads: int
    registers: dict[str, int]
    barriers: int

    def all_registers(self, program: Program) -> int:
        """Return the registers of all threads of all roles."""
        return sum(
            self.registers[role.name] * role.warps * WARP_THREADS * role.replicas
            for role in program.roles
        )


def count_resources(program: Program, placement: Placement, sync: SyncPlan) -> Resources:
    """Return what the kernel takes."""
    totals = {Storage.SMEM: 0, Storage.TMEM: 0}
    for root, size in placement.layout.sizes.items():
        buffer = program.buffer(root)
        totals[buffer.storage] += size * copies(program, buffer)
    smem = totals[Storage.SMEM] + sync.barriers * program.target.mbarrier_bytes
    if program.tiles.next is NextTile.CLC:
        smem += CLC_BYTES
    others = [role for role in program.roles if not role.default]
    instances = [(role.warps, role.registers or 0) for role in others for _ in range(role.replicas)]
    default = next(role for role in program.roles if role.default)
    registers = {role.name: role.registers or 0 for role in program.roles}
    registers[default.name] = default_role_registers(program.target, default.warps, instances)
    return Resources(
        smem_bytes=smem,
        smem_limit=program.target.smem_bytes,
        tmem_columns=allocated_columns(program.target, totals[Storage.TMEM]),
        threads=total_threads(default.warps, [warps for warps, _ in instances]),
        registers=registers,
        barriers=sync.barriers,
    )


def turn_barriers(program: Program) -> range | None:
    """Return the named barriers of turns, one for every replica; None without turns."""
    turning = [rp.role for rp in program.role_programs if rp.takes_turns]
    if not turning:
        return None
    first = _first_free(program)
    return range(first, first + turning[0].replicas)


def _first_free(program: Program) -> int:
    """Return the first named barrier that neither the toolchain nor a role instance has."""
    instances = sum(role.replicas for role in program.roles if not role.default)
    return max(FIRST_NAMED_BARRIER, 2 + instances)


def rendezvous_barriers(program: Program, sync: SyncPlan) -> dict[str, int]:
    """Return the named barrier at which the warps of a role meet: role -> its id."""
    meeting = {site.op for site in sync.rendezvous}
    roles = [
        rp.role.name
        for rp in program.role_programs
        if any(use.op.name in meeting for use in rp.uses())
    ]
    turns = turn_barriers(program)
    first = turns.stop if turns is not None else _first_free(program)
    return {role: first + number for number, role in enumerate(roles)}
