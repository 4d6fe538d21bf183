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


def reference_backward(
    dout: torch.Tensor | None,
    dlse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dq, dk and dv; reads the offsets on the host, keeps the scores of one block.

    Args:
        dout: gradient of out; None for zeros.
        dlse: gradient of lse; None for zeros.
        q: as `reference` was given it.
        k: likewise.
        v: likewise.
        out: what it returned.
        lse: likewise.
        kv_offsets: as it was given them.
        q_offsets: likewise.
        scale: likewise.
    """
    wide = _WIDE.get(q.dtype, q.dtype)
    dq, dk, dv = (torch.zeros(x.shape, dtype=wide, device=x.device) for x in (q, k, v))
    keys = kv_offsets.tolist()
    rows = None if q_offsets is None else q_offsets.tolist()
    for b, (start, stop) in enumerate(pairwise(keys)):
        theirs = slice(start, stop)
        mine = slice(None) if rows is None else slice(rows[b], rows[b + 1])
        at = b if rows is None else mine
        logs = lse[b] if rows is None else lse[mine].transpose(0, 1)
        of_logs = None if dlse is None else dlse[b] if rows is None else dlse[mine].transpose(0, 1)
        # Row sums of dO * O; a gradient of lse is added to every score by its probability.
        upstream = torch.zeros_like(out[at]) if dout is None else dout[at]
        delta = (upstream.to(wide) * out[at].to(wide)).sum(-1).transpose(0, 1)
        delta = delta if of_logs is None else delta - of_logs
        one = _one_backward(upstream, delta, q[mine], k[theirs], v[theirs], logs, scale)
        dq[mine] += one[0]
        dk[theirs], dv[theirs] = one[1], one[2]
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def _one_backward(
    dout: torch.Tensor,
    delta: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lse: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of one sequence: dout [M, H, D], delta and lse [H, M], k [T, H, D]."""
    wide = _WIDE.get(q.dtype, q.dtype)
    keys, values = (x.to(wide).transpose(0, 1) for x in (k, v))
    dk, dv = torch.zeros_like(keys), torch.zeros_like(values)
    parts: list[torch.Tensor] = []
    for first in range(0, q.shape[0], BLOCK_ROWS):
        block = slice(first, first + BLOCK_ROWS)
        queries, upstream = (x[block].to(wide).transpose(0, 1) for x in (q, dout))
        scores = queries @ keys.transpose(1, 2) * scale
        probs = torch.exp(scores - lse[:, block, None].to(wide))
        dscores = probs * (upstream @ values.transpose(1, 2) - delta[:, block, None])
        parts.append((dscores @ keys * scale).transpose(0, 1))
        dk += dscores.transpose(1, 2) @ queries * scale
        dv += probs.transpose(1, 2) @ upstream
    dq = torch.cat(parts) if parts else torch.zeros_like(q, dtype=wide)
    return dq, dk.transpose(0, 1), dv.transpose(0, 1)


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
