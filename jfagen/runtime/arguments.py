"""Checks of arguments, before anything is launched: the tensor, its value and the rule."""

from __future__ import annotations

import math
from itertools import pairwise
from numbers import Real

import torch

HEAD_DIMS = (64, 128)
#: Element types of the kernels; the reference takes wider ones too.
KERNEL_TYPES = (torch.bfloat16, torch.float16)
REFERENCE_TYPES = (*KERNEL_TYPES, torch.float32, torch.float64)
OFFSET_TYPES = (torch.int32, torch.int64)
#: Rows are counted in 32 bits.
MOST_ROWS = torch.iinfo(torch.int32).max
#: Where the kernels' descriptors end every sequence (`triton.tools.ragged_tma`).
MOST_KERNEL_ROWS = 2**30


def check_tensors(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    types: tuple[torch.dtype, ...] = REFERENCE_TYPES,
) -> None:
    """Check q [M or T_q, H, D], k and v [T, H, D] of one type on one device.

    Raises:
        TypeError: one is no dense tensor, or of a type that is not among `types`.
        ValueError: shapes or devices that do not go together.
    """
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        _is_dense(name, tensor)
        if tensor.dtype not in types:
            legal = ", ".join(map(str, types))
            raise TypeError(f"{name} has elements of type {tensor.dtype}, not one of {legal}")
        if tensor.dim() != 3:
            shape = list(tensor.shape)
            raise ValueError(f"{name} has the shape {shape}, not [rows, heads, head_dim]")
    for name, tensor in (("k", k), ("v", v)):
        if tensor.dtype != q.dtype:
            raise TypeError(f"{name} has elements of type {tensor.dtype}, q of {q.dtype}")
        if tensor.device != q.device:
            raise ValueError(f"{name} is on {tensor.device}, q on {q.device}")
        if tensor.shape[1:] != q.shape[1:]:
            raise ValueError(
                f"{name} has {list(tensor.shape[1:])} heads and elements, q {list(q.shape[1:])}"
            )
    if k.shape[0] != v.shape[0]:
        raise ValueError(f"k has {k.shape[0]} rows, v {v.shape[0]}")
    if q.shape[1] < 1 or q.shape[2] < 1:
        raise ValueError(f"q has the shape {list(q.shape)}: at least one head of one element")


def check_for_kernel(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Check what the kernels take beside what the reference does.

    Raises:
        TypeError: elements of another type.
        ValueError: another head dimension, or too many rows.
    """
    if not {q.dtype, k.dtype, v.dtype} <= set(KERNEL_TYPES):
        check_tensors(q, k, v, KERNEL_TYPES)
    if q.shape[2] not in HEAD_DIMS:
        legal = ", ".join(map(str, HEAD_DIMS))
        raise ValueError(f"q has a head_dim of {q.shape[2]}, kernels are built for {legal}")
    for name, tensor in (("q", q), ("k", k)):
        if tensor.shape[0] > MOST_KERNEL_ROWS:
            raise ValueError(f"{name} has {tensor.shape[0]} rows, more than {MOST_KERNEL_ROWS}")


def check_offsets(name: str, offsets: torch.Tensor, device: torch.device | None) -> None:
    """Check the form of offsets [B + 1]; their values are looked at where they lie.

    Args:
        name: of the argument.
        offsets: what was given.
        device: on which they have to lie; None for any.

    Raises:
        TypeError: no integers.
        ValueError: another shape or device.
    """
    _is_dense(name, offsets)
    if offsets.dtype not in OFFSET_TYPES:
        raise TypeError(f"{name} has elements of type {offsets.dtype}, not int32 or int64")
    if offsets.dim() != 1 or offsets.numel() < 1:
        raise ValueError(
            f"{name} has the shape {list(offsets.shape)}, not [sequences + 1]: it starts with 0 "
            "and ends with the number of rows"
        )
    if device is not None and offsets.device != device:
        raise ValueError(f"{name} is on {offsets.device}, not on {device}")


def check_same_batch(kv_offsets: torch.Tensor, q_offsets: torch.Tensor) -> None:
    """Check that both offsets are for the same number of sequences; ValueError if not."""
    if kv_offsets.numel() != q_offsets.numel():
        raise ValueError(
            f"kv_offsets is for {kv_offsets.numel() - 1} sequences, q_offsets for "
            f"{q_offsets.numel() - 1}"
        )


def check_rows(name: str, rows: int | None) -> None:
    """Check a number of rows; None where it is not known.

    Raises:
        TypeError: no integer.
        ValueError: a negative one.
    """
    if rows is None:
        return
    if not isinstance(rows, int) or isinstance(rows, bool):
        raise TypeError(f"{name} is a {type(rows).__name__}, not a number of rows")
    if rows < 0:
        raise ValueError(f"{name} is {rows}, not a number of rows")


def check_values(name: str, offsets: torch.Tensor, rows: int | None, tensor: str) -> None:
    """Check values of offsets on the CPU: from 0, never falling, not past the rows of a tensor.

    Where the rows are not known, they are held against the largest number that a kernel counts to.

    Raises:
        ValueError: with the first sequence that is wrong.
    """
    values = offsets.tolist()
    if values[0] != 0:
        raise ValueError(f"{name}[0] is {values[0]}, not 0")
    for sequence, (start, stop) in enumerate(pairwise(values)):
        if stop < start:
            raise ValueError(
                f"{name} falls from {start} to {stop} at sequence {sequence}: it must not fall"
            )
    if rows is None and values[-1] > MOST_ROWS:
        raise ValueError(f"{name} ends with {values[-1]}, more than {MOST_ROWS} rows")
    if rows is not None and values[-1] > rows:
        raise ValueError(f"{name} ends with {values[-1]}, but {tensor} has {rows} rows")


def check_all_values(
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    total_keys: int | None,
    total_queries: int | None,
) -> None:
    """Check the values of both offsets as `check_values` does, where they have any."""
    if kv_offsets.is_meta:
        return
    check_values("kv_offsets", kv_offsets, total_keys, "k")
    if q_offsets is not None:
        check_values("q_offsets", q_offsets, total_queries, "q")


def checked_scale(scale: float | None, head_dim: int) -> float:
    """Return the scale, 1 / sqrt(head_dim) if None.

    Raises:
        TypeError: no number; a tensor is none, since its value may lie on a device.
        ValueError: not positive and finite.
    """
    if scale is None:
        return float(head_dim**-0.5)
    if not isinstance(scale, int | float | Real) or isinstance(scale, bool):
        raise TypeError(f"scale is a {type(scale).__name__}, not a number of the host")
    try:
        value = float(scale)
    except OverflowError:
        value = math.inf
    if not 0 < value < math.inf:
        raise ValueError(f"scale is {value}, not a positive finite number")
    return value


def _is_dense(name: str, tensor: torch.Tensor) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}, not a tensor")
    if tensor.is_nested:
        raise TypeError(
            f"{name} is a nested tensor: pass `{name}.values()`, and `{name}.offsets()` as offsets"
        )
    if tensor.layout is not torch.strided:
        raise TypeError(f"{name} has the layout {tensor.layout}, not a dense one")
