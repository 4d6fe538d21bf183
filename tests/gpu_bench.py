"""Shared by the tests that run on a GPU: float64 in torch, poisoned memory, a watchdog."""

from __future__ import annotations

import faulthandler
import math
import sys
from contextlib import contextmanager

import torch

import jfagen

#: Seconds that one test may take; a kernel that hangs would hold the GPU for ever.
WATCHDOG = 120.0


@contextmanager
def watchdog(seconds=WATCHDOG):
    """End the process, with a traceback, if the block does not end in time."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)
    try:
        yield
        torch.cuda.synchronize()
    finally:
        faulthandler.cancel_dump_traceback_later()


def poison(gigabytes=1.0):
    """Fill memory that the allocator hands out next with NaN."""
    blocks = [torch.full((int(gigabytes * 2**28),), math.nan, device="cuda")]
    blocks += [torch.full((2**k,), math.nan, device="cuda") for k in range(8, 22) for _ in range(3)]
    torch.cuda.synchronize()
    del blocks


def offsets_of(lengths, dtype=torch.int32):
    ends = torch.tensor([0, *lengths], dtype=torch.int64).cumsum(0)
    return ends.to("cuda", dtype)


def normal(rows, heads, head_dim, dtype, seed):
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(rows, heads, head_dim, generator=generator, device="cuda", dtype=dtype)


def exact(q, k, v, scale=None):
    """out [M, H, D] and lse [M, H] of one sequence in float64."""
    scale = q.shape[2] ** -0.5 if scale is None else scale
    if not k.shape[0]:
        out = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
        return out, torch.full(q.shape[:2], -math.inf, dtype=torch.float64, device=q.device)
    a, b, c = (x.double().transpose(0, 1) for x in (q, k, v))
    scores = a @ b.transpose(1, 2) * scale
    lse = torch.logsumexp(scores, -1)
    return (torch.exp(scores - lse[..., None]) @ c).transpose(0, 1), lse.transpose(0, 1)


#: Largest relative error of a row (2-norms): both P and out are rounded once to the input type.
BOUND = {torch.bfloat16: 2 * 2**-8, torch.float16: 2 * 2**-11}


def check_sequence(out, lse, q, k, v, scale=None):
    """Hold out [M, H, D] and lse [M, H] of one sequence against float64; exact without keys."""
    wanted, logs = exact(q, k, v, scale)
    if not k.shape[0]:
        assert bool((out == 0).all())
        assert bool((lse == -math.inf).all())
        return 0.0
    if not q.shape[0]:
        return 0.0
    assert bool(torch.isfinite(out.float()).all())
    # A row of which the exact result is small is held against the size of what was summed.
    size = torch.maximum(
        wanted.norm(dim=-1), 0.1 * v.double().norm(dim=-1).mean() / k.shape[0] ** 0.5
    )
    error = float(((out.double() - wanted).norm(dim=-1) / size).max())
    assert error <= BOUND[q.dtype], error
    assert float((lse.double() - logs).abs().max()) < 1e-4
    return error


def check_batch(q, k, v, kv_offsets, q_offsets=None, **how):
    """Run `attention` and hold every sequence against float64; return out, lse, largest error."""
    out, lse = jfagen.attention(q, k, v, kv_offsets, q_offsets, return_lse=True, **how)
    ends = kv_offsets.tolist()
    rows = None if q_offsets is None else q_offsets.tolist()
    worst = 0.0
    for b in range(len(ends) - 1):
        keys = slice(ends[b], ends[b + 1])
        if rows is None:
            mine = (out[b], lse[b].transpose(0, 1), q)
        else:
            of = slice(rows[b], rows[b + 1])
            mine = (out[of], lse[of], q[of])
        worst = max(worst, check_sequence(*mine, k[keys], v[keys], how.get("scale")))
    if rows is not None:
        assert bool((out[rows[-1] :] == 0).all())
        assert bool((lse[rows[-1] :] == -math.inf).all())
    return out, lse, worst


class NoLaunch:
    """A kernel that must not be launched."""

    def __getitem__(self, grid):
        raise AssertionError(f"launched with {grid}")


def layouts(dtype):
    """The same numbers, laid out in memory in other ways."""
    dense = normal(700, 4, 128, dtype, 7)
    fused = torch.randn(700, 3, 4, 128, device="cuda").to(dtype)
    fused[:, 1] = dense
    transposed = dense.transpose(0, 1).contiguous().transpose(0, 1)
    every_second = torch.randn(1400, 4, 128, device="cuda").to(dtype)
    every_second[::2] = dense
    odd_rows = torch.randn(700, 4 * 128 + 3, device="cuda").to(dtype)
    odd_rows[:, : 4 * 128] = dense.flatten(1)
    shifted = torch.empty(700 * 4 * 128 + 1, device="cuda", dtype=dtype)
    shifted[1:] = dense.flatten()
    padded = torch.randn(700, 4 * 128 + 8, device="cuda").to(dtype)
    padded[:, : 4 * 128] = dense.flatten(1)
    return {
        "dense": dense,
        "slice of a fused projection": fused[:, 1],
        "transposed": transposed,
        "every second row": every_second[::2],
        "rows of 1030 bytes": odd_rows[:, : 4 * 128].unflatten(1, (4, 128)),
        "address off by 2 bytes": shifted[1:].view(700, 4, 128),
        "rows of 1040 bytes": padded[:, : 4 * 128].unflatten(1, (4, 128)),
        "every head the same": dense[:, :1].expand(700, 4, 128),
    }
