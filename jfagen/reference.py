"""Jagged attention and its gradients in float64 numpy, to compare kernels with.

The queries are the same for all sequences (broadcast-Q) or packed like keys and values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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


def round_to_input(values: npt.ArrayLike, dtype: str) -> Float:
    """Return values rounded to the input type, `bf16` or `fp16`, in float64."""
    if dtype == "fp16":
        with np.errstate(over="ignore"):
            return np.asarray(values, np.float16).astype(np.float64)
    return round_to_bfloat16(values)


def attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    kv_offsets: npt.ArrayLike,
    q_offsets: npt.ArrayLike | None = None,
    *,
    scale: float | None = None,
    rounded: bool = False,
    dtype: str = "bf16",
) -> tuple[Float, Float]:
    """Return out [B, M, H, D] and lse [B, H, M] (natural logarithm) of one q [M, H, D].

    k and v are packed [T, H, D]; sequence b has the rows kv_offsets[b] to before kv_offsets[b + 1].
    With `q_offsets` q is packed likewise [T_q, H, D], and so are out [T_q, H, D] and lse [T_q, H];
    rows past the last offset are 0 and -inf. A sequence without keys gives 0 and -inf. With
    `rounded`, P (not its sum) and out pass through `dtype`, as a kernel with 16-bit inputs does.
    """
    if q_offsets is not None:
        return _packed(q, k, v, kv_offsets, q_offsets, scale=scale, rounded=rounded, dtype=dtype)
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
        weights = round_to_input(p, dtype) if rounded else p
        out[b] = np.einsum("hmn,nhd->mhd", weights / total, values[rows])
        lse[b] = (top + np.log(total))[:, :, 0]
    return (round_to_input(out, dtype) if rounded else out), lse


def _packed(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    kv_offsets: npt.ArrayLike,
    q_offsets: npt.ArrayLike,
    *,
    scale: float | None,
    rounded: bool,
    dtype: str,
) -> tuple[Float, Float]:
    """Return out and lse of packed queries: every sequence by itself."""
    queries, keys, values = (np.asarray(x, np.float64) for x in (q, k, v))
    q_ends: Any = np.asarray(q_offsets)
    kv_ends: Any = np.asarray(kv_offsets)
    rows, heads, _ = queries.shape
    out = np.zeros(queries.shape)
    lse = np.full((rows, heads), -np.inf)
    for b in range(len(q_ends) - 1):
        mine = slice(int(q_ends[b]), int(q_ends[b + 1]))
        theirs = slice(int(kv_ends[b]), int(kv_ends[b + 1]))
        ends = [0, theirs.stop - theirs.start]
        found, logs = attention(
            queries[mine], keys[theirs], values[theirs], ends,
            scale=scale, rounded=rounded, dtype=dtype,
        )  # fmt: skip
        out[mine], lse[mine] = found[0], logs[0].T
    return out, lse


def attention_backward(
    dout: npt.ArrayLike,
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    kv_offsets: npt.ArrayLike,
    q_offsets: npt.ArrayLike | None = None,
    *,
    scale: float | None = None,
    rounded: bool = False,
    dtype: str = "bf16",
) -> tuple[Float, Float, Float]:
    """Return dq, dk and dv, shaped like q, k and v, of `attention` with the upstream gradient dout.

    dout is shaped like out: [B, M, H, D], or packed [T_q, H, D] with `q_offsets`. dq of one q is
    summed over all sequences. Rows past the last offset, and of a sequence without keys or without
    queries, get 0. With `rounded`, out, P and dS where they enter a matmul (dS is made of P as it
    is), and the gradients pass through `dtype`, as in a kernel with 16-bit inputs.
    """
    upstream, queries, keys, values = (np.asarray(x, np.float64) for x in (dout, q, k, v))
    factor = queries.shape[-1] ** -0.5 if scale is None else scale
    to_input = partial(round_to_input, dtype=dtype) if rounded else _as_it_is
    kv_ends: Any = np.asarray(kv_offsets)
    q_ends: Any = None if q_offsets is None else np.asarray(q_offsets)
    dq, dk, dv = (np.zeros(x.shape) for x in (queries, keys, values))
    for b in range(len(kv_ends) - 1):
        theirs = slice(int(kv_ends[b]), int(kv_ends[b + 1]))
        mine = slice(None) if q_ends is None else slice(int(q_ends[b]), int(q_ends[b + 1]))
        if not len(keys[theirs]) or not len(queries[mine]):
            continue
        given = upstream[b] if q_ends is None else upstream[mine]
        part, dk[theirs], dv[theirs] = _gradients(
            given, queries[mine], keys[theirs], values[theirs], factor, to_input
        )
        dq[mine] += part
    return to_input(dq), to_input(dk), to_input(dv)


def _gradients(
    dout: Float, q: Float, k: Float, v: Float, factor: float, to_input: Callable[[Float], Float]
) -> tuple[Float, Float, Float]:
    """Return dq, dk and dv of one sequence; all have rows, [rows, H, D]."""
    dout, q, k, v = (x.transpose(1, 0, 2) for x in (dout, q, k, v))
    s = q @ k.transpose(0, 2, 1) * factor
    p = np.exp(s - s.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    delta = (dout * to_input(p @ v)).sum(axis=2, keepdims=True)
    ds = to_input(p * (dout @ v.transpose(0, 2, 1) - delta))
    dq, dk = ds @ k * factor, ds.transpose(0, 2, 1) @ q * factor
    dv = to_input(p).transpose(0, 2, 1) @ dout
    return dq.transpose(1, 0, 2), dk.transpose(1, 0, 2), dv.transpose(1, 0, 2)


def _as_it_is(values: Float) -> Float:
    return values
