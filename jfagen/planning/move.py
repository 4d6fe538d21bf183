"""One move of a role, and all of a tile: what it waits for, fences and hands on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..semantics.program import OpUse

#: The point of an op in slices at which one is copied to its staging buffer.
COPY = 1


@dataclass(frozen=True, slots=True)
class Join:
    """The wait for one matmul.

    Attributes:
        point: index of the point of the op before which it stands; their number if behind all.
        use: the matmul.
        step: its step.
        pending: multiplications that were issued later and may still be in flight.
    """

    point: int
    use: OpUse
    step: int
    pending: int


@dataclass(frozen=True, slots=True)
class Drain:
    """The wait until stores of the role have read their tiles.

    Attributes:
        point: index of the point of the op before which it stands; their number if behind all.
        pending: stores that were issued later and may still read theirs.
    """

    point: int
    pending: int


@dataclass(frozen=True, slots=True)
class Handed:
    """A tile that is fenced and handed on by a later move than the one that writes it.

    Attributes:
        use: the op that writes it.
        step: its step.
        point: the point at which it does.
    """

    use: OpUse
    step: int
    point: int


@dataclass(frozen=True, slots=True)
class Move:
    """One op of one step.

    Attributes:
        use: the op as placed.
        step: its own step; -1 for an op that runs once a tile.
        joins: matmuls that are waited for at its points, in order of issue.
        drains: waits for stores before its points.
        hands: what it fences before its own work, and hands on behind it.
        withheld: the point of its own of which the next move does that; -1 for none.
        takes_turn: the role waits for its turn before it.
        passes_turn: the role passes the turn on after it.
    """

    use: OpUse
    step: int
    joins: tuple[Join, ...] = ()
    drains: tuple[Drain, ...] = ()
    hands: Handed | None = None
    withheld: int = -1
    takes_turn: bool = False
    passes_turn: bool = False


@dataclass(frozen=True, slots=True)
class TileMoves:
    """What a role does for one tile.

    Attributes:
        before, after: ops that run once a tile.
        laps: lap of the loop -> its moves, in order.
    """

    before: tuple[Move, ...]
    laps: dict[int, tuple[Move, ...]]
    after: tuple[Move, ...]

    def __iter__(self) -> Iterator[Move]:
        """Yield every move in order."""
        yield from self.before
        for moves in self.laps.values():
            yield from moves
        yield from self.after
