"""What `run` computes: sizes that were asked for, as far as the kernel's text takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .inputs import check_size, parse_lengths, wrong_call

if TYPE_CHECKING:
    from ..machine.problem import Problem

#: For kernels whose text does not say it.
_HEAD_DIM = 128


@dataclass(frozen=True, slots=True)
class Asked:
    """Sizes of one call, as they were given."""

    lengths: tuple[int, ...]
    queries: int
    query_lengths: str | None
    heads: int
    head_dim: int | None
    rising: bool


def problem_of(text: str, asked: Asked) -> Problem:
    """Return the problem for a kernel's text, or end the call if the two do not go together.

    Raises:
        ImportError: what the machine needs is missing.
    """
    from ..machine.declared import declared_inputs
    from ..machine.problem import Problem

    check_algorithm(text)
    takes = declared_inputs(text)
    problem = Problem(
        lengths=asked.lengths,
        queries=asked.queries,
        heads=asked.heads,
        head_dim=_head_dim(text, asked.head_dim),
        rising=asked.rising,
        query_lengths=_query_lengths(asked, takes.jagged),
        dtype=takes.dtype,
    )
    check_size(problem)
    return problem


def check_algorithm(text: str) -> None:
    """End the call if a kernel's text names an algorithm whose kernels cannot be tried."""
    from ..machine.trial import UnknownAlgorithm, procedure_of

    try:
        procedure_of(text)
    except UnknownAlgorithm as error:
        raise wrong_call(str(error)) from None


def _query_lengths(asked: Asked, jagged: bool) -> tuple[int, ...] | None:
    """Return the query rows of each sequence, None for one q."""
    if not jagged:
        if asked.query_lengths is not None:
            raise wrong_call("the kernel takes one q for all sequences, without --query-lengths")
        return None
    if asked.query_lengths is None:
        return asked.lengths
    lengths = parse_lengths(asked.query_lengths)
    if len(lengths) != len(asked.lengths):
        raise wrong_call(f"{len(lengths)} query lengths for {len(asked.lengths)} sequences")
    return lengths


def _head_dim(text: str, asked: int | None) -> int:
    """Return the head dimension of the kernel; refuse another one that was asked for."""
    from ..machine.declared import declared_head_dim

    built = declared_head_dim(text)
    if asked is not None and built is not None and asked != built:
        raise wrong_call(f"the kernel is built for head_dim {built}, not for --head-dim {asked}")
    return asked or built or _HEAD_DIM
