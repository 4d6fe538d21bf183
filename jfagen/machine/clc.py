"""Cluster launch control: a CTA takes the number of one that has not started yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .barriers import Barriers
from .dtypes import UINT8
from .machine import Machine
from .memory import SMEM_BYTES, Region, Storage, View
from .report import MachineFault
from .scalars import Int32
from .scheduler import Operation
from .sync_ops import barrier_wait, new_barriers
from .values import Value

_RESPONSE_BYTES = 16


@dataclass(slots=True, eq=False)
class Context:
    """Barriers and responses of one CLC pipeline, one of each for every stage."""

    number: int
    empty: Barriers
    full: Barriers
    responses: list[View]
    tiles: list[int]


def clc_create_context(machine: Machine, num_consumers: Value, num_stages: Value = 1) -> Context:
    """Return a CLC pipeline whose stages are free again after `num_consumers` arrivals."""
    name, stages, cta = machine.name_here("clc"), int(num_stages), machine.cta
    empty = new_barriers(machine, f"{name}.empty", stages, int(num_consumers))
    full = new_barriers(machine, f"{name}.full", stages, 1)
    # Responses lie behind the data in the numbering of bytes: barriers take no part in packing.
    first = SMEM_BYTES + cta.memory.barrier_bytes
    cta.memory.add_barriers(0, extra=_RESPONSE_BYTES * stages)
    responses = [
        View(
            array=np.zeros(_RESPONSE_BYTES, np.uint8),
            dtype=UINT8,
            storage=Storage.SMEM,
            region=Region(first + i * _RESPONSE_BYTES, 1, _RESPONSE_BYTES, _RESPONSE_BYTES),
            name=name,
            label=f"{name}.response[{i}]",
            memory=cta.memory,
        )
        for i in range(stages)
    ]
    context = Context(len(cta.contexts), empty, full, responses, [-1] * stages)
    cta.contexts.append(context)
    return context


def clc_producer(
    machine: Machine, context: Context, p_producer: Value, multi_ctas: Value = False, k: Value = 0
) -> None:
    """Ask for the next cluster that has not started; the answer comes later, to all CTAs.

    With `multi_ctas` every CTA calls this, the first one waits and asks.

    Raises:
        MachineFault: an earlier request of this cluster was refused, or clusters are mixed up.
    """
    stage, cta = int(k), machine.cta
    if bool(multi_ctas) != (machine.cluster_size > 1):
        raise MachineFault("clc", f"multi_ctas={multi_ctas} in clusters of {machine.cluster_size}")
    if cta.rank == 0:
        barrier_wait(machine, context.empty[stage], p_producer)
    if cta.cluster.clc_refused:
        raise MachineFault("clc", "a CLC request after one that was refused")
    machine.role.before |= machine.mark(cta.order)
    context.full[stage].expect(_RESPONSE_BYTES, machine.role.before)
    if cta.rank == 0:
        _ask(machine, context, stage)
    machine.scheduler.pause()


def _ask(machine: Machine, context: Context, stage: int) -> None:
    peers = [machine.peer(rank) for rank in range(machine.cluster_size)]
    copies = [peer.contexts[context.number] for peer in peers]
    cluster = machine.cta.cluster

    def run(operation: Operation) -> None:
        accesses = [(copy.responses[stage], True, "CLC response") for copy in copies]
        after = machine.touch_all(operation, accesses)
        total = machine.grid[0] * machine.grid[1] * machine.grid[2]
        first = machine.next_cta if machine.next_cta < total else -1
        cluster.clc_refused = first < 0
        if first >= 0:
            machine.next_cta += machine.cluster_size
        for peer, copy in zip(peers, copies, strict=True):
            copy.tiles[stage] = first + peer.rank if first >= 0 else -1
            if first >= 0:
                peer.tiles.append(first + peer.rank)
            copy.full[stage].complete_bytes(_RESPONSE_BYTES, after)

    machine.submit(run)


def clc_consumer(
    machine: Machine,
    context: Context,
    p_consumer: Value,
    multi_ctas: Value = False,
    k: Value = 0,
    return_3d: Value = False,
) -> Value:
    """Wait for the answer and return the CTA number, or -1; then free the stage unless refused."""
    stage = int(k)
    barrier_wait(machine, context.full[stage], p_consumer)
    machine.touch(context.responses[stage], write=False, action="read")
    tile = context.tiles[stage]
    if tile >= 0:
        empty = context.empty[stage]
        slot = machine.slot_of(empty, 0) if multi_ctas else empty
        machine.role.before |= machine.mark(machine.cta.order)
        slot.arrive(1, machine.role.before)
    machine.scheduler.pause()
    if not return_3d:
        if machine.grid[1] * machine.grid[2] != 1:
            raise MachineFault("clc", "a CLC answer without return_3d on a grid of several axes")
        return Int32(tile)
    if tile < 0:
        return (Int32(-1),) * 3
    width, height = machine.grid[0], machine.grid[1]
    return Int32(tile % width), Int32(tile // width % height), Int32(tile // (width * height))


CLC_OPS = {
    function.__name__: function for function in (clc_create_context, clc_producer, clc_consumer)
}
