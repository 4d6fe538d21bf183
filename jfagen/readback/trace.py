"""What a role does, read back from the text of a kernel: a list of actions for a few tiles."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ActionKind(StrEnum):
    """What one call in the text does."""

    WAIT = "wait"
    ARRIVE = "arrive"
    EXPECT = "expect"
    COMMIT = "commit"
    LOAD = "load"
    STORE = "store"
    DRAIN = "drain"
    MMA = "mma"
    JOIN = "join"
    MEET = "named barrier wait"
    HAND = "named barrier arrive"
    READ = "read"
    WRITE = "write"
    FENCE = "fence"
    ASK = "ask"
    TAKE = "take"
    GLOBAL = "global store"


@dataclass(frozen=True, slots=True)
class Signal:
    """One mbarrier: its array in the text and the index."""

    name: str
    index: int


#: The array that named barriers are said to be in.
NAMED = "named barrier"


@dataclass(frozen=True, slots=True)
class Region:
    """A part of one tile: its array, the copy, and the columns or all of it.

    Attributes:
        array: name of the array of tiles in the text.
        copy: index into it.
        start, stop: range of columns of the tile; the whole tile for SMEM.
    """

    array: str
    copy: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a role.

    Attributes:
        kind: what it is.
        line: of the text.
        signal: the barrier of a wait, arrive, expect or commit; where a load lands.
        value: parity of a wait, arrivals of an arrive, bytes of an expect; matmuls that a join
            leaves in flight; threads of a named barrier, whose id stands in `signal`.
        reads, writes: what it touches.
        joined: whether the role waits for a matmul itself: its result lies in registers.
        commits: barriers that an MMA arrives on when it and all before it are through.
        accumulates: whether an MMA or a store adds to what is there.
        tensor: the global tensor that a load, a store or a global store names.
    """

    kind: ActionKind
    line: int
    signal: Signal | None = None
    value: int = 0
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()
    commits: tuple[Signal, ...] = ()
    accumulates: bool = False
    tensor: str = ""
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Barriers:
    """An array of mbarriers in the text.

    Attributes:
        number: how many.
        count: arrivals that complete a phase.
        threads: whether every thread of a role arrives.
        warps: of the role whose threads arrive; 0 if single threads do.
    """

    name: str
    number: int
    count: int
    threads: bool
    line: int
    warps: int = 0


@dataclass(frozen=True, slots=True)
class Tiles:
    """An array of tiles in the text.

    Attributes:
        shape: of one tile.
        element_bytes: size of an element.
        number: copies.
        storage: `smem` or `tmem`.
        space: the alias spec that it belongs to; empty if it has a place of its own.
    """

    name: str
    shape: tuple[int, ...]
    element_bytes: int
    number: int
    storage: str
    space: str
    line: int


@dataclass(frozen=True, slots=True)
class RoleText:
    """One role instance in the text.

    Attributes:
        name: as its comment says.
        replica: index among its replicas.
        warps: of one replica.
        registers: requested; None for the default role.
    """

    name: str
    replica: int
    warps: int
    registers: int | None


@dataclass(frozen=True, slots=True)
class Trace:
    """A kernel's text, executed for a few tiles.

    Attributes:
        trips: steps of each tile.
        barriers: arrays of barriers by name.
        tiles: arrays of tiles by name.
        overlaps: alias spec -> its tree: `("shared" or "distinct", parts)` or an array's name.
        actions: what every role instance does, in program order.
        visited: the tiles that every role instance works on, in order.
        consumers: roles that take every answer of the tile channel, as the text says.
        default_warps: warps of the role that declares none.
    """

    trips: tuple[int, ...]
    barriers: dict[str, Barriers]
    tiles: dict[str, Tiles]
    overlaps: dict[str, object]
    actions: dict[RoleText, tuple[Action, ...]]
    visited: dict[RoleText, tuple[int, ...]]
    consumers: int = 0
    default_warps: int = 4
