"""The tiles of a problem in the order of the kernels' `find_tile`, and what each is taken to cost.

A tile is one (sequence, head, block of query rows). Tiles are numbered by sequence, then head, then
block: the blocks of one head are neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .limits import MOST_COST, MOST_ROWS, MOST_TILES
from .wrong import WrongInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a tile is taken to cost: parameters of the prediction, in steps.

    A tile with keys costs `fixed + steps`, where a step is one block of key rows. The defaults
    are rough: they say nothing about a kernel until somebody measures it.

    Attributes:
        fixed: prologue and epilogue of a tile with keys, in steps.
        empty: a tile without keys, which only stores zeros, in steps.
    """

    fixed: float = 0.7
    empty: float = 0.1

    def __post_init__(self) -> None:
        for option, value in (("--fixed", self.fixed), ("--empty", self.empty)):
            if not 0 <= value <= MOST_COST:
                raise WrongInput(
                    option, f"`{value:g}` is no cost", f"give 0 to {MOST_COST:,} steps"
                )
        if self.empty > self.fixed + 1:
            raise WrongInput(
                "--empty",
                f"{self.empty:g} steps without keys is more than {self.fixed + 1:g} with one key",
                "give --fixed + 1 or less: longest first would not be costliest first",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is computed, and how it is cut into tiles.

    Attributes:
        lengths: key rows of each sequence.
        queries: query rows of every sequence; as many as its key rows if None.
        heads: heads of every sequence.
        rows: query rows of a tile.
        keys: key rows of a step.
    """

    lengths: tuple[int, ...]
    queries: int | None = 512
    heads: int = 4
    rows: int = 128
    keys: int = 128

    def __post_init__(self) -> None:
        asked = {"--queries": self.queries, "--rows": self.rows, "--keys": self.keys}
        for option, value in asked.items():
            if value is not None and value > MOST_ROWS:
                raise WrongInput(
                    option, f"{value} is more than {MOST_ROWS}", "kernels count rows in 32 bits"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """All tiles of a problem, by their number.

    Attributes:
        key_rows: key rows of each tile's sequence.
        costs: what each tile is taken to cost, in steps.
    """

    key_rows: npt.NDArray[np.int64]
    costs: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.costs)


def tiles_of(problem: Problem, cost: Cost) -> Tiles:
    """Return the tiles of a problem.

    Raises:
        WrongInput: there is none, or there are more than `MOST_TILES`.
    """
    lengths = np.array(problem.lengths, dtype=np.int64)
    queries = lengths if problem.queries is None else np.full_like(lengths, problem.queries)
    blocks = -(-queries // problem.rows)
    count = int(blocks.sum()) * problem.heads
    if not count:
        raise WrongInput(
            "--self", "no sequence has a query row, so there is no tile", "give a length above 0"
        )
    if count > MOST_TILES:
        raise WrongInput(
            "the lengths",
            f"they make {count:,} tiles, at most {MOST_TILES:,} are dealt",
            "give fewer sequences or heads, or more --rows a tile",
        )
    steps = -(-lengths // problem.keys)
    costs = np.where(lengths > 0, cost.fixed + steps, cost.empty)
    repeats = blocks * problem.heads
    return Tiles(key_rows=np.repeat(lengths, repeats), costs=np.repeat(costs, repeats))
