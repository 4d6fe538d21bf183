"""What an algorithm is: values and ops as data, in the order of the sequential program.

The sequential program is the meaning: for every tile, the per-tile ops before the loop, then for
every step the per-step ops, then the per-tile ops after it, all in the order of `Algorithm.ops`.
Whatever order a schedule chooses must keep every dependence of that program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ..types import Storage


class Engine(StrEnum):
    """The hardware that executes an op."""

    LOAD = "tma load"
    STORE = "tma store"
    MMA = "mma"
    WARPS = "warps"


class Space(StrEnum):
    """How often an op runs, or how often a value is new."""

    TILE = "tile"
    STEP = "step"


class Mode(StrEnum):
    """What an access does to the memory."""

    READ = "read"
    WRITE = "write"
    UPDATE = "update"


class Element(StrEnum):
    """The element type of a value: the problem's input type, or float32."""

    INPUT = "input"
    F32 = "f32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One intermediate tile of the algorithm.

    Attributes:
        name: as schedules call the buffer that holds it.
        dims: symbols of its shape: `m` query rows, `n` key rows, `d` the head dimension.
        element: its element type.
        space: whether it is new in every tile or in every step.
        grouped: one for every group of rows.
        split: the dimension of which every group has an equal part; empty for none.
        storages: the memories that its ops can use; the target may have fewer.
        sliceable: whether it can be handed over in column slices.
        staging: whether it is a column slice on its way out: the schedule names its buffer where it
            names the op, and says how wide a slice is.
    """

    name: str
    dims: tuple[str, ...]
    element: Element
    space: Space
    grouped: bool
    storages: frozenset[Storage]
    sliceable: bool = False
    staging: bool = False
    split: str = ""

    def dims_of(self, groups: int) -> tuple[str, ...]:
        """Return the symbols of its shape in one of `groups` groups: a part is `d/2`."""
        if groups == 1:
            return self.dims
        return tuple(f"{dim}/{groups}" if dim == self.split else dim for dim in self.dims)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One use of a value by an op.

    Attributes:
        value: the value's name.
        mode: read, write or update.
        first_step: the first step at which data is really touched (an op that only synchronises
            before that step still counts as an access for ordering).
        first_read: the first step at which an update reads what is there; before it overwrites.
        every_group: whether an op of one group touches the value of all of them.
    """

    value: str
    mode: Mode
    first_step: int = 0
    first_read: int = 0
    every_group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Accesses of one op that happen together; synchronisation goes between points.

    Attributes:
        accesses: what is touched.
        per_slice: repeated for every slice of the sliced value among the accesses.
        engine: what executes this point, where it is not what executes the op.
    """

    accesses: tuple[Access, ...]
    per_slice: bool = False
    engine: Engine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One step of the algorithm.

    Attributes:
        name: as schedules call it.
        engine: what executes it.
        space: once a tile or once a step.
        grouped: once for every group of rows.
        points: its accesses in the order in which they happen.
        takes: register values that an earlier op of the same role must have kept.
        keeps: register values that it leaves for a later op of the same role.
        inputs: global tensors that it reads.
        outputs: global tensors that it writes.
        masks: whether it has to know which rows of a step lie outside the sequence.
        fills: outputs that its role writes for a tile that has no steps.
        warps: how many warps its role may have; matters to ops that warps execute.
        staged: whether a schedule can send it out in column slices, through a ring of staging
            buffers; it has to where the tile is not in registers.
        adds: whether it adds to its outputs what others add to as well.
        direct: its points where the tile goes out of registers as it lies, without slices; empty
            if it never does.
    """

    name: str
    engine: Engine
    space: Space
    grouped: bool
    points: tuple[Point, ...]
    takes: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    masks: bool = False
    fills: tuple[str, ...] = ()
    warps: tuple[int, ...] = (4,)
    staged: bool = False
    adds: bool = False
    direct: tuple[Point, ...] = ()

    def engine_of(self, point: int) -> Engine:
        """Return what executes a point."""
        return self.points[point].engine or self.engine

    @property
    def stored(self) -> tuple[str, ...]:
        """Return the outputs that its warps write themselves, not by TMA."""
        by_tma = any(self.engine_of(point) is Engine.STORE for point in range(len(self.points)))
        return () if by_tma else self.outputs

    def accesses(self) -> tuple[Access, ...]:
        """Return every access in order."""
        return tuple(access for point in self.points for access in point.accesses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Kernel arguments that lead to tiles with known numbers of steps.

    Attributes:
        arguments: scalars and the contents of integer arrays, by parameter.
        tile_lists: arrays of which a role reads one once for every tile that it works on.
        spare: ids past the last tile that the arrays allow for, where a grid may be a bound.
    """

    arguments: dict[str, object]
    tile_lists: frozenset[str]
    spare: int = 0


#: (steps of each tile, named constants of the kernel, whether last steps are full) -> arguments.
ProbeFunction = Callable[[tuple[int, ...], Mapping[str, int], bool], Probe]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """A dimension of the tile.

    Attributes:
        words: what one of its rows is, for comments.
        sizes: name of a target -> the sizes that its matmuls are made for.
        grouped: targets on which a tile may have several groups of them.
    """

    words: str
    sizes: Mapping[str, tuple[int, ...]]
    grouped: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """A kernel's mathematics.

    Attributes:
        name: as schedules call it.
        loop: what the steps of a tile walk over.
        extents: symbol of a dimension of the tile -> what it is.
        orders: how the tile list can be ordered, the first one if nothing is said.
        skips_tiles: whether the text leaves out ids past the last tile, so that a grid may be a
            bound.
        values: every intermediate tile.
        ops: every op, in the order of the sequential program.
        outputs: global tensors that must be written.
        kept: what ops hand on in registers, float32 -> the symbols of its shape.
        cyclic: whether the steps of a tile may begin anywhere and go round.
        probe: arguments with which a kernel's text is executed to read it back.
    """

    name: str
    loop: str
    extents: Mapping[str, Extent]
    orders: tuple[str, ...]
    skips_tiles: bool
    values: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[str, ...]
    kept: Mapping[str, tuple[str, ...]]
    cyclic: bool
    probe: ProbeFunction

    @property
    def targets(self) -> tuple[str, ...]:
        """Return the targets that it is built for."""
        return tuple(next(iter(self.extents.values())).sizes)

    def grouped_dim(self, target: str) -> str | None:
        """Return the dimension of which a target's tile may have groups; None if it has none."""
        return next((dim for dim, one in self.extents.items() if target in one.grouped), None)

    def value(self, name: str) -> Value:
        """Return the value called `name`; KeyError if there is none."""
        for value in self.values:
            if value.name == name:
                return value
        raise KeyError(name)

    def op(self, name: str) -> Op:
        """Return the op called `name`; KeyError if there is none."""
        for op in self.ops:
            if op.name == name:
                return op
        raise KeyError(name)

    def of_matmuls(self, value: str) -> bool:
        """Return whether a matmul reads or writes `value`."""
        return any(
            access.value == value
            for op in self.ops
            if op.engine is Engine.MMA
            for access in op.accesses()
        )

    def writers(self, value: str) -> tuple[Op, ...]:
        """Return the ops that write `value`, in order."""
        return tuple(
            op
            for op in self.ops
            if any(a.value == value and a.mode is not Mode.READ for a in op.accesses())
        )
