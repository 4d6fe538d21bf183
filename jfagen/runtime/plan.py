"""Plans: the tile list of one batch, made once for all layers that share its offsets."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from . import arguments
from .complaint import device_errors
from .kernels import Wanted, forward_schedule, load
from .tiles import list_tiles


@dataclass(frozen=True, slots=True)
class Plan:
    """What `attention` takes as `plan`.

    Attributes:
        sequences: B.
        total_queries: rows of q that it was made for; None in broadcast mode.
        total_keys: rows of k that the last offset was held against; None if it was not.
        tiles: tensors of the kernel's tile list; empty where only the reference runs.
    """

    sequences: int
    total_queries: int | None
    total_keys: int | None
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
        total_queries: rows of q; needed with `q_offsets`, of no use without.
        total_keys: rows of k, against which the last offset is held. Without it nobody notices on
            a GPU that offsets end past the rows of k.
        check: look at the values of the offsets too. On a GPU wrong ones trap, since nobody waits
            for the answer; the sequence is said where the trap is noticed, or at the end.

    Raises:
        TypeError, ValueError: as `attention`.
    """
    arguments.check_offsets("kv_offsets", kv_offsets, None)
    arguments.check_rows("total_keys", total_keys)
    arguments.check_rows("total_queries", total_queries)
    if q_offsets is not None:
        arguments.check_offsets("q_offsets", q_offsets, kv_offsets.device)
        arguments.check_same_batch(kv_offsets, q_offsets)
        if total_queries is None:
            raise ValueError("total_queries is None: with q_offsets the rows of q are needed")
    else:
        total_queries = None
    schedule = forward_schedule(kv_offsets.device)
    tiles: tuple[torch.Tensor, ...] = ()
    if schedule is None:
        if check:
            arguments.check_all_values(kv_offsets, q_offsets, total_keys, total_queries)
    else:
        # All instances of a schedule take the same list.
        kernel = load(Wanted(schedule, q_offsets is not None, 128, torch.bfloat16))
        totals = {"total_keys": total_keys, "total_queries": total_queries}
        with device_errors():
            tiles = list_tiles(kernel, kv_offsets, q_offsets, **totals, check=check)
    held = total_keys if check else None
    return Plan(kv_offsets.numel() - 1, total_queries, held, tiles)
