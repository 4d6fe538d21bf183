"""The operator: attention forward behind `torch.library`, with shapes known to the compiler."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from . import arguments
from .complaint import device_errors
from .kernels import Wanted, current, forward_schedule, load
from .reference import reference
from .tiles import list_tiles

#: What TMA asks of an address and of the distance between two rows, in bytes (CUDA Driver API,
#: `cuTensorMapEncodeTiled`).
TMA_ALIGNMENT = 16


@torch.library.custom_op("jfagen::attention_forward", mutates_args=())
def attention_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    scale: float,
    tiles: Sequence[torch.Tensor],
    check: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return out and lse; arguments as `attention`, `tiles` those of a plan, none without one.

    With `check` the values of the offsets are looked at; everything else was checked.
    """
    return compute(q, k, v, kv_offsets, q_offsets, scale, tiles, check)


def compute(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    scale: float,
    tiles: Sequence[torch.Tensor],
    check: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the operator does, without its way through torch's dispatcher."""
    schedule = forward_schedule(q.device)
    total_queries = None if q_offsets is None else q.shape[0]
    if schedule is None:
        if check:
            arguments.check_all_values(kv_offsets, q_offsets, k.shape[0], total_queries)
        return reference(q, k, v, kv_offsets, q_offsets, scale)
    arguments.check_for_kernel(q, k, v)
    kernel = load(Wanted(schedule, q_offsets is not None, q.shape[2], q.dtype))
    if not tiles:
        totals = {"total_keys": k.shape[0], "total_queries": total_queries}
        with device_errors():
            tiles = list_tiles(kernel, kv_offsets, q_offsets, **totals, check=check)
    if not tiles or not q.shape[0] or not k.shape[0]:
        out, lse = _empty(q, kv_offsets, q_offsets)
        return out.zero_(), lse.fill_(float("-inf"))
    offsets = (kv_offsets,) if q_offsets is None else (kv_offsets, q_offsets)
    with device_errors(), current(q.device):
        rows = (_for_tma(q), _for_tma(k), _for_tma(v))
        found = kernel.forward(*rows, *offsets, scale=scale, tiles=tiles)
    return found[0], found[1]


@attention_forward.register_fake
def _(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    scale: float,
    tiles: Sequence[torch.Tensor],
    check: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _empty(q, kv_offsets, q_offsets)


def _empty(
    q: torch.Tensor, kv_offsets: torch.Tensor, q_offsets: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    rows, heads, head_dim = q.shape
    if q_offsets is not None:
        return q.new_empty((rows, heads, head_dim)), q.new_empty((rows, heads), dtype=torch.float32)
    batch = kv_offsets.shape[0] - 1
    return (
        q.new_empty((batch, rows, heads, head_dim)),
        q.new_empty((batch, heads, rows), dtype=torch.float32),
    )


def _for_tma(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as TMA can read it: itself, or a copy.

    A descriptor sees rows of H * D elements: heads must lie side by side, addresses and rows on
    16-byte borders. Slices of a fused projection do, transposed tensors do not.
    """
    _, _, head_dim = tensor.shape
    row, head, element = tensor.stride()
    size = tensor.element_size()
    dense = element == 1 and (head == head_dim or tensor.shape[1] == 1)
    aligned = tensor.data_ptr() % TMA_ALIGNMENT == 0 and row * size % TMA_ALIGNMENT == 0
    if dense and aligned and row > 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)
