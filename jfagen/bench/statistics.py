"""Medians, percentiles, rates and means of ratios; nothing here knows what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Where values lie: the median and the percentiles 10 and 90, in the values' unit."""

    median: float
    p10: float
    p90: float
    count: int


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of 0 to 1 lies, between neighbours in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def spread(values: Sequence[float]) -> Spread:
    """Return median and percentiles of at least one value."""
    return Spread(
        median=percentile(values, 0.5),
        p10=percentile(values, 0.1),
        p90=percentile(values, 0.9),
        count=len(values),
    )


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return the geometric mean of positive values; None of none."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def tflops(flops: int, milliseconds: float) -> float:
    """Return 10**12 operations per second."""
    return flops / milliseconds / 1e9
