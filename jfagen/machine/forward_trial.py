"""How a kernel of `attention.forward` is tried."""

from __future__ import annotations

import numpy as np

from ..reference import attention
from .problem import Inputs, Owner, Problem, as_numpy, attention_inputs, input_type
from .procedure import Expected, Output, Procedure, differences

_LSE_BOUND = 1e-4
_LEAST_BOUND = 1e-5


def make_inputs(problem: Problem, seed: int) -> Inputs:
    """Return q, k, v and the offsets of a problem."""
    import torch

    return attention_inputs(problem, torch.Generator().manual_seed(seed))


def expect(inputs: Inputs, factor: float) -> tuple[Expected, ...]:
    """Return out and lse in float64; the bound of out is from rounding P and out."""
    given = as_numpy(inputs, "q", "k", "v", "kv_offsets", "q_offsets")
    out, lse = attention(*given)
    rounded, _ = attention(*given, rounded=True, dtype=input_type(inputs))
    bound = factor * differences(rounded, out).max(initial=0.0) + _LEAST_BOUND
    return (
        Expected(exact=out, bound=np.asarray(bound)),
        Expected(exact=lse, bound=np.asarray(_LSE_BOUND)),
    )


FORWARD = Procedure(
    entry="forward",
    make_inputs=make_inputs,
    expect=expect,
    owners={"k": Owner.KEYS, "v": Owner.KEYS},
    outputs=(
        Output(name="out", owner=Owner.RESULTS),
        Output(name="lse", owner=Owner.RESULTS, bound_decimals=0),
    ),
)
