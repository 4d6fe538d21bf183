"""Collects what the text of a kernel allocates and does while it is executed for its trace."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from .trace import Action, ActionKind, Barriers, Region, RoleText, Signal, Tiles, Trace

#: Actions of one role in one execution; the shipped kernels stay below 1,000.
MOST_ACTIONS = 20_000


class ReadbackError(Exception):
    """The text does something that the round trip does not know; carries the line."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True)
class BarrierArray:
    """An array of barriers in the text; an index gives one of them."""

    name: str
    number: int

    def __getitem__(self, index: int) -> Signal:
        return Signal(self.name, int(index))


@dataclass(frozen=True, slots=True)
class View:
    """A tile or a part of it."""

    array: str
    copy: int
    start: int
    stop: int
    shape: tuple[int, ...]

    @property
    def region(self) -> Region:
        """Return what an access of this view touches."""
        return Region(self.array, self.copy, self.start, self.stop)


@dataclass(frozen=True, slots=True)
class TileArray:
    """An array of tiles in the text; an index gives one of them."""

    name: str
    shape: tuple[int, ...]
    number: int

    def __getitem__(self, index: int) -> View:
        return View(self.name, int(index), 0, self.shape[-1], self.shape)


@dataclass(frozen=True, slots=True)
class Pointer:
    """A kernel argument that points to global memory: with contents, or only a name."""

    name: str
    contents: tuple[int, ...] | None = None
    offset: Any = 0

    def __add__(self, offset: Any) -> Pointer:  # noqa: ANN401
        return Pointer(self.name, self.contents, self.offset + offset)

    @property
    def dtype(self) -> Pointer:
        """Return a stand-in for the element type."""
        return self

    @property
    def element_ty(self) -> str:
        """Return a stand-in for the element type."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Cta:
    """Which CTA is executed.

    Attributes:
        index: its id in the grid.
        number: CTAs in the grid.
        handed: tiles that cluster launch control hands it after its own; None for all of them.
        tile_lists: arrays of which one is read once for every tile.
    """

    index: int = 0
    number: int = 1
    handed: tuple[int, ...] | None = None
    tile_lists: frozenset[str] = frozenset()


@dataclass(slots=True)
class Recorder:
    """The state of one execution.

    Attributes:
        filename: of the text, to find lines.
        names: line -> the name that an allocation on it is assigned to.
        trips: steps of each tile.
        cta: which CTA this is.
        visited: role -> the tiles that it worked on, in order.
        issued: matmuls with results in registers that the current role has issued.
        consumers: roles that take every answer of the tile channel, as the text says.
    """

    filename: str
    names: dict[int, str]
    trips: tuple[int, ...]
    cta: Cta
    barriers: dict[str, Barriers] = field(default_factory=dict)
    tiles: dict[str, Tiles] = field(default_factory=dict)
    overlaps: dict[str, object] = field(default_factory=dict)
    actions: dict[RoleText, tuple[Action, ...]] = field(default_factory=dict)
    visited: dict[RoleText, tuple[int, ...]] = field(default_factory=dict)
    current: list[Action] = field(default_factory=list)
    visiting: list[int] = field(default_factory=list)
    replica: int = 0
    taken: int = 0
    issued: int = 0
    consumers: int = 0

    def line(self) -> int:
        """Return the line of the text that is being executed."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self.filename:
            if frame.f_back is None:
                return 0
            frame = frame.f_back
        return frame.f_lineno

    def assigned_name(self) -> str:
        """Return the name that the value of the current line is assigned to."""
        line = self.line()
        if line not in self.names:
            raise ReadbackError("an allocation is not assigned to a name", line)
        return self.names[line]

    def act(self, kind: ActionKind, **values: Any) -> None:  # noqa: ANN401
        """Enter one action of the current role."""
        self.current.append(Action(kind, self.line(), **values))
        if len(self.current) > MOST_ACTIONS:
            raise ReadbackError(
                "a role goes on and on: its loop over tiles does not end", self.line()
            )

    def finish_role(self, role: RoleText) -> None:
        """Close the current role."""
        self.actions[role] = tuple(self.current)
        self.visited[role] = tuple(self.visiting)
        self.current, self.visiting = [], []
        self.taken = self.issued = 0

    def next_tile(self) -> int:
        """Return the tile that cluster launch control hands out now; -1 after the last."""
        handed = self.cta.handed
        if handed is None:
            handed = tuple(range(1, len(self.trips)))
        self.taken += 1
        return handed[self.taken - 1] if self.taken <= len(handed) else -1

    def trace(self) -> Trace:
        """Return what was read."""
        return Trace(
            trips=self.trips,
            barriers=dict(self.barriers),
            tiles=dict(self.tiles),
            overlaps=dict(self.overlaps),
            actions=dict(self.actions),
            visited=dict(self.visited),
            consumers=self.consumers,
        )
