"""What the templates see: finished names, lines and texts; nothing is left to decide."""

from __future__ import annotations

from dataclasses import dataclass

from .render import factor
from .sync_lines import OpSync, merged


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingView:
    """How an op in slices is spelled.

    Attributes:
        slices: the constant with the number of slices.
        columns: the constant with the columns of one.
        held: the constant with the slices that are held.
        depth: the constant with the slots of the ring.
        hold: how many slices are held.
        prompt: how many are not.
    """

    slices: str
    columns: str
    held: str
    depth: str
    hold: int
    prompt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpView:
    """One op use, ready for its macro.

    Attributes:
        name: of the op and of its macro.
        group: how its group is spelled: `g`, a number, or `0` where there is one group.
        step: how its own step is spelled.
        block: how the rows of its step are numbered: as the step, if steps are not staggered.
        mask: when rows outside the sequence have to be hidden: None never, "" always, or a
            condition.
        idle: whether its step is too early for it to touch any data.
        tile: value -> the tile that holds it.
        tiles: value of which it touches all groups -> their tiles.
        slices: value -> the constant with its number of slices.
        registers: values that stay in registers.
        sync: waits and arrives.
        staging: how it goes out in slices; None for an op that does not.
        lingers: whether it is a store that nobody waits for at once.
    """

    name: str
    group: str
    step: str
    mask: str | None
    idle: bool
    block: str
    tile: dict[str, str]
    tiles: dict[str, tuple[str, ...]]
    slices: dict[str, str]
    registers: frozenset[str]
    sync: OpSync
    staging: StagingView | None = None
    lingers: bool = False

    def before(self, point: int) -> str:
        """Return the lines before a point."""
        lines = self.sync.points[point]
        meets = ["# All warps have read what this lies over.", lines.meets] if lines.meets else []
        return _joined([*lines.joins, *lines.drains, *merged(lines.before), *meets])

    def before_slice(self, point: int) -> str:
        """Return the lines before every slice of a point."""
        return _joined(merged(self.sync.points[point].before_slice))

    def after_slice(self, point: int) -> str:
        """Return the lines after every slice of a point."""
        return _joined(merged(self.sync.points[point].after_slice))

    @property
    def tail(self) -> str:
        """Return the lines behind the op: waits for what may not fly on."""
        return _joined(self.sync.ends)

    def fence(self, point: int) -> str:
        """Return the proxy fence after a point, where one is needed."""
        if not self.sync.points[point].fenced:
            return ""
        return '# The async proxy reads these bytes.\ntlx.fence("async_shared")\n'

    @property
    def handing_fence(self) -> str:
        """Return the proxy fence for what the op before this one has written, if there is one.

        Nothing stands between it and the matmul, before which the toolchain would have another.
        """
        if not self.sync.hands:
            return ""
        comment = "# One fence for the bytes just written and for those read now."
        return f'{comment}\ntlx.fence("async_shared")\n'

    def after(self, point: int) -> str:
        """Return the lines after a point."""
        return _joined(merged(self.sync.points[point].after))

    def masked(self, line: str) -> str:
        """Return a line that masks, under its condition if there is one."""
        return f"if {self.mask}:\n    {line}\n" if self.mask else f"{line}\n"

    @property
    def expect(self) -> str:
        """Return the line that expects a load's bytes."""
        return _joined(self.sync.expect)

    @property
    def arrival(self) -> str:
        """Return the barrier on which a load lands."""
        return self.sync.arrival

    @property
    def completion(self) -> str:
        """Return the arguments that say how an MMA completes."""
        if not self.sync.commits:
            return "force_async=True"
        return f"mBarriers=[{', '.join(self.sync.commits)}]"

    def column(self, value: str, variable: str) -> str:
        """Return a vector as a column: read from its tile, or from registers."""
        if value in self.registers:
            return f"{variable}[:, None]"
        return f"tlx.local_load({self.tile[value]})"

    def publish(self, value: str, variable: str) -> str:
        """Return the line that writes a vector to its tile; nothing for registers."""
        if value in self.registers:
            return ""
        return f"tlx.local_store({self.tile[value]}, {variable}[:, None])\n"

    @property
    def read_out(self) -> str:
        """Return the line that waits until a store has read its tile; nothing if it reads on."""
        return "" if self.lingers else "tlx.async_descriptor_store_wait(0)\n"

    def pairs(self, one: str, other: str) -> tuple[tuple[str, str], ...]:
        """Return the tiles of two values of which the op touches those of all groups, in turn."""
        return tuple(zip(self.tiles[one], self.tiles[other], strict=True))

    def times(self, extent: str) -> str:
        """Return `group * extent` without noise."""
        return {"0": "0", "1": extent}.get(self.group, f"{self.group} * {extent}")

    def minus(self, extent: str) -> str:
        """Return ` - group * extent` without noise."""
        return "" if self.group == "0" else f" - {self.times(extent)}"

    def minus_steps(self, extent: str) -> str:
        """Return ` - step * extent`; nothing in the first step."""
        return "" if self.step == "0" else f" - {factor(self.step)} * {extent}"

    def offset(self, extent: str) -> str:
        """Return ` + group * extent` without noise."""
        return "" if self.group == "0" else f" + {self.times(extent)}"


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A spelled op with what surrounds it.

    Attributes:
        comment: the schedule's words and line.
        guard: the condition under which a lap runs it; empty if always.
        loop: the header of the loop over groups; empty if there is none.
        takes: the line that waits for the replica's turn; empty if there is none.
        text: the op's own lines.
        passes: the line that hands the turn on.
    """

    comment: str
    guard: str
    loop: str
    takes: str
    text: str
    passes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a role's loop.

    Attributes:
        under: the line of the branch that it begins; empty if it begins none.
        comment: what is special about it; empty if it is the whole loop.
        header: the `for` line; empty for a lap by itself.
        definitions: lines at the top of its body.
        pieces: ops in order.
    """

    under: str
    comment: str
    header: str
    definitions: tuple[str, ...]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleView:
    """One role.

    Attributes:
        comment: the role's ops and line.
        arguments: of `tlx.async_task`.
        replica: the line that names the replica; empty without replicas.
        counters: lines that start the counters.
        find_tile: lines that find the tile's place and length.
        definitions: lines at the top of a tile with steps.
        before, segments, after: the work of a tile with steps.
        starts: lines that start what a loop keeps in registers.
        counts: lines that move the counters on.
        closing: the work of a tile without steps; empty if another role does it.
        ends: lines after the last tile.
        asks_first, asks_last: whether it asks for the next tile, before or after its work.
    """

    comment: str
    arguments: str
    replica: str
    counters: tuple[str, ...]
    find_tile: str
    definitions: tuple[str, ...]
    before: tuple[Piece, ...]
    starts: str
    segments: tuple[Segment, ...]
    after: tuple[Piece, ...]
    counts: tuple[str, ...]
    closing: tuple[Piece, ...]
    ends: tuple[str, ...]
    asks_first: bool
    asks_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A named number of the kernel."""

    name: str
    value: str
    comment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelView:
    """One file of generated code.

    Attributes:
        schedule: path of the schedule as the header names it.
        version: of jfagen.
        kernel: the kernel's name.
        target: the architecture.
        algorithm: folder of the templates of its mathematics.
        columns: TMEM map, a line each.
        table: barrier table, a line each.
        constants: named numbers.
        ring_helper: whether any ring needs its slot and phase computed.
        allocations: lines that allocate buffers.
        barriers: lines that allocate barriers.
        consumers: role instances that take tiles; 0 without cluster launch control.
        exclusive: whether the toolchain is told that the kernel has no other roles. It then keeps
            nothing for a second dispatch, which saves registers; replicas would lose their common
            code.
        walk: which macro walks over the tiles.
        order: how the tile list is sorted.
        roles: every role, the default one first.
        budget: what the compiled kernel may take, as Python text.
        warps: of the default role, which Triton launches.
        dtype: element type of the inputs as signatures spell it.
        torch_dtype: the same as torch spells it.
        numbers: sizes that signatures need: symbol -> number.
        groups: query groups.
    """

    schedule: str
    version: str
    kernel: str
    target: str
    algorithm: str
    columns: tuple[str, ...]
    table: tuple[str, ...]
    constants: tuple[Constant, ...]
    ring_helper: bool
    allocations: tuple[str, ...]
    barriers: tuple[str, ...]
    consumers: int
    exclusive: bool
    walk: str
    order: str
    roles: tuple[RoleView, ...]
    budget: str
    warps: int
    dtype: str
    torch_dtype: str
    numbers: dict[str, int]
    groups: int
