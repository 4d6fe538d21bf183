"""Random inputs of a case on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch

from .records import Case
from .shapes import Direction

#: Ours call it a tensor; the compiler half of the project is checked without torch.
Tensor = Any


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """One input set.

    Attributes:
        q: [M, H, D] in broadcast mode, [T, H, D] otherwise.
        k, v: [T, H, D], the sequences one after the other.
        kv_offsets: [B + 1] int32.
        q_offsets: [B + 1] int32, None in broadcast mode.
        grad_out: [T_q, H, D], rows of all sequences; None in a forward.
    """

    case: Case
    q: Tensor
    k: Tensor
    v: Tensor
    kv_offsets: Tensor
    q_offsets: Tensor | None
    grad_out: Tensor | None

    @cached_property
    def packed_q(self) -> Tensor:
        """Return q [T_q, H, D] for libraries without broadcast mode: repeated for each sequence."""
        if self.q_offsets is not None:
            return self.q
        return self.q.repeat(self.case.shape.batch, 1, 1)

    @cached_property
    def packed_q_offsets(self) -> Tensor:
        """Return where the sequences begin in `packed_q`, [B + 1] int32."""
        if self.q_offsets is not None:
            return self.q_offsets
        rows = torch.arange(self.case.shape.batch + 1, device=self.q.device, dtype=torch.int32)
        return rows * self.q.shape[0]

    @cached_property
    def most_queries(self) -> int:
        """Return the query rows of the longest sequence."""
        return max(self.case.query_lengths)

    @cached_property
    def most_keys(self) -> int:
        """Return the key rows of the longest sequence."""
        return max(self.case.lengths)


def make_inputs(case: Case, number: int, device: str) -> Inputs:
    """Return the input set of that number: normal q and k, and normal v but for border rows.

    The first and the last row of v of every sequence are larger, by half the square root of the
    length: each weighs as much in the result as a quarter of all others. A kernel that loses a
    border row, or takes its neighbour's, is then far outside of what rounding explains.
    """
    shape, dtype = case.shape, getattr(torch, case.dtype.torch_name)
    generator = torch.Generator(device=device).manual_seed(1_000_003 * case.seed + number)

    def normal(rows: int) -> Tensor:
        size = (rows, shape.heads, shape.head_dim)
        return torch.randn(size, generator=generator, device=device, dtype=dtype)

    offsets = [0, *accumulate(case.lengths)]
    rows = sum(case.query_lengths)
    q, k, v = normal(shape.queries or rows), normal(offsets[-1]), normal(offsets[-1])
    _raise_borders(v, case, offsets)
    kv_offsets = torch.tensor(offsets, dtype=torch.int32, device=device)
    return Inputs(
        case=case,
        q=q,
        k=k,
        v=v,
        kv_offsets=kv_offsets,
        q_offsets=None if shape.queries else kv_offsets.clone(),
        grad_out=normal(rows) if case.direction is Direction.BACKWARD else None,
    )


def _raise_borders(v: Tensor, case: Case, offsets: list[int]) -> None:
    filled = [b for b, length in enumerate(case.lengths) if length]
    if not filled:
        return
    factors = torch.tensor([max(1.0, 0.5 * case.lengths[b] ** 0.5) for b in filled])
    factors = factors.to(device=v.device, dtype=v.dtype)[:, None, None]
    for places in ([offsets[b] for b in filled], [offsets[b + 1] - 1 for b in filled]):
        index = torch.tensor(places, device=v.device)
        # A sequence of one row is raised twice by 1: its factor is 1.
        v[index] = v[index] * factors


def sets_that_take_turns(case: Case, *, l2_bytes: int, free_bytes: int) -> int:
    """Return how many input sets take turns: at least two, together three times the L2.

    Fewer, down to one, where four fifths of the free memory hold no more.
    """
    wanted = max(2, -(-3 * l2_bytes // max(case.call_bytes, 1)))
    fitting = int(0.8 * free_bytes) // max(case.set_bytes, 1)
    return max(1, min(wanted, fitting))
