"""Is a result right? A sample of (sequence, head) pairs against float64.

The error of a row of D numbers is the norm of its difference from the reference over the norm of
the reference. For gradients, whose rows may cancel to nothing, the divisor is at least the root
mean square norm of the pair's rows. A forward may be off by 2 epsilon of its element type (two
roundings, of the weights and of the result, are half an epsilon each at most; the rest is room), a
backward by 4.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

from .inputs import Inputs
from .records import Case
from .shapes import Direction

Tensor = Any
_PAIRS = 8
#: Query rows whose float64 scores are held at a time.
_ROWS = 1024
#: With fewer keys the gradients of q and k are differences of almost equal numbers.
_LEAST_KEYS_BACKWARD = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One sequence and one head."""

    sequence: int
    head: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The largest error over the sample and where it is; infinite where a result is NaN."""

    error: float
    tolerance: float
    where: str

    @property
    def right(self) -> bool:
        """Tell whether the result is within the tolerance."""
        return self.error <= self.tolerance


def tolerance(case: Case) -> float:
    """Return the largest relative error of a row that is taken for rounding."""
    return (2 if case.direction is Direction.FORWARD else 4) * case.dtype.epsilon


def sample_pairs(case: Case) -> tuple[Pair, ...]:
    """Return the first, last, longest and shortest sequence, an empty one, and others by chance.

    Every head is in the sample if there are at most as many heads as pairs. Sequences without
    queries are left out, in a backward those of a few keys too.
    """
    lengths, queries = case.lengths, case.query_lengths
    least = _LEAST_KEYS_BACKWARD if case.direction is Direction.BACKWARD else 0
    usable = [b for b in range(len(lengths)) if queries[b] and lengths[b] >= least]
    if not usable:
        return ()
    by_length = sorted(usable, key=lambda b: (lengths[b], b))
    filled = [b for b in by_length if lengths[b]] or by_length
    chosen = dict.fromkeys([by_length[-1], by_length[0], filled[0], usable[-1], usable[0]])
    for b in random.Random(case.seed).sample(usable, len(usable)):
        if len(chosen) >= min(_PAIRS, len(usable)):
            break
        chosen[b] = None
    sequences, heads = list(chosen), case.shape.heads
    count = min(_PAIRS, len(sequences) * heads)
    # Sequences and heads turn together; after `cycle` pairs they would meet again.
    cycle = math.lcm(len(sequences), heads)
    return tuple(
        Pair(
            sequence=sequences[index % len(sequences)],
            head=(heads - 1 - index - index // cycle) % heads,
        )
        for index in range(count)
    )


def reference(inputs: Inputs, pairs: Sequence[Pair]) -> tuple[tuple[Tensor, ...], ...]:
    """Return, pair by pair, out [rows, D] or the gradients of q, k and v [rows, D], in float64.

    Where sequences share q there is a fourth gradient: the head's dq, summed over the batch.
    """
    expected = tuple(_pair_reference(inputs, pair) for pair in pairs)
    if inputs.grad_out is None or inputs.q_offsets is not None:
        return expected
    summed = {head: _summed_dq(inputs, head) for head in dict.fromkeys(p.head for p in pairs)}
    return tuple(
        (*gradients, summed[pair.head]) for pair, gradients in zip(pairs, expected, strict=True)
    )


def compare(
    results: Sequence[Tensor],
    expected: Sequence[Sequence[Tensor]],
    case: Case,
    pairs: Sequence[Pair],
) -> Checked:
    """Return the largest error of packed results [T, H, D] over the sample.

    Args:
        results: out, or the gradients of q, k and v; rows of all sequences one after the other.
            Of a q that sequences share dq may also be the sum over the batch, [M, H, D].
        expected: what `reference` returned for the same pairs.
        case: what was computed.
        pairs: the sample.
    """
    wanted_rows = {"out": case.query_lengths}
    if case.direction is Direction.BACKWARD:
        wanted_rows = {"dq": case.query_lengths, "dk": case.lengths, "dv": case.lengths}
        if len(results[0]) == case.shape.queries:
            wanted_rows["dq"] = (case.shape.queries,)
    worst = Checked(error=0.0, tolerance=tolerance(case), where="")
    for which, (name, rows) in enumerate(wanted_rows.items()):
        is_summed = len(rows) < len(case.lengths)
        wanted = (sum(rows), case.shape.heads, case.shape.head_dim)
        if tuple(results[which].shape) != wanted:
            raise ValueError(f"{name} has the shape {list(results[which].shape)}, not {wanted}")
        starts = [0, *accumulate(rows)]
        for pair, reference_of in zip(pairs, expected, strict=True):
            b, h = (0 if is_summed else pair.sequence), pair.head
            got = results[which][starts[b] : starts[b + 1], h].double()
            wanted_one = reference_of[-1 if is_summed else which]
            error = _row_error(got, wanted_one, floor=name != "out")
            if error > worst.error:
                whose = "the batch" if is_summed else f"sequence {b} ({case.lengths[b]} keys)"
                where = f"{name} of {whose}, head {h}"
                worst = Checked(error=error, tolerance=worst.tolerance, where=where)
    return worst


def _row_error(got: Tensor, expected: Tensor, *, floor: bool) -> float:
    """Return the largest relative error of a row; the error itself where the reference is 0."""
    if not len(expected):
        return 0.0
    difference, size = (got - expected).norm(dim=1), expected.norm(dim=1)
    if floor:
        size = size.clamp(min=float(size.square().mean().sqrt()))
    size = torch.where(size > 0, size, torch.ones_like(size))
    # NaN compares as neither larger nor smaller: it would be lost among the errors of others.
    return float((difference / size).nan_to_num(nan=torch.inf, posinf=torch.inf).max())


def _pair_reference(inputs: Inputs, pair: Pair) -> tuple[Tensor, ...]:
    case, b, h = inputs.case, pair.sequence, pair.head
    keys = slice(sum(case.lengths[:b]), sum(case.lengths[: b + 1]))
    rows = slice(sum(case.query_lengths[:b]), sum(case.query_lengths[: b + 1]))
    q = (inputs.q if inputs.q_offsets is None else inputs.q[rows])[:, h].double()
    k, v = inputs.k[keys, h].double(), inputs.v[keys, h].double()
    if inputs.grad_out is None:
        return (torch.cat([_out(part, k, v)[0] for part in q.split(_ROWS)]),)
    grad_k, grad_v, grad_q = torch.zeros_like(k), torch.zeros_like(v), []
    grads = inputs.grad_out[rows, h].double()
    for part, grad in zip(q.split(_ROWS), grads.split(_ROWS), strict=True):
        out, weights = _out(part, k, v)
        inner = weights * (grad @ v.T - (grad * out).sum(dim=1, keepdim=True)) * _scale(part)
        grad_q.append(inner @ k)
        grad_k += inner.T @ part
        grad_v += weights.T @ grad
    return torch.cat(grad_q), grad_k, grad_v


def _summed_dq(inputs: Inputs, head: int) -> Tensor:
    batch = range(inputs.case.shape.batch)
    return sum(_pair_reference(inputs, Pair(sequence=b, head=head))[0] for b in batch)


def _scale(q: Tensor) -> float:
    return float(q.shape[1] ** -0.5)


def _out(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return out [rows, D], zeros without keys, and the weights [rows, keys]."""
    if not len(k):
        return torch.zeros_like(q), q.new_zeros(len(q), 0)
    weights = torch.softmax(q @ k.T * _scale(q), dim=1)
    return weights @ v, weights
