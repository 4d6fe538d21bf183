"""TLX calls on barriers, fences and warps."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from .barriers import Barriers, Released, Slot, make_barriers
from .dtypes import INT1, INT32
from .machine import Machine
from .named_barriers import Arrival, NamedBarrier
from .report import Blocked, MachineFault
from .scalars import make_scalar
from .tensor import Tensor, operand
from .values import Value


class FenceScope(StrEnum):
    """Who sees the stores that a fence ends."""

    ASYNC_SHARED = "async_shared"
    GPU = "gpu"
    SYS = "sys"


def new_barriers(
    machine: Machine, name: str, number: int, count: int, per_thread: bool = False
) -> Barriers:
    """Return fresh mbarriers of the current CTA."""
    owned = machine.cta.barriers
    barriers = make_barriers(name, len(owned), number, count, per_thread)
    owned.append(barriers)
    if machine.log is not None:
        machine.log.slots.extend(barriers.slots)
        for slot in barriers.slots:
            slot.phases = []
    machine.cta.memory.add_barriers(number)
    return barriers


def alloc_barriers(machine: Machine, num_barriers: Value, arrive_count: Value = 1) -> Barriers:
    """Return mbarriers on which each role arrives once."""
    name = machine.name_here("barriers")
    return new_barriers(machine, name, int(num_barriers), int(arrive_count))


def alloc_warp_barrier(
    machine: Machine, num_barriers: Value, num_warps: Value = 1, num_arrivals: Value = 1
) -> Barriers:
    """Return mbarriers on which every thread arrives: 32 x warps x arrivals a phase."""
    name = machine.name_here("barriers")
    count = 32 * int(num_warps) * int(num_arrivals)
    return new_barriers(machine, name, int(num_barriers), count, per_thread=True)


def _slot(barrier: Value) -> Slot:
    if isinstance(barrier, Barriers) and len(barrier.slots) == 1:
        return barrier.slots[0]
    if not isinstance(barrier, Slot):
        raise MachineFault("barrier", f"a {type(barrier).__name__} is no barrier")
    return barrier


def barrier_wait(machine: Machine, bar: Value, phase: Value, pred: Value = None) -> None:
    """Wait until the phase with this parity is complete.

    Raises:
        MachineFault: the phase is neither 0 nor 1.
    """
    slot, parity = _slot(bar), int(phase)
    if parity not in (0, 1):
        raise MachineFault("phase", f"`{slot.name}[{slot.index}]` is waited for with {parity}")
    if pred is None or pred:
        machine.wait_slot(slot, parity)


def barrier_arrive(
    machine: Machine,
    bar: Value,
    arrive_count: Value = 1,
    remote_cta_rank: Value = None,
    pred: Value = None,
) -> None:
    """Arrive once for the role, or once for each of its threads on a warp barrier.

    Raises:
        MachineFault: too many arrivals, or a warp barrier of another CTA.
    """
    if pred is not None and not pred:
        return
    slot, role = _slot(bar), machine.role
    if remote_cta_rank is not None:
        if slot.per_thread:
            raise MachineFault("cluster", f"`{slot.name}`: a warp barrier is local to its CTA")
        slot = machine.slot_of(slot, int(remote_cta_rank))
    count = int(arrive_count) * (32 * role.warps if slot.per_thread else 1)
    role.before |= machine.mark(machine.cta.order)
    slot.arrive(count, role.before)
    if not slot.per_thread:
        # All warps of the role meet before one of its threads arrives.
        role.tmem_loads.clear()
    machine.scheduler.pause()


def barrier_expect_bytes(machine: Machine, bar: Value, size: Value, pred: Value = None) -> None:
    """Arrive once and add bytes that the phase has to wait for."""
    if pred is None or pred:
        role = machine.role
        role.before |= machine.mark(machine.cta.order)
        _slot(bar).expect(int(size), role.before)
        machine.scheduler.pause()


def _named_arrive(
    machine: Machine, number: Value, threads: Value, *, waits: bool = False
) -> tuple[NamedBarrier, int]:
    role, key = machine.role, int(number)
    if not 0 <= key < 16 or int(threads) % 32:
        raise MachineFault("named-barrier", f"no named barrier {key} of {int(threads)} threads")
    barrier = machine.cta.named.setdefault(key, NamedBarrier(key))
    order = role.cta.order
    arrival = Arrival(
        party=role,
        place=machine.place(),
        number=order.new_event(),
        threads=32 * role.warps,
        waits=waits,
    )
    generation = barrier.arrive(arrival, int(threads), order)
    role.before |= order.bit(arrival.number)
    return barrier, generation


def named_barrier_arrive(machine: Machine, bar: Value, arrive_count: Value) -> None:
    """Count the role's threads at a named barrier and go on."""
    _named_arrive(machine, bar, arrive_count)
    machine.scheduler.pause()


