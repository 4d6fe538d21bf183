"""The checked schedule: every name resolved, every shape known; what all passes read.

Spans point into the schedule. A `Program` is never changed: passes put their results beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ..algorithm import Algorithm, Engine, Mode, Op, Space
from ..diagnostics import Counted, SourceFile, Span
from ..target import Target
from ..types import DType, Storage
from .regions import Leaf, Region, leaves


class Layout(StrEnum):
    """How the rows of a tensor belong to sequences."""

    BROADCAST = "broadcast"
    JAGGED = "jagged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is computed.

    Attributes:
        head_dim: columns of q, k and v.
        dtype: element type of the inputs and of out.
        q: the same queries for every sequence, or packed ones of each.
        mask: the mask's name; `none` only hides what lies outside a sequence.
    """

    head_dim: int
    dtype: DType
    q: Layout
    mask: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TileShape:
    """The work of one tile: `m` query rows and `n` key rows, of one of them several groups.

    Attributes:
        group_dim: of which there are groups: `m` or `n`.
        group_symbol: what the schedule calls the group index; None where there is one group.
    """

    m: int
    groups: int
    group_dim: str
    group_symbol: str | None
    n: int
    span: Span = field(compare=False)
    symbol_span: Span | None = field(compare=False, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Specialised warps with a register budget.

    Attributes:
        warps: of one replica.
        registers: requested per thread; None for the default role, which gets what is left.
        replicas: one for every group if the role is declared over the group index, else 1.
        indexed: whether it is declared over the group index.
    """

    name: str
    warps: int
    registers: int | None
    default: bool
    replicas: int
    indexed: bool
    span: Span = field(compare=False)
    declared: Counted = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A tile in one memory, times its depth, times the groups if it is declared over them.

    Attributes:
        symbols: its dimensions as the schedule spells them, for example `("m", "d")`.
        shape: the same in numbers.
        depth: slots of the ring.
        holds: the values that take turns in it, in the order in which they are produced.
        slices: equal column slices in which it is handed over, or read.
        turns: uses of each of its values in a step; a staging buffer has one for every slice.
        flat: whether a tile lies there as the threads of its role hold it, not by rows and columns.
    """

    name: str
    storage: Storage
    symbols: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: DType
    depth: int
    holds: tuple[str, ...]
    slices: int
    grouped: bool
    span: Span = field(compare=False)
    declared: Counted | None = field(compare=False)
    turns: int = 1
    flat: bool = False

    @property
    def bytes(self) -> int:
        """SMEM bytes of one slot."""
        size = self.dtype.bytes
        for extent in self.shape:
            size *= extent
        return size

    @property
    def columns(self) -> int:
        """TMEM columns of one slot: 32-bit columns, whatever the number of rows."""
        width = self.shape[1] if len(self.shape) > 1 else 1
        return max(1, width * self.dtype.bytes // 4)


class GroupRef(StrEnum):
    """How an op in a role block names its group."""

    NONE = "none"
    EVERY = "every"
    REPLICA = "replica"
    ONE = "one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """How an op sends its tile out: in column slices, through a ring of staging buffers.

    Attributes:
        buffer: the ring; a slot holds one slice.
        pieces: slices of the tile.
        hold: the last slices that are read into registers before the first of them is staged, so
            that the tile is free earlier; 0 if every slice is staged as it is read.
    """

    buffer: str
    pieces: int
    hold: int

    @property
    def prompt(self) -> int:
        """Return the number of slices that are staged as they are read."""
        return self.pieces - self.hold


@dataclass(frozen=True, slots=True, kw_only=True)
class OpUse:
    """One op placed in a role.

    Attributes:
        group_ref: no group at all, every group in turn, the replica's own, or one fixed group.
        groups: the groups that it runs for, over all replicas of its role.
        offset: it runs for step `i + offset` where the loop variable is `i`; 0 for per-tile ops.
        turn: which of its role's turns it stands in; -1 outside of all.
        lands_with: the load on whose barrier it lands; empty if on its own.
        settles: matmuls that its role waits for before it, as the schedule says: op and offset.
        staging: how it sends its tile out; None for an op that does not.
        whole: the statement that it is; None if it shares one.
    """

    op: Op
    group_ref: GroupRef
    groups: tuple[int, ...]
    offset: int
    span: Span = field(compare=False)
    turn: int = -1
    lands_with: str = ""
    settles: tuple[tuple[str, int], ...] = ()
    staging: Staging | None = None
    whole: Span | None = field(compare=False, default=None)

    def at(self, symbol: str, offset: int) -> str:
        """Return how a schedule says it for another step: for example `pv[g][i-1]`."""
        step = symbol + (f"{offset:+d}" if offset else "")
        return f"{self.span.text.rsplit('[', 1)[0]}[{step}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleProgram:
    """What one role does for a tile, in order.

    Attributes:
        peel: whether its loop is split so that the mask test leaves the main part.
    """

    role: Role
    before: tuple[OpUse, ...]
    loop: tuple[OpUse, ...]
    after: tuple[OpUse, ...]
    peel: bool

    @property
    def runs_ahead(self) -> bool:
        """Whether the role loads, and so works on a tile before the others do.

        Whoever asks for the next tile waits until all roles have taken the last answer. A role
        that runs ahead therefore asks when its work on the tile is done, any other one before.
        """
        return any(use.op.engine is Engine.LOAD for use in self.uses())

    @property
    def takes_turns(self) -> bool:
        """Whether its replicas take turns."""
        return self.turns > 0

    @property
    def staging(self) -> Staging | None:
        """Return how it sends a tile out in slices; None if it does not."""
        return next((use.staging for use in self.uses() if use.staging is not None), None)

    @property
    def turns(self) -> int:
        """Return how often in a lap its replicas take turns."""
        return 1 + max((use.turn for use in self.loop), default=-1)

    def uses(self) -> tuple[OpUse, ...]:
        """Return every op use in order."""
        return self.before + self.loop + self.after


class TileOrder(StrEnum):
    """The order of the tile list."""

    GIVEN = "given"
    LONGEST_FIRST = "longest_first"
    VALID = "valid"
    VALID_BY_Q_LENGTH = "valid_by_q_length"


class NextTile(StrEnum):
    """How a CTA finds its next tile."""

    NONE = "one_per_cta"
    ROUND_ROBIN = "round_robin"
    ZIGZAG = "zigzag"
    CLC = "clc"


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSource:
    """Where tiles come from.

    Attributes:
        asker: the role that asks for the next tile; only with cluster launch control.
    """

    order: TileOrder
    next: NextTile
    asker: str | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A checked schedule.

    Attributes:
        staggered: whether every CTA starts its steps at another place, and goes round.
    """

    name: str
    source: SourceFile
    algorithm: Algorithm
    target: Target
    problem: Problem
    tile: TileShape
    roles: tuple[Role, ...]
    buffers: tuple[Buffer, ...]
    regions: tuple[Region, ...]
    apart: tuple[tuple[Leaf, ...], ...]
    together: tuple[tuple[Leaf, ...], ...]
    role_programs: tuple[RoleProgram, ...]
    tiles: TileSource
    staggered: bool
    loop_symbol: str
    loop_span: Span = field(compare=False)
    name_span: Span = field(compare=False)

    def buffer(self, name: str) -> Buffer:
        """Return the buffer called `name`; KeyError if there is none."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)

    def holder(self, value: str) -> Buffer:
        """Return the buffer that holds `value`; KeyError if there is none."""
        for buffer in self.buffers:
            if value in buffer.holds:
                return buffer
        raise KeyError(value)

    def program_of(self, role: str) -> RoleProgram:
        """Return the program of the role called `role`; KeyError if there is none."""
        for program in self.role_programs:
            if program.role.name == role:
                return program
        raise KeyError(role)

    def joins(self, op: Op) -> bool:
        """Return whether the role that issues `op`, a matmul, waits for its end itself."""
        return op.engine is Engine.MMA and self.target.joins

    def lingers(self, use: OpUse) -> bool:
        """Whether a store goes on by itself: the role that issues it fills its place, nobody else.

        The role then waits where it fills that memory again; any other one waits at once, to say
        that the tile is free.
        """
        if use.op.engine is not Engine.STORE:
            return False
        read = {self.holder(access.value).name for access in use.op.accesses()}
        storers = [one for one in self.role_programs if use in one.uses()]
        fillers = [
            one
            for one in self.role_programs
            for other in one.uses()
            for access in other.op.accesses()
            if access.mode is not Mode.READ
            and any(self.shares_memory(name, self.holder(access.value).name) for name in read)
        ]
        return all(one in storers for one in fillers)

    def leaves_stores(self, role_program: RoleProgram) -> bool:
        """Whether a role's stores may still read their tiles when its work on a tile is done."""
        stays = any(self.lingers(use) for use in role_program.uses())
        return role_program.staging is not None or stays

    def shares_memory(self, one: str, other: str) -> bool:
        """Return whether the schedule lets two buffers in SMEM take one place, or they are one."""
        return one == other or any(
            {one, other} <= {leaf.buffer for leaf in leaves(region.tree)} for region in self.regions
        )

    def multiplications(self, op: Op) -> int:
        """Return how many multiplications a matmul is: one for each group of which it reads."""
        return self.tile.groups if any(a.every_group for a in op.accesses()) else 1

    def registers_of(self, op: Op) -> frozenset[str]:
        """Return the values that `op` touches and that live in registers."""
        values = {access.value for access in op.accesses()}
        return frozenset(v for v in values if self.holder(v).storage is Storage.REG)

    def pending(self, staging: Staging) -> int:
        """Return the most slices that may be on their way when the next one is staged."""
        return self.buffer(staging.buffer).depth - 1

    def uses_per_tile_step(self, buffer: Buffer) -> int:
        """Return how many uses of `buffer` one step makes; 0 if it has one use a tile."""
        spaces = [self.algorithm.value(value).space for value in buffer.holds]
        return len(spaces) * buffer.turns if spaces[0] is Space.STEP else 0
