"""Plans: the tile list of one batch, made once for all layers that share its offsets."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from . import arguments
from .guard import guard_offsets
from .kernels import Wanted, forward_schedule, load


@dataclass(frozen=True, slots=True)
class Plan:
    """What `attention` takes as `plan`.

    Attributes:
        sequences: B.
        total_queries: rows of q that it was made for; None in broadcast mode.
        tiles: tensors of the kernel's tile list; empty where only the reference runs.
    """

    sequences: int
    total_queries: int | None
    tiles: tuple[torch.Tensor, ...]


def plan(
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None = None,
    *,
    total_queries: int | None = None,
    total_keys: int | None = None,
    check: bool = True,
) -> Plan:
    """Return the plan of a batch, made on the device without a host synchronisation.

    Args:
        kv_offsets: [B + 1] integers; sequence b has the keys kv_offsets[b] to kv_offsets[b + 1].
        q_offsets: the same of packed queries; None in broadcast mode.
        total_queries: rows of q; needed with `q_offsets`.
        total_keys: rows of k; the last offset is held against it if it is given.
        check: look at the values of the offsets too. On a GPU wrong ones stop the process with a
            message (a device-side trap), since nobody waits for the answer.

    Raises:
        TypeError, ValueError: as `attention`.
    """
    arguments.check_offsets("kv_offsets", kv_offsets, kv_offsets.device)
    if q_offsets is not None:
        arguments.check_offsets("q_offsets", q_offsets, kv_offsets.device)
        arguments.check_same_batch(kv_offsets, q_offsets)
        if total_queries is None or total_queries < 0:
            raise ValueError(
                f"total_queries is {total_queries}: with q_offsets the rows of q are needed"
            )
    if check:
        look_at_offsets(kv_offsets, q_offsets, total_keys, total_queries)
    return make_plan(kv_offsets, q_offsets, total_queries)


def look_at_offsets(
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    total_keys: int | None,
    total_queries: int | None,
) -> None:
    """Look at the values of offsets: on the host for CPU tensors, else on the device.

    Raises:
        ValueError: for CPU tensors, with the first sequence that is wrong.
    """
    most = torch.iinfo(torch.int32).max
    for name, offsets, tensor, rows in (
        ("kv_offsets", kv_offsets, "k", total_keys),
        ("q_offsets", q_offsets, "q", total_queries),
    ):
        if offsets is None:
            continue
        if forward_schedule(offsets.device) is not None:
            guard_offsets(name, offsets, most if rows is None else rows)
        else:
            arguments.check_values(name, offsets, most if rows is None else rows, tensor)


def make_plan(
    kv_offsets: torch.Tensor, q_offsets: torch.Tensor | None, total_queries: int | None
) -> Plan:
    """Return the plan of offsets that were checked."""
    sequences = kv_offsets.numel() - 1
    schedule = forward_schedule(kv_offsets.device)
    if schedule is None or not sequences:
        return Plan(sequences, total_queries, ())
    wanted = Wanted(schedule, q_offsets is not None, 128, torch.bfloat16)
    kernel = load(wanted)
    if q_offsets is None:
        return Plan(sequences, None, kernel.make_tiles(kv_offsets))
    return Plan(sequences, total_queries, kernel.make_tiles(kv_offsets, q_offsets, total_queries))