def named_barrier_wait(machine: Machine, bar: Value, arrive_count: Value) -> None:
    """Count the role's threads at a named barrier and wait for the others."""
    barrier, generation = _named_arrive(machine, bar, arrive_count, waits=True)
    machine.role.tmem_loads.clear()
    place = machine.place()

    def blocked() -> Blocked:
        return Blocked(
            place=place,
            barrier="named barrier",
            slot=barrier.number,
            phase=generation,
            completed=barrier.generation,
            detail=f" ({barrier.arrived} of {barrier.threads} threads in)",
        )

    machine.scheduler.wait(lambda: barrier.generation > generation, blocked)


def fence(machine: Machine, scope: str) -> None:
    """Make the role's SMEM stores visible to TMA and MMA, or its stores to other SMs.

    Raises:
        MachineFault: the scope is not known.
    """
    if scope not in set(FenceScope):
        raise MachineFault("fence", f"unknown fence scope {scope}")
    if scope == FenceScope.ASYNC_SHARED:
        machine.cta.order.fence(machine.cta.number, machine.role.name)


def fence_async_shared(machine: Machine) -> None:
    """Make the role's SMEM stores visible to TMA and MMA."""
    fence(machine, FenceScope.ASYNC_SHARED)


def remote_view(machine: Machine, local_allocated_buffer: Value, remote_cta_rank: Value) -> Slot:
    """Return another CTA's copy of a barrier."""
    return machine.slot_of(_slot(local_allocated_buffer), int(remote_cta_rank))


def cluster_barrier(machine: Machine) -> None:
    """Wait for all CTAs of the cluster; inside `async_tasks` every role of every CTA takes part."""
    cluster, role, place = machine.cta.cluster, machine.role, machine.place()
    machine.cta.entered = True
    parties = len(cluster.ctas)
    if role is not machine.cta.roles[0]:
        parties = sum(len(cta.roles) - 1 for cta in cluster.ctas)
    mine = cluster.generation
    cluster.arrived += 1
    cluster.arriving.before |= role.before
    if cluster.arrived == parties:
        cluster.generation, cluster.arrived = mine + 1, 0
        cluster.released, cluster.arriving = cluster.arriving, Released()
    machine.scheduler.wait(
        lambda: cluster.generation > mine,
        lambda: Blocked(place=place, barrier="cluster", slot=0, phase=mine, completed=mine),
    )
    role.before |= cluster.released.before


def fence_mbarrier_init_cluster(machine: Machine) -> None:
    """Do nothing: barriers are ready before any role runs."""


def vote_ballot_sync(machine: Machine, mask: Value, pred: Value) -> Value:
    """Return for each element the 32 votes of its warp; one row of the tile is one thread.

    Raises:
        MachineFault: the tensor has not one column and a multiple of 32 rows.
    """
    votes = operand(pred, INT1)
    if not votes.data.shape:
        return make_scalar(-1 if votes.data else 0, INT32)
    rows = votes.data.shape[0]
    if votes.data.size != rows or rows != 32 * machine.role.warps or int(mask) != 0xFFFFFFFF:
        raise MachineFault("vote", f"a vote over {votes.shape} by {machine.role.warps} warps")
    lanes = votes.data.reshape(-1, 32).astype(np.uint64)
    ballots = (lanes << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
    data = np.repeat(ballots.view(np.int32), 32).reshape(votes.data.shape)
    return Tensor(data, INT32)


SYNC_OPS = {
    function.__name__: function
    for function in (
        *(alloc_barriers, alloc_warp_barrier, barrier_wait, barrier_arrive, barrier_expect_bytes),
        *(named_barrier_arrive, named_barrier_wait, fence, fence_async_shared),
        *(fence_mbarrier_init_cluster, vote_ballot_sync, remote_view, cluster_barrier),
    )
}
