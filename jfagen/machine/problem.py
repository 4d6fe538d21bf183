"""What a trial computes, and the random tensors that stand for it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from itertools import accumulate
from typing import TypeAlias

from .values import Value

#: The tensors that the host function of a kernel takes, by name.
Inputs: TypeAlias = dict[str, Value]

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


class Owner(Enum):
    """Whose the rows of a tensor are; packed queries have offsets, one q for all has none.

    Attributes:
        KEYS: packed [T, ...], the rows of a sequence as `kv_offsets` says.
        QUERIES: shaped like q: of all sequences together [M, ...], or packed by `q_offsets`.
        RESULTS: shaped like out: an index for each sequence [B, ...], or packed by `q_offsets`.
    """

    KEYS = auto()
    QUERIES = auto()
    RESULTS = auto()


def owned_indices(owner: Owner, inputs: Inputs, sequences: Collection[int]) -> list[int]:
    """Return the first indices of a tensor that belong to these sequences alone."""
    if owner is Owner.KEYS:
        return _rows(inputs["kv_offsets"], sequences)
    if "q_offsets" in inputs:
        return _rows(inputs["q_offsets"], sequences)
    return list(sequences) if owner is Owner.RESULTS else []


def _rows(offsets: Value, sequences: Collection[int]) -> list[int]:
    ends = offsets.tolist()
    return [row for b in sequences for row in range(ends[b], ends[b + 1])]


def normal(problem: Problem, generator: Value, *sizes: int) -> Value:
    """Return normal numbers [*sizes, heads, head_dim] of the problem's type."""
    import torch

    shape = (*sizes, problem.heads, problem.head_dim)
    dtype = torch.float16 if problem.dtype == "fp16" else torch.bfloat16
    return torch.randn(shape, generator=generator).to(dtype)


def attention_inputs(problem: Problem, generator: Value, spare: int = 0) -> Inputs:
    """Return q, k and v of a problem with normal numbers, and the int32 offsets.

    Packed tensors that have rows at all have `spare` more past the last offset.
    """
    import torch

    offsets = [0, *accumulate(problem.lengths)]
    packed = problem.query_lengths is not None
    query_rows = problem.query_rows + (spare if packed and problem.query_rows else 0)
    key_rows = offsets[-1] + (spare if offsets[-1] else 0)
    q, k, v = (normal(problem, generator, rows) for rows in (query_rows, key_rows, key_rows))
    if problem.rising:
        ramps = [torch.linspace(0.5, _STEEPEST, rows) for rows in problem.lengths]
        ramps.append(torch.ones(key_rows - offsets[-1]))
        k = (k * torch.cat(ramps)[:, None, None]).to(k.dtype)
    inputs = {"q": q, "k": k, "v": v, "kv_offsets": torch.tensor(offsets, dtype=torch.int32)}
    if problem.query_lengths is not None:
        ends = [0, *accumulate(problem.query_lengths)]
        inputs["q_offsets"] = torch.tensor(ends, dtype=torch.int32)
    return inputs


def as_numpy(inputs: Inputs, *names: str) -> list[Value]:
    """Return some tensors, those that are there, as float32 or integer arrays."""
    given = [inputs[name] for name in names if name in inputs]
    return [(x.float() if x.is_floating_point() else x).numpy() for x in given]


def input_type(inputs: Inputs) -> str:
    """Return the element type of q: `bf16` or `fp16`."""
    return "fp16" if str(inputs["q"].dtype) == "torch.float16" else "bf16"
