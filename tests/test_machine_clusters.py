"""Clusters of CTAs on the CPU machine: CLC, remote arrivals, distributed shared memory."""

from __future__ import annotations

import numpy as np
import pytest
from test_machine_copies import HEADER
from test_machine_kernels import edit

from jfagen.machine import Fault, Kind, simulate

TILES = (
    HEADER
    + """
@triton.jit
def tiles(out):
    context = tlx.clc_create_context(num_consumers=2)
    tile = tl.program_id(0)
    phase = 0
    while tile != -1:
        tlx.clc_producer(context, phase ^ 1, multi_ctas=True)
        tl.store(out + tile, tile)
        tile = tlx.clc_consumer(context, phase, multi_ctas=True)
        phase ^= 1


def forward():
    out = torch.full((12,), -1, dtype=torch.int32)
    tiles[(12,)](out, num_warps=4, ctas_per_cga=(2, 1, 1))
    return out
"""
)


@pytest.mark.parametrize("policy", ["random", "late", "at_once"])
@pytest.mark.parametrize("sms", [1, 2, 4, 6, 20])
def test_clc_deals_every_pair_of_tiles_once(sms, policy):
    outcome = simulate(TILES, inputs={}, sms=sms, policy=policy)
    assert outcome.ok, outcome.text()
    assert outcome.outputs[0].tolist() == list(range(12))
    for leader, follower in zip(outcome.tiles[::2], outcome.tiles[1::2], strict=True):
        assert [tile + 1 for tile in leader] == list(follower)


def test_a_pair_that_counts_one_consumer_only_is_a_fault_or_a_race():
    text = edit(TILES, "num_consumers=2", "num_consumers=1")
    kinds = {simulate(text, inputs={}, sms=2, seed=seed).kind for seed in range(10)}
    assert kinds & {Kind.FAULT, Kind.RACE}
    assert Kind.RESULTS not in kinds


@pytest.mark.parametrize("options", ["", ", ctas_per_cga=(5, 1, 1)", ", ctas_per_cga=(1, 2, 1)"])
def test_a_launch_that_makes_no_pairs_is_a_fault(options):
    text = edit(TILES, ", ctas_per_cga=(2, 1, 1)", options)
    (fault,) = simulate(text, inputs={}).reports
    assert isinstance(fault, Fault)
    assert fault.rule in ("clc", "cluster")


EXCHANGE = (
    HEADER
    + """
@triton.jit
def exchange(out):
    box = tlx.local_alloc((64,), tl.int32, 1)
    rank = tlx.cluster_cta_rank()
    tlx.cluster_barrier()
    tlx.remote_shmem_store(box[0], tl.arange(0, 64) + 100 * rank, 1 - rank)
    tlx.cluster_barrier()
    tl.store(out + tl.program_id(0) * 64 + tl.arange(0, 64), tlx.local_load(box[0]))


def forward():
    out = torch.zeros((4, 64), dtype=torch.int32)
    exchange[(4,)](out, num_warps=4, ctas_per_cga=(2, 1, 1))
    return out
"""
)

# The same through an asynchronous copy, whose bytes the receiver waits for.
COPY = edit(
    edit(
        EXCHANGE,
        "    tlx.remote_shmem_store(box[0], tl.arange(0, 64) + 100 * rank, 1 - rank)\n"
        "    tlx.cluster_barrier()\n",
        "    tlx.local_store(own[0], tl.arange(0, 64) + 100 * rank)\n"
        '    tlx.fence("async_shared")\n'
        "    tlx.barrier_expect_bytes(full[0], 256)\n"
        "    tlx.async_remote_shmem_copy(box[0], own[0], 1 - rank, full[0])\n"
        "    tlx.barrier_wait(full[0], 0)\n",
    ),
    "    rank =",
    "    own = tlx.local_alloc((64,), tl.int32, 1)\n    full = tlx.alloc_barriers(1)\n    rank =",
)


@pytest.mark.parametrize("text", [EXCHANGE, COPY])
@pytest.mark.parametrize("seed", range(3))
def test_ctas_of_a_pair_write_to_each_other(text, seed):
    outcome = simulate(text, inputs={}, sms=4, seed=seed)
    assert outcome.ok, outcome.text()
    expected = np.arange(64) + 100 * np.array([1, 0, 1, 0])[:, None]
    assert np.array_equal(outcome.outputs[0], expected)


@pytest.mark.parametrize("seed", range(3))
def test_without_the_rendezvous_they_race(seed):
    second = "1 - rank)\n    tlx.cluster_barrier()\n"
    text = edit(EXCHANGE, second, "1 - rank)\n")
    (race,) = simulate(text, inputs={}, seed=seed, sms=2).reports
    assert {race.first.place.cta, race.second.place.cta} == {0, 1}


def test_without_the_wait_for_the_bytes_they_race():
    text = edit(COPY, "    tlx.barrier_wait(full[0], 0)\n", "")
    assert simulate(text, inputs={}, policy="at_once").kind is Kind.RACE


ARRIVE = (
    HEADER
    + """
@triton.jit
def gather(out):
    ready = tlx.alloc_barriers(1, arrive_count=2)
    tlx.barrier_arrive(ready[0], 1, remote_cta_rank=0)
    rank = tlx.cluster_cta_rank()
    if rank == 0:
        tlx.barrier_wait(ready[0], 0)
        tl.store(out + tl.program_id(0) // 2, 1)


def forward():
    out = torch.zeros(2, dtype=torch.int32)
    gather[(4,)](out, num_warps=4, ctas_per_cga=(2, 1, 1))
    return out
"""
)


def test_remote_arrivals_reach_the_leader():
    outcome = simulate(ARRIVE, inputs={})
    assert outcome.ok, outcome.text()
    assert outcome.outputs[0].tolist() == [1, 1]


def test_an_arrival_at_the_wrong_cta_is_a_deadlock():
    text = edit(ARRIVE, "remote_cta_rank=0", "remote_cta_rank=tlx.cluster_cta_rank()")
    assert simulate(text, inputs={}).kind is Kind.DEADLOCK


def test_an_arrival_outside_the_cluster_is_a_fault():
    (fault,) = simulate(edit(ARRIVE, "cta_rank=0", "cta_rank=2"), inputs={}).reports
    assert fault.rule == "cluster"
