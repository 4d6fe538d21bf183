"""Key lengths drawn at a density, the way the shapes of benchmarks are described.

The generator is numpy's `default_rng(seed)` (PCG64). A seed gives the same lengths with one version
of numpy; numpy does not promise the same stream for all versions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .limits import MOST_ROWS, MOST_TILES
from .wrong import WrongInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """How lengths are drawn.

    Attributes:
        density: the mean length as a share of the longest, 0 to 1.
        max_length: key rows that no sequence exceeds.
        batch: sequences.
        seed: of `numpy.random.default_rng`.
    """

    density: float
    max_length: int
    batch: int
    seed: int

    def __post_init__(self) -> None:
        if not 0 <= self.density <= 1:
            raise WrongInput(
                "--density", f"{self.density:g} is not from 0 to 1", "0.5 draws 0 to --max-length"
            )
        if self.batch > MOST_TILES:
            raise WrongInput(
                "--batch", f"{self.batch} is more than {MOST_TILES}", "draw fewer sequences"
            )
        if self.max_length > MOST_ROWS:
            raise WrongInput(
                "--max-length",
                f"{self.max_length} is more than {MOST_ROWS} key rows",
                "kernels count rows in 32 bits",
            )


def length_range(draw: Draw) -> tuple[int, int]:
    """Return the shortest and longest length that may be drawn, both included, in key rows.

    `[(2 s - 1) L, L]` for a density `s` of 0.5 or more, `[0, 2 s L]` below. The density counts as
    the decimal that was written, so that 0.55 of 1000 begins at 100 and not at 101.
    """
    density = Fraction(str(draw.density))
    if 2 * density >= 1:
        return math.ceil((2 * density - 1) * draw.max_length), draw.max_length
    return 0, math.floor(2 * density * draw.max_length)


def draw_lengths(draw: Draw) -> tuple[int, ...]:
    """Return the key rows of each sequence, uniform integers of `length_range`."""
    low, high = length_range(draw)
    drawn = np.random.default_rng(draw.seed).integers(low, high, size=draw.batch, endpoint=True)
    return tuple(drawn.tolist())
