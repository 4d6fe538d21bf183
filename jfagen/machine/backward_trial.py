"""How a kernel of `attention.backward` is tried."""

from __future__ import annotations

import numpy as np

from ..reference import attention, attention_backward
from .problem import (
    Inputs,
    Owner,
    Problem,
    as_numpy,
    attention_inputs,
    input_type,
    normal,
    owned_indices,
)
from .procedure import Expected, Output, Procedure, differences

_OFFSETS = ("kv_offsets", "q_offsets")
#: With one key dS is 0, and what float32 leaves of it, times keys of the steepest rise, is 1e-5.
_LEAST_BOUND = 5e-5
#: Rows of packed tensors past the last offset: no sequence's, so their gradients are zero.
_SPARE_ROWS = 3
_OUTPUTS = (
    Output(name="dq", owner=Owner.QUERIES, any_order=True),
    Output(name="dk", owner=Owner.KEYS),
    Output(name="dv", owner=Owner.KEYS),
)


def make_inputs(problem: Problem, seed: int) -> Inputs:
    """Return what `backward` takes: dout, and out and lse as an exact forward leaves them.

    out is rounded to the input type, lse to float32. Packed tensors that have rows at all have a
    few more past the last offset.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    inputs = attention_inputs(problem, generator, spare=_SPARE_ROWS)
    out, lse = attention(*as_numpy(inputs, "q", "k", "v", *_OFFSETS))
    dtype = inputs["q"].dtype
    dout = normal(problem, generator, *out.shape[:-2])
    given = {"out": torch.from_numpy(out).to(dtype), "lse": torch.from_numpy(lse).float()}
    return {"dout": dout, **inputs, **given}


def expect(inputs: Inputs, factor: float) -> tuple[Expected, ...]:
    """Return dq, dk and dv in float64, with bounds of each sequence.

    A bound is from rounding P, dS, out and the gradients. Where nothing is added up it is 0: what
    belongs to no sequence, or to one without keys or without queries, is exactly 0.
    """
    given = as_numpy(inputs, "dout", "q", "k", "v", *_OFFSETS)
    exact = attention_backward(*given)
    rounded = attention_backward(*given, rounded=True, dtype=input_type(inputs))
    expected = []
    for output, gradient, other in zip(_OUTPUTS, exact, rounded, strict=True):
        bound = np.zeros((len(gradient), 1, 1))
        for rows in _row_sets(output.owner, inputs):
            largest = differences(other[rows], gradient[rows]).max(initial=0.0)
            bound[rows] = factor * largest + _LEAST_BOUND
        expected.append(Expected(exact=gradient, bound=bound))
    return tuple(expected)


def _row_sets(owner: Owner, inputs: Inputs) -> list[list[int]]:
    """Return the rows of each sequence with keys and queries; all rows at once if they share."""
    sequences = range(len(inputs["kv_offsets"]) - 1)
    live = [
        b
        for b in sequences
        if owned_indices(Owner.KEYS, inputs, [b]) and owned_indices(Owner.RESULTS, inputs, [b])
    ]
    if owner is Owner.QUERIES and "q_offsets" not in inputs:
        return [list(range(len(inputs["q"])))] if live else []
    return [owned_indices(owner, inputs, [b]) for b in live]


BACKWARD = Procedure(
    entry="backward",
    make_inputs=make_inputs,
    expect=expect,
    # A sequence with NaN keys has NaN in all that the forward computed for it.
    owners={
        "k": Owner.KEYS,
        "v": Owner.KEYS,
        "q": Owner.QUERIES,
        "dout": Owner.RESULTS,
        "out": Owner.RESULTS,
        "lse": Owner.RESULTS,
    },
    outputs=_OUTPUTS,
)
