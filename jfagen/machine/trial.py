"""One trial of an attention kernel: random inputs, a simulated run, a comparison in float64."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from ..reference import attention
from .loader import Keep
from .report import Fault, Kind, Outcome
from .scheduler import STEP_BOUND, Policy
from .simulate import simulate
from .values import Value

LSE_BOUND = 1e-4
_FACTOR = 2.0
#: A kernel that skips rescales rounds the largest weight too, which is exactly 1 in the reference;
#: where scores keep rising a few weights are all of the sum, so its rounding is not averaged out.
_RISING_FACTOR = 4.0
_STEEPEST = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What to compute: key rows of each sequence, query rows, heads, head dimension.

    With `rising` the keys grow along each sequence, so that the running maximum of the softmax
    keeps moving and what was summed so far has to be rescaled, which normal keys hardly ask for.
    With `query_lengths` the queries are packed, that many rows for each sequence.
    """

    lengths: tuple[int, ...]
    queries: int = 256
    heads: int = 2
    head_dim: int = 128
    rising: bool = False
    query_lengths: tuple[int, ...] | None = None
    dtype: str = "bf16"

    @property
    def query_rows(self) -> int:
        """Return the rows of q."""
        return self.queries if self.query_lengths is None else sum(self.query_lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one trial ended; errors are the largest absolute ones, NaN where a result is NaN."""

    outcome: Outcome
    out_error: float = 0.0
    out_bound: float = 0.0
    lse_error: float = 0.0
    leak: bool = False

    @property
    def right(self) -> bool:
        """Tell whether the run ended in results and all of them are right."""
        close = self.out_error <= self.out_bound and self.lse_error <= LSE_BOUND
        return self.outcome.kind is Kind.RESULTS and close and not self.leak

    @property
    def failure(self) -> str:
        """Return the kind of failure, faults with their rule; an empty text if all is right."""
        if self.right:
            return ""
        if self.outcome.kind is Kind.RESULTS:
            return "neighbours leak" if self.leak else "wrong result"
        faults = [report for report in self.outcome.reports if isinstance(report, Fault)]
        return f"fault ({faults[0].rule})" if faults else str(self.outcome.kind)


def make_inputs(problem: Problem, seed: int) -> dict[str, Value]:
    """Return the tensors of a problem: normal numbers of its type and int32 offsets."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    dtype = torch.float16 if problem.dtype == "fp16" else torch.bfloat16

    def normal(rows: int) -> Value:
        shape = (rows, problem.heads, problem.head_dim)
        return torch.randn(shape, generator=generator).to(dtype)

    offsets = [0, *accumulate(problem.lengths)]
    q, k, v = normal(problem.query_rows), normal(offsets[-1]), normal(offsets[-1])
    if problem.rising:
        ramps = [torch.linspace(0.5, _STEEPEST, rows) for rows in problem.lengths]
        k = (k * torch.cat(ramps)[:, None, None]).to(dtype)
    inputs = {
        "q": q,
        "k": k,
        "v": v,
        "kv_offsets": torch.tensor(offsets, dtype=torch.int32),
    }
    if problem.query_lengths is not None:
        ends = [0, *accumulate(problem.query_lengths)]
        inputs["q_offsets"] = torch.tensor(ends, dtype=torch.int32)
    return inputs


def poison_neighbours(inputs: dict[str, Value]) -> tuple[dict[str, Value], list[int]]:
    """Return inputs with NaN in every other sequence that has rows, and the sequences without."""
    offsets = inputs["kv_offsets"].tolist()
    filled = [b for b in range(len(offsets) - 1) if offsets[b] < offsets[b + 1]]
    poisoned = set(filled[1::2])
    result = {**inputs, "k": inputs["k"].clone(), "v": inputs["v"].clone()}
    for b in poisoned:
        for name in ("k", "v"):
            result[name][offsets[b] : offsets[b + 1]] = float("nan")
    return result, [b for b in range(len(offsets) - 1) if b not in poisoned]


def run_trial(
    source: str,
    problem: Problem,
    *,
    sms: int = 2,
    seed: int = 0,
    policy: str | Policy = "random",
    nan_neighbours: bool = False,
    step_bound: int = STEP_BOUND,
    keep: Keep = Keep.NOTHING,
) -> Result:
    """Return how a kernel does on one random instance of a problem.

    With `nan_neighbours` the kernel runs twice, the second time with NaN in every other sequence;
    the sequences in between must come out bit for bit the same.
    """

    def run(given: dict[str, Value]) -> Outcome:
        return simulate(
            source,
            inputs=given,
            sms=sms,
            seed=seed,
            policy=policy,
            step_bound=step_bound,
            keep=keep,
        )

    inputs = make_inputs(problem, seed)
    outcome = run(inputs)
    if outcome.kind is not Kind.RESULTS:
        return Result(outcome=outcome)
    result = compare(outcome, inputs, factor=_RISING_FACTOR if problem.rising else _FACTOR)
    if not nan_neighbours or not result.right:
        return result
    poisoned, kept = poison_neighbours(inputs)
    second = run(poisoned)
    if second.kind is not Kind.RESULTS:
        return Result(outcome=second)
    same = all(
        np.array_equal(before, after)
        for before, after in zip(
            _of_sequences(outcome, inputs, kept), _of_sequences(second, inputs, kept), strict=True
        )
    )
    return Result(
        outcome=second,
        out_error=result.out_error,
        out_bound=result.out_bound,
        lse_error=result.lse_error,
        leak=not same,
    )


def _of_sequences(
    outcome: Outcome, inputs: dict[str, Value], kept: list[int]
) -> list[npt.NDArray[np.float64]]:
    """Return what a run wrote for some sequences."""
    out, lse = outcome.outputs
    if "q_offsets" not in inputs:
        return [out[kept], lse[kept]]
    ends = inputs["q_offsets"].tolist()
    rows = [row for b in kept for row in range(ends[b], ends[b + 1])]
    return [out[rows], lse[rows]]


def compare(outcome: Outcome, inputs: dict[str, Value], *, factor: float) -> Result:
    """Return the errors of a run's (out, lse) against float64.

    The bound of out is `factor` times the error that rounding P and out to the input type alone
    makes, plus 1e-5.
    """
    q, k, v = (inputs[name].float().numpy() for name in ("q", "k", "v"))
    offsets = [inputs[name].numpy() for name in ("kv_offsets", "q_offsets") if name in inputs]
    dtype = "fp16" if str(inputs["q"].dtype) == "torch.float16" else "bf16"
    exact_out, exact_lse = attention(q, k, v, *offsets)
    rounded_out, _ = attention(q, k, v, *offsets, rounded=True, dtype=dtype)
    out, lse = outcome.outputs
    return Result(
        outcome=outcome,
        out_error=_largest(out, exact_out),
        out_bound=factor * _largest(rounded_out, exact_out) + 1e-5,
        lse_error=_largest(lse, exact_lse),
    )


def _largest(values: npt.ArrayLike, exact: npt.NDArray[np.float64]) -> float:
    """Return the largest difference; equal infinities differ by 0, a NaN makes it NaN."""
    given = np.asarray(values, np.float64)
    if given.shape != exact.shape:
        return float("nan")
    with np.errstate(invalid="ignore"):
        difference = np.where(given == exact, 0.0, np.abs(given - exact))
    return float(difference.max(initial=0.0))
