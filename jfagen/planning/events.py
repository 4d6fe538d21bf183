"""Events: what happens, where in the schedule it is written, and in which tile and step it runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..algorithm import Mode
from ..semantics.program import OpUse


class EventKind(StrEnum):
    """What an event is.

    `act` is done by the warps of a role. Asynchronous ops are an `issue` by the role and a later
    `done`: an MMA has executed, a load has landed, a store has read its source. For a store, `done`
    is the role's own wait for that, and so it is for a matmul that leaves its result in registers.
    `turn` and `pass` are a replica's wait for its turn and the handing on. The last three belong to
    the tile channel.
    """

    ACT = "act"
    ISSUE = "issue"
    DONE = "done"
    TURN = "turn"
    PASS = "pass"
    ASK = "ask"
    ANSWER = "answer"
    TAKE = "take"


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """A place in a role's program where accesses happen: one point of one op for one group.

    Attributes:
        op: the op's name; every op is placed once, so it also names the role.
        group: the group of query rows; -1 for an op that has none.
        point: index among the op's points.
        slice: which slice of the sliced value; 0 where nothing is sliced.
    """

    op: str
    group: int
    point: int
    slice: int


@dataclass(frozen=True, slots=True)
class Touch:
    """One access at a site.

    Attributes:
        buffer: name of the buffer.
        value: the value in it.
        group: copy for this group; -1 where the buffer has no groups.
        slice: the column slice; -1 for the whole tile.
        mode: read, write or update.
        first_step: the first step at which data is touched.
        first_read: the first step at which an update reads what is there.
        turn: which of the uses of the buffer in one step it belongs to.
    """

    buffer: str
    value: str
    group: int
    slice: int
    mode: Mode
    first_step: int
    first_read: int
    turn: int


@dataclass(frozen=True, slots=True, order=True)
class Actor:
    """One running instance of a role."""

    role: str
    replica: int


@dataclass(frozen=True, slots=True)
class Event:
    """One node of the unrolled graph.

    Attributes:
        tile: index of the tile in the unrolled sequence.
        step: the op's own step; -1 for per-tile ops and the tile channel.
        site: None for events of the tile channel and of turns.
        use: the placed op; None for events of the tile channel and of turns.
    """

    kind: EventKind
    actor: Actor
    tile: int
    step: int
    site: Site | None
    use: OpUse | None

    def describe(self) -> str:
        """Return the event in words, for witnesses."""
        if self.kind in (EventKind.TURN, EventKind.PASS):
            return f"{self.actor.role}[{self.actor.replica}]: {self.kind.value} (tile {self.tile})"
        if self.site is None:
            return f"{self.actor.role}: {self.kind.value} next tile (tile {self.tile})"
        group = f"[{self.site.group}]" if self.site.group >= 0 else ""
        step = f"[{self.step}]" if self.step >= 0 else ""
        return (
            f"{self.actor.role}: {self.site.op}{group}{step} {self.kind.value} (tile {self.tile})"
        )


@dataclass(frozen=True, slots=True)
class Unrolled:
    """The events of a few tiles and the orders that hold without any barrier.

    Attributes:
        trips: steps of each tile.
        events: every event; the index is its node.
        order: edges of program order, issue to done, MMAs of one role in order, turns, tile
            channel.
        start: (site, tile, step) -> node before which a wait would go.
        end: (site, tile, step) -> node after which the accesses are over.
        handed: the same -> node after which they are announced, where that is later.
        previous: node in a role's program -> the node before it.
        turns: role -> for every replica its (wait, handing on) of each turn, in order.
    """

    trips: tuple[int, ...]
    events: tuple[Event, ...]
    order: tuple[tuple[int, int], ...]
    start: dict[tuple[Site, int, int], int]
    end: dict[tuple[Site, int, int], int]
    handed: dict[tuple[Site, int, int], int]
    previous: dict[int, int]
    turns: dict[str, list[list[tuple[int, int]]]]
