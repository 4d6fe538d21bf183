"""Hardware facts of the targets, each with its unit; every other module asks here."""

from __future__ import annotations

from dataclasses import dataclass

from .types import Storage

WARP_THREADS = 32
WARPS_PER_GROUP = 4
#: A warp's registers per thread are a multiple of this, and no fewer than that (PTX ISA,
#: "setmaxnreg").
REGISTER_STEP, FEWEST_REGISTERS = 8, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One GPU architecture that kernels are made for.

    Attributes:
        name: what a schedule calls it and what ptxas takes, for example `sm_100a`.
        smem_bytes: shared memory that one CTA may use, in bytes (227 KiB on Hopper and Blackwell;
            CUDA C Programming Guide, table of technical specifications per compute capability).
        tmem_columns: 32-bit tensor-memory columns of one SM; 0 where there is none (PTX ISA,
            section "Tensor Memory": 128 lanes by 512 columns).
        tmem_lanes: lanes (rows) of tensor memory.
        tmem_smallest: the smallest TMEM allocation in columns; sizes are powers of two above it.
        registers: 32-bit registers of one SM (CUDA C Programming Guide, same table).
        registers_per_thread: the most that one thread may own.
        threads: the most threads in one CTA.
        named_barriers: hardware `bar.sync` ids of one CTA.
        mbarrier_bytes: SMEM of one mbarrier object (PTX ISA, section "mbarrier").
        clc: whether a CTA can take the id of one that has not started (cluster launch control).
        accumulators: where a matmul leaves its result: tensor memory (tcgen05, PTX ISA section
            "TensorCore 5th Generation") or the registers of the warps that issue it (wgmma, PTX
            ISA section "Asynchronous Warpgroup Level Matrix").
        turns: whether replicas can take turns through named barriers.
    """

    name: str
    smem_bytes: int
    tmem_columns: int
    tmem_lanes: int
    tmem_smallest: int
    registers: int
    registers_per_thread: int
    threads: int
    named_barriers: int
    mbarrier_bytes: int
    clc: bool
    accumulators: Storage
    turns: bool

    @property
    def joins(self) -> bool:
        """Whether the role that issues a matmul waits for its end itself."""
        return self.accumulators is Storage.REG


SM_100A = Target(
    name="sm_100a",
    smem_bytes=232_448,
    tmem_columns=512,
    tmem_lanes=128,
    tmem_smallest=32,
    registers=65_536,
    registers_per_thread=256,
    threads=1_024,
    named_barriers=16,
    mbarrier_bytes=8,
    clc=True,
    accumulators=Storage.TMEM,
    turns=False,
)

SM_90A = Target(
    name="sm_90a",
    smem_bytes=232_448,
    tmem_columns=0,
    tmem_lanes=0,
    tmem_smallest=0,
    registers=65_536,
    registers_per_thread=256,
    threads=1_024,
    named_barriers=16,
    mbarrier_bytes=8,
    clc=False,
    accumulators=Storage.REG,
    turns=True,
)

#: The targets that schedules may name, by name. A target enters when its kernels are emitted.
TARGETS = {target.name: target for target in (SM_100A, SM_90A)}


def default_role_registers(
    target: Target, default_warps: int, requests: list[tuple[int, int]]
) -> int:
    """Return the registers per thread that the default role is left with; negative when over.

    The TLX compiler hands out registers in groups of four warps. Roles of fewer warps are packed
    together into one group, which gets the largest request among them.

    Args:
        target: where the kernel runs.
        default_warps: warps of the default role.
        requests: (warps, registers per thread) of every other role instance, in order.
    """
    groups: list[int] = []
    small: list[tuple[int, int]] = []
    for warps, registers in requests:
        if warps >= WARPS_PER_GROUP:
            groups += [max(registers, FEWEST_REGISTERS)] * (warps // WARPS_PER_GROUP)
        else:
            small.append((warps, max(registers, FEWEST_REGISTERS)))
    room = 0
    for warps, registers in small:
        if room < warps:
            groups.append(0)
            room = WARPS_PER_GROUP
        groups[-1] = max(groups[-1], registers)
        room -= warps
    total_warps = default_warps + WARPS_PER_GROUP * len(groups)
    base = target.registers // (total_warps * WARP_THREADS) // REGISTER_STEP * REGISTER_STEP
    left = base * total_warps - WARPS_PER_GROUP * sum(groups)
    return min(left // default_warps // REGISTER_STEP * REGISTER_STEP, target.registers_per_thread)


def total_threads(default_warps: int, other_warps: list[int]) -> int:
    """Return the threads of the CTA: small roles share groups of four warps."""
    small = sum(warps for warps in other_warps if warps < WARPS_PER_GROUP)
    large = sum(warps for warps in other_warps if warps >= WARPS_PER_GROUP)
    padded = -(-small // WARPS_PER_GROUP) * WARPS_PER_GROUP
    return (default_warps + large + padded) * WARP_THREADS
