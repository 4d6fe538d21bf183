"""What one call of the bench asks for, and how it tells where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .providers import Provider
from .records import Dtype
from .shapes import Direction, Shape

#: Told the number of the case from 1, its name, and what is being done.
Progress = Callable[[int, str, str], None]


@dataclass(frozen=True, kw_only=True)
class Request:
    """Every shape is measured with every seed, by all providers that are available."""

    shapes: tuple[Shape, ...]
    providers: tuple[Provider, ...]
    seeds: tuple[int, ...]
    direction: Direction
    rounds: int
    dtype: Dtype
