"""Attention in plain torch, sequence by sequence: for CPUs and for GPUs without a kernel.

Slower than a kernel, but clear and differentiable. It works through blocks of query rows of one
sequence: without gradients, memory grows with the scores of a block, not with those of a batch.
"""

from __future__ import annotations

from itertools import pairwise

import torch

#: Query rows whose scores are in memory at a time.
BLOCK_ROWS = 1024

#: Types in which the arithmetic of a narrower type is done.
_WIDE = {torch.bfloat16: torch.float32, torch.float16: torch.float32}


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return out and lse as `attention` does; reads the offsets on the host.

    Autocast does not reach the arithmetic: its types follow from those of the arguments alone.

    Args:
        q: [M, H, D], or [T_q, H, D] with `q_offsets`.
        k: [T, H, D].
        v: [T, H, D].
        kv_offsets: [B + 1] integers with values that were checked.
        q_offsets: likewise, of packed queries.
        scale: factor of the scores.

    Returns:
        out [B, M, H, D] or [T_q, H, D] of q's type, lse [B, H, M] or [T_q, H] float32, natural log.
    """
    with torch.autocast(q.device.type, enabled=False):
        return _all(q, k, v, kv_offsets, q_offsets, scale)


def _all(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    keys = kv_offsets.tolist()
    if q_offsets is None:
        parts = [_one(q, k[start:stop], v[start:stop], scale) for start, stop in pairwise(keys)]
        if not parts:
            out, lse = _one(q, k[:0], v[:0], scale)
            return out[None][:0], lse[None][:0]
        return torch.stack([out for out, _ in parts]), torch.stack([lse for _, lse in parts])
    rows = q_offsets.tolist()
    outs: list[torch.Tensor] = []
    logs: list[torch.Tensor] = []
    for b in range(len(rows) - 1):
        theirs = slice(keys[b], keys[b + 1])
        out, lse = _one(q[rows[b] : rows[b + 1]], k[theirs], v[theirs], scale)
        outs.append(out)
        logs.append(lse.transpose(0, 1))
    out, lse = _one(q[rows[-1] :], k[:0], v[:0], scale)
    outs.append(out)
    logs.append(lse.transpose(0, 1))
    return torch.cat(outs), torch.cat(logs)


def _one(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return out [M, H, D] and lse [H, M] of one sequence; sums over no keys are 0 and -inf."""
    wide = _WIDE.get(q.dtype, q.dtype)
    keys, values = (x.to(wide).transpose(0, 1) for x in (k, v))
    outs: list[torch.Tensor] = []
    logs: list[torch.Tensor] = []
    for block in q.split(BLOCK_ROWS):
        scores = block.to(wide).transpose(0, 1) @ keys.transpose(1, 2) * scale
        lse = torch.logsumexp(scores, dim=-1)
        outs.append((torch.exp(scores - lse[..., None]) @ values).transpose(0, 1).to(q.dtype))
        logs.append(lse.to(torch.float32))
    return torch.cat(outs), torch.cat(logs, dim=1)
