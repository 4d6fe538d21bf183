"""Values of offsets on a GPU, looked at by a tiny kernel: wrong ones stop, nobody has to wait."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import torch


def guard_offsets(name: str, offsets: torch.Tensor, rows: int) -> None:
    """Launch the look at offsets [B + 1]: from 0, never falling, at most `rows` at the end.

    Wrong values print the name, the sequence and its two offsets, and end the kernel with a trap;
    CUDA reports that at the next synchronisation.
    """
    kernels = _kernels()
    block = 1024
    grid = (max(1, -(-(offsets.numel() - 1) // block)),)
    which = kernels.look_at_kv_offsets if name == "kv_offsets" else kernels.look_at_q_offsets
    which[grid](offsets, offsets.numel() - 1, rows, BLOCK=block, num_warps=4)


@cache
def _kernels() -> ModuleType:
    from . import guard_kernels

    return guard_kernels
