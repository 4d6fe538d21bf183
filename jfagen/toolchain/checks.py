"""The limits that the toolchain does not keep: memory, threads, and register requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..target import SM_100A, TARGETS, WARPS_PER_GROUP, Target
from . import ptx
from .emitted import Emitted, EmittedRole
from .records import Arch, Budget, CompileFailed, Finding, Resources

_LEAST_REGISTERS = 24


def findings(
    arch: Arch,
    budget: Budget,
    resources: Resources,
    launch_registers: int | None,
    roles: tuple[EmittedRole, ...],
    ptxas_log: str = "",
) -> tuple[Finding, ...]:
    """Return every limit that the kernel breaks: of hardware, of its own budget, then of speed."""
    # Hopper's limits on shared memory and threads are Blackwell's; it has no tensor memory.
    target = TARGETS.get(arch.value, SM_100A)
    return (
        *_over_hardware(target, resources),
        *_over_budget(budget, resources),
        *dropped_registers(budget, resources.setmaxnreg, launch_registers, roles),
        *serialized(ptxas_log),
    )


def serialized(ptxas_log: str) -> Iterator[Finding]:
    """Yield a finding if ptxas waits for every wgmma by itself, which costs most of their speed."""
    for line in ptxas_log.splitlines():
        if "wgmma" in line and "serialized" in line:
            reason = line.partition("serialized due to ")[2].partition(" in the function")[0]
            yield Finding(
                id="matmuls-serialized",
                message=f"ptxas runs the matmuls one by one: {reason or 'it does not say why'}",
                help="wait for a matmul before the registers are written that it reads or writes",
            )
            return


def _over_hardware(target: Target, resources: Resources) -> Iterator[Finding]:
    if resources.smem_bytes > target.smem_bytes:
        yield Finding(
            id="smem-over-limit",
            message=f"the kernel needs {resources.smem_bytes} bytes of shared memory, "
            f"a CTA has {target.smem_bytes}",
            help="the toolchain compiles it and the launch fails: use fewer or smaller buffers",
        )
    if resources.tmem_columns > target.tmem_columns:
        yield Finding(
            id="tmem-over-limit",
            message=f"the kernel needs {resources.tmem_columns} columns of tensor memory, "
            f"an SM has {target.tmem_columns}",
            help="the toolchain compiles it and the launch fails: let buffers share columns",
        )
    if resources.threads > target.threads:
        yield Finding(
            id="threads-over-limit",
            message=f"the kernel has {resources.threads} threads, a CTA has at most "
            f"{target.threads}",
        )


def _over_budget(budget: Budget, resources: Resources) -> Iterator[Finding]:
    if budget.smem_bytes is not None and resources.smem_bytes > budget.smem_bytes:
        yield Finding(
            id="smem-over-budget",
            message=f"the kernel needs {resources.smem_bytes} bytes of shared memory, "
            f"its `BUDGET` says {budget.smem_bytes}",
        )
    if budget.tmem_columns is not None and resources.tmem_columns > budget.tmem_columns:
        yield Finding(
            id="tmem-over-budget",
            message=f"the kernel needs {resources.tmem_columns} columns of tensor memory, "
            f"its `BUDGET` says {budget.tmem_columns}",
        )


def dropped_registers(
    budget: Budget,
    setmaxnreg: tuple[int, ...],
    launch_registers: int | None,
    roles: tuple[EmittedRole, ...],
) -> Iterator[Finding]:
    """Yield a finding for each register request that the PTX does not set.

    A request equal to what a thread has at launch needs no setmaxnreg. Narrow roles share a group
    of four warps, which gets the largest request among them; no group gets fewer than 24.
    """
    set_values = ", ".join(str(value) for value in setmaxnreg) or "none"
    narrow = {role.name for role in roles if role.warps and role.warps < WARPS_PER_GROUP}
    shared = [budget.registers[name] for name in budget.registers if name in narrow]
    for name, requested in budget.registers.items():
        given = {requested, _LEAST_REGISTERS} if requested < _LEAST_REGISTERS else {requested}
        if name in narrow:
            given |= {other for other in shared if other > requested}
        if launch_registers in given or given.intersection(setmaxnreg):
            continue
        yield Finding(
            id="registers-dropped",
            message=f"`{name}` asks for {requested} registers, the PTX sets {set_values}",
            help="requests over the register budget of the SM are dropped in silence: "
            "ask for fewer, all roles together",
        )


def explained(failure: CompileFailed, emitted: Emitted) -> CompileFailed:
    """Return the failure as one of dropped register requests, where its PTX has dropped any.

    Without them every role has what a thread has at launch, which ptxas may find too few.
    """
    if failure.ptx is None:
        return failure
    found = tuple(
        dropped_registers(
            emitted.budget,
            ptx.setmaxnreg_values(failure.ptx),
            ptx.launch_registers(failure.ptx),
            emitted.roles,
        )
    )
    if not found:
        return failure
    others = tuple(each.message for each in found[1:])
    notes = (*others, failure.finding.message, *failure.finding.notes)
    return CompileFailed(replace(found[0], notes=notes), failure.ptx)
