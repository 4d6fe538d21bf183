"""The shapes that are measured, their lengths and their floating-point operations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: What a backward takes, in forwards: five matrix products for two.
_BACKWARD_FORWARDS = 2.5


class Direction(StrEnum):
    """Which half is timed."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Mode(StrEnum):
    """Whose queries: one dense q for the whole batch, or every sequence its own."""

    BROADCAST = "broadcast"
    SELF = "self"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One row of the table.

    Attributes:
        batch: sequences (B).
        longest: the length L that the drawn lengths hang from, in rows.
        density: s; about the mean length over L.
        queries: rows of q in broadcast mode (M); None where q is as long as k.
    """

    name: str
    mode: Mode
    batch: int
    longest: int
    density: float
    heads: int = 4
    head_dim: int = 128
    queries: int | None = None

    @property
    def length_bounds(self) -> tuple[int, int]:
        """Return the shortest and the longest length that is drawn, both included."""
        if self.density >= 0.5:
            return round((2 * self.density - 1) * self.longest), self.longest
        return 0, round(2 * self.density * self.longest)

    def query_lengths(self, lengths: tuple[int, ...]) -> tuple[int, ...]:
        """Return the query rows of each sequence whose key rows are `lengths`."""
        return lengths if self.queries is None else (self.queries,) * len(lengths)

    def flops(self, lengths: tuple[int, ...], direction: Direction = Direction.FORWARD) -> int:
        """Return 4 D H sum(len_q len_k), or 2.5 times that for a backward."""
        pairs = zip(self.query_lengths(lengths), lengths, strict=True)
        forward = 4 * self.head_dim * self.heads * sum(q * k for q, k in pairs)
        return forward if direction is Direction.FORWARD else round(_BACKWARD_FORWARDS * forward)


def _broadcast(name: str, queries: int, longest: int, density: float, batch: int = 768) -> Shape:
    return Shape(
        name=name,
        mode=Mode.BROADCAST,
        batch=batch,
        longest=longest,
        density=density,
        queries=queries,
    )


def _self(name: str, batch: int, longest: int, density: float, heads: int = 4) -> Shape:
    return Shape(
        name=name, mode=Mode.SELF, batch=batch, longest=longest, density=density, heads=heads
    )


#: In this order lengths are drawn: a new shape goes to the end, or all lengths after it change.
SHAPES = (
    _broadcast("bq-512-1k-s50", 512, 1024, 0.5),
    _broadcast("bq-512-1k-s100", 512, 1024, 1.0),
    _broadcast("bq-512-4k-s25", 512, 4096, 0.25),
    _broadcast("bq-512-4k-s50", 512, 4096, 0.5),
    _broadcast("bq-512-4k-s100", 512, 4096, 1.0),
    _broadcast("bq-512-16k-s50", 512, 16384, 0.5, batch=192),
    _broadcast("bq-256-1k-s50", 256, 1024, 0.5),
    _self("self-512-s50", 1152, 512, 0.5),
    _self("self-1k-s50", 1152, 1024, 0.5),
    _self("self-2k-s50", 1152, 2048, 0.5),
    _self("dense-1k", 768, 1024, 1.0),
    _self("dense-8k", 16, 8192, 1.0, heads=16),
    _self("dense-b4", 4, 8192, 1.0, heads=16),
)


def draw_lengths(seed: int, shapes: tuple[Shape, ...] = SHAPES) -> dict[str, tuple[int, ...]]:
    """Return the key rows of every sequence of every shape, by name.

    One `torch.Generator` of that seed draws them all in the table's order, uniformly between the
    bounds: a shape's lengths do not depend on which shapes are measured.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    drawn = {}
    for shape in shapes:
        least, most = shape.length_bounds
        lengths = torch.randint(least, most + 1, (shape.batch,), generator=generator)
        drawn[shape.name] = tuple(int(length) for length in lengths)
    return drawn
