"""Tile lists on a GPU, with a look at the offsets: one small launch, and nobody has to wait.

The kernels' own `make_tiles` does the same with a dozen torch ops, each of which costs the host as
much as this; it serves batches of so many sequences that counting them all for each is too much.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType, SimpleNamespace

import torch

from .arguments import MOST_ROWS
from .complaint import word
from .kernels import current

#: Sequences up to which every one is placed by counting all others.
MOST_COUNTED = 8192
_BLOCK = 1024
#: int32 elements of 16 bytes.
_ALIGNED = 4


def list_tiles(
    kernel: ModuleType,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    *,
    total_keys: int | None,
    total_queries: int | None,
    check: bool,
) -> tuple[torch.Tensor, ...]:
    """Return the tensors that a kernel's `forward` takes as `tiles`.

    With `check`, offsets that do not start with 0, that fall, or that end past the rows of their
    tensor print the first such sequence and end the kernel with a trap, which CUDA reports at the
    next synchronisation, or to the first call after it; `complaint` then says the sequence too.

    Args:
        kernel: module of a generated kernel.
        kv_offsets: [B + 1] integers on the GPU; there are no tiles if B is 0.
        q_offsets: the same of packed queries; None in broadcast mode.
        total_keys: rows of k; None if they are not known.
        total_queries: rows of q; None in broadcast mode.
        check: whether to look at the values.
    """
    sequences = kv_offsets.numel() - 1
    if not sequences:
        return ()
    kv_offsets = kv_offsets.contiguous()
    q_offsets = None if q_offsets is None else q_offsets.contiguous()
    most = MOST_ROWS if total_keys is None else total_keys
    counted = sequences <= MOST_COUNTED and kernel.ORDER == "longest_first"
    make = _with_one_launch if counted else _with_torch
    with current(kv_offsets.device):
        return make(kernel, kv_offsets, q_offsets, most, total_queries, check)


def list_key_blocks(
    kernel: ModuleType,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    total_keys: int,
    queries: int,
) -> tuple[torch.Tensor, ...] | None:
    """Return the tensors that a kernel's `backward` takes as `tiles`; None if it has to make them.

    Nothing is written outside of the list, whatever the offsets say; the forward looked at them.

    Args:
        kernel: module of a generated kernel.
        kv_offsets: [B + 1] integers on the GPU.
        q_offsets: the same of packed queries; None in broadcast mode.
        total_keys: rows of k.
        queries: rows of q.
    """
    sequences = kv_offsets.numel() - 1
    if sequences > MOST_COUNTED:
        return None
    kv_offsets = kv_offsets.contiguous()
    room = total_keys // kernel.TILE_KEYS + sequences + 1
    if q_offsets is None:
        parts = _parts(kv_offsets, room, sequences + 3, sequences + 3, sequences + 2)
        given = (sequences, total_keys, queries, room, kernel.TILE_KEYS, _BLOCK)
        _kernels().list_key_blocks[(sequences + 2,)](kv_offsets, *parts, *given, num_warps=4)
        return parts
    rows = kernel.BLOCK_M.value
    row_room = queries // rows + sequences + 4
    parts = _parts(kv_offsets, room, sequences + 4, row_room, sequences + 4, sequences + 4)
    _kernels().list_packed_key_blocks[(sequences + 3,)](
        kv_offsets,
        q_offsets.contiguous(),
        *parts,
        sequences,
        total_keys,
        queries,
        room,
        row_room,
        kernel.TILE_KEYS,
        rows,
        kernel.ORDER == "valid_by_q_length",
        _BLOCK,
        num_warps=4,
    )
    return parts


def _with_one_launch(
    kernel: ModuleType,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    most: int,
    total_queries: int | None,
    check: bool,
) -> tuple[torch.Tensor, ...]:
    """Return the list as the kernels of `list_kernels` make it; wrong offsets trap."""
    sequences = kv_offsets.numel() - 1
    if q_offsets is None:
        order, bounds = _parts(kv_offsets, sequences, sequences + 1)
        _kernels().order_sequences[(sequences,)](
            kv_offsets, order, bounds, word(), sequences, most, check, _BLOCK, num_warps=4
        )
        return order, bounds
    assert total_queries is not None
    room = total_queries // kernel.TILE_ROWS + sequences + 1
    parts = _parts(kv_offsets, room, room, 1, sequences + 2, sequences + 2)
    _kernels().list_tiles[(sequences + 1,)](
        kv_offsets,
        q_offsets,
        *parts,
        word(),
        sequences,
        most,
        total_queries,
        kernel.TILE_ROWS,
        check,
        _BLOCK,
        num_warps=4,
    )
    return parts


def _parts(like: torch.Tensor, *lengths: int) -> tuple[torch.Tensor, ...]:
    """Return int32 tensors out of one allocation, all on 16-byte borders.

    Triton compiles a kernel anew for pointers that are not: every batch would have its own.
    """
    sizes = [size for length in lengths for size in (length, -length % _ALIGNED)]
    parts = like.new_empty(sum(sizes), dtype=torch.int32).split(sizes)
    return tuple(parts[::2])


def _with_torch(
    kernel: ModuleType,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    total_keys: int,
    total_queries: int | None,
    check: bool,
) -> tuple[torch.Tensor, ...]:
    """Return the list as the kernel's own host part makes it; wrong offsets only assert."""
    if check:
        _assert(kv_offsets, total_keys)
    if q_offsets is None:
        made: tuple[torch.Tensor, ...] = kernel.make_tiles(kv_offsets)
        return made
    assert total_queries is not None
    if check:
        _assert(q_offsets, total_queries)
    made = kernel.make_tiles(kv_offsets, q_offsets, total_queries)
    return made


def _assert(offsets: torch.Tensor, rows: int) -> None:
    right = (offsets.diff() >= 0).all() & (offsets[0] == 0) & (offsets[-1] <= rows)
    torch._assert_async(right)


@cache
def _kernels() -> SimpleNamespace:
    from . import list_kernels
    from .launch import launcher

    return SimpleNamespace(
        order_sequences=launcher(list_kernels.order_sequences),
        list_tiles=launcher(list_kernels.list_tiles),
        list_key_blocks=launcher(list_kernels.list_key_blocks),
        list_packed_key_blocks=launcher(list_kernels.list_packed_key_blocks),
    )
