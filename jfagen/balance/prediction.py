"""What each deal comes to: makespan, idle share, and the bound that no deal can beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .deals import Deal, Way, deal
from .limits import MOST_SMS
from .tiles import Cost, Problem, tiles_of
from .wrong import WrongInput

#: The lower end of a picture's scale, as a share of the upper one, is at most this.
LEAST_CONTRAST = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The predicted figures of one deal.

    Attributes:
        way: how the tiles were dealt.
        loads: the load of each SM, in steps.
        makespan: the largest load, in steps.
        mean: the mean load, in steps; the same for every deal.
        smallest: the smallest load, in steps.
        against_bound: makespan over the bound, a ratio of 1 or more.
        idle: share of all SM time in which nothing is done, 0 to 1.
        gain: speed relative to the deal `given`, minus 1; 0.1 is 10 per cent faster.
    """

    way: Way
    loads: npt.NDArray[np.float64]
    makespan: float
    mean: float
    smallest: float
    against_bound: float
    idle: float
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """All deals of one problem.

    Attributes:
        problem: what is computed.
        cost: what a tile is taken to cost.
        sms: SMs that the tiles are dealt to.
        tiles: how many tiles there are.
        largest_tile: the cost of the costliest tile, in steps.
        bound: steps that no deal can beat: the mean load, or the costliest tile if that is more.
        deals: the figures of each deal, `given` first.
    """

    problem: Problem
    cost: Cost
    sms: int
    tiles: int
    largest_tile: float
    bound: float
    deals: tuple[Figures, ...]

    @property
    def scale(self) -> tuple[float, float]:
        """The loads at both ends of a picture's scale, in steps.

        The upper one is the largest makespan. Most loads lie near it, so the lower one is not 0
        but the smallest load, or 90 per cent of the upper one if that is less: what differs by
        less does not look like much.
        """
        high = max(one.makespan for one in self.deals)
        return min(LEAST_CONTRAST * high, *(one.smallest for one in self.deals)), high


def predict(problem: Problem, cost: Cost, sms: int) -> Prediction:
    """Deal the tiles of a problem in every way.

    Raises:
        WrongInput: the problem has no tile, or too many, or there are too many SMs.
    """
    if sms > MOST_SMS:
        raise WrongInput("--sms", f"{sms} is more than {MOST_SMS}", "count the SMs of one GPU")
    tiles = tiles_of(problem, cost)
    mean, largest = float(tiles.costs.sum()) / sms, float(tiles.costs.max())
    deals = [deal(tiles, sms, way) for way in Way]
    bound, given = max(mean, largest), float(deals[0].loads.max())
    return Prediction(
        problem=problem,
        cost=cost,
        sms=sms,
        tiles=len(tiles),
        largest_tile=largest,
        bound=bound,
        deals=tuple(_figures(one, mean, bound, given) for one in deals),
    )


def _figures(dealt: Deal, mean: float, bound: float, given: float) -> Figures:
    makespan = float(dealt.loads.max())
    # Only when tiles cost nothing is there no load; sums of rounded costs may miss by an ulp.
    return Figures(
        way=dealt.way,
        loads=dealt.loads,
        makespan=makespan,
        mean=mean,
        smallest=float(dealt.loads.min()),
        against_bound=max(makespan / bound, 1.0) if bound else 1.0,
        idle=max(1 - mean / makespan, 0.0) if makespan else 0.0,
        gain=given / makespan - 1 if makespan else 0.0,
    )
