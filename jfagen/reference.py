"""Broadcast-Q jagged attention in float64 numpy, to compare kernels with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]


def round_to_bfloat16(values: npt.ArrayLike) -> Float:
    """Return values rounded to bfloat16, nearest even, in float64; infinities and NaN stay."""
    single = np.asarray(values, np.float32)
    bits = single.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(single), rounded.view(np.float32), single).astype(np.float64)


def attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    kv_offsets: npt.ArrayLike,
    *,
    scale: float | None = None,
    rounded: bool = False,
) -> tuple[Float, Float]:
    """Return out [B, M, H, D] and lse [B, H, M] (natural logarithm) of one q [M, H, D].

    k and v are packed [T, H, D]; sequence b has the rows kv_offsets[b] to before kv_offsets[b + 1].
    A sequence without rows gives 0 and -inf. With `rounded`, P (not its sum) and out pass through
    bfloat16, as a kernel with 16-bit inputs does.
    """
    queries, keys, values = (np.asarray(x, np.float64) for x in (q, k, v))
    offsets: Any = np.asarray(kv_offsets)
    m, h, d = queries.shape
    batch = len(offsets) - 1
    factor = d**-0.5 if scale is None else scale
    out = np.zeros((batch, m, h, d))
    lse = np.full((batch, h, m), -np.inf)
    for b in range(batch):
        rows = slice(int(offsets[b]), int(offsets[b + 1]))
        if rows.start == rows.stop:
            continue
        s = np.einsum("mhd,nhd->hmn", queries, keys[rows]) * factor
        top = s.max(axis=2, keepdims=True)
        p = np.exp(s - top)
        total = p.sum(axis=2, keepdims=True)
        weights = round_to_bfloat16(p) if rounded else p
        out[b] = np.einsum("hmn,nhd->mhd", weights / total, values[rows])
        lse[b] = (top + np.log(total))[:, :, 0]
    return (round_to_bfloat16(out) if rounded else out), lse
