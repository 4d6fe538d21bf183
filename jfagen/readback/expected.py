"""The trace that a kernel's text must have, from the plan, the channels and the placement alone."""

from __future__ import annotations

from collections import defaultdict

from ..algorithm import Engine, Mode, Space
from ..emit.names import text_shape, tiles_name
from ..passes.channels import Arrival, Channel, End, SyncPlan, When
from ..planning import COPY, Drain, Move, Plan, Site, Touch, tile_moves
from ..proof.resources import rendezvous_barriers, turn_barriers
from ..semantics.program import GroupRef, NextTile, OpUse, Role, RoleProgram
from ..target import WARP_THREADS
from .trace import NAMED, Action, ActionKind, Region, RoleText, Signal


class ExpectedTrace:
    """Walks the plan for a few tiles, as the text's execution does."""

    def __init__(self, plan: Plan, sync: SyncPlan, trips: tuple[int, ...]) -> None:
        """Remember what is walked."""
        self.plan = plan
        self.program = plan.program
        self.sync = sync
        self.trips = trips
        self.ends: dict[tuple[Site, bool], list[tuple[Channel, End]]] = defaultdict(list)
        for channel in sync.channels:
            for signal, ends in ((False, channel.waits), (True, channel.signals)):
                for end in ends:
                    for site in channel.sites(end):
                        self.ends[site, signal].append((channel, end))
        self.actions: list[Action] = []
        self.tiles = self.steps = 0

    def roles(self) -> dict[RoleText, tuple[Action, ...]]:
        """Return what every role instance must do."""
        found: dict[RoleText, tuple[Action, ...]] = {}
        for role_program in self.program.role_programs:
            for replica in range(role_program.role.replicas):
                self.actions, self.tiles, self.steps = [], 0, 0
                self._walk(role_program, replica)
                found[role_text(role_program.role, replica)] = tuple(self.actions)
        return found

    def _walk(self, role_program: RoleProgram, replica: int) -> None:
        tiles, role = self.program.tiles, role_program.role
        asks = tiles.asker == role.name
        if role_program.takes_turns and replica == role.replicas - 1:
            self._turn(role, 0, ActionKind.HAND)
        for tile, steps in enumerate(self.trips):
            ask = Action(ActionKind.ASK, 0, value=tile & 1 ^ 1)
            if asks and not role_program.runs_ahead:
                self.actions.append(ask)
            if steps:
                self._tile(role_program, replica, steps)
                self.tiles, self.steps = self.tiles + 1, self.steps + steps
            else:
                self._globals(tuple(t for use in role_program.uses() for t in use.op.fills))
            if asks and role_program.runs_ahead:
                self.actions.append(ask)
            if tiles.next is NextTile.CLC:
                self.actions.append(Action(ActionKind.TAKE, 0, value=tile & 1))
        if role_program.takes_turns and not replica:
            self._turn(role, 0, ActionKind.MEET)
        if self.program.leaves_stores(role_program):
            self.actions.append(Action(ActionKind.DRAIN, 0))

    def _globals(self, tensors: tuple[str, ...], *, accumulates: bool = False) -> None:
        self.actions += [
            Action(ActionKind.GLOBAL, 0, tensor=tensor, accumulates=accumulates)
            for tensor in tensors
        ]

    def _tile(self, role_program: RoleProgram, replica: int, steps: int) -> None:
        for move in tile_moves(self.program, role_program, steps):
            if move.takes_turn:
                self._turn(role_program.role, replica, ActionKind.MEET)
            self._move(move, replica, steps)
            if move.passes_turn:
                self._turn(role_program.role, replica + 1, ActionKind.HAND)

    def _turn(self, role: Role, replica: int, kind: ActionKind) -> None:
        barriers = turn_barriers(self.program)
        assert barriers is not None
        signal = Signal(NAMED, barriers[replica % role.replicas])
        self.actions.append(Action(kind, 0, signal=signal, value=2 * role.warps * WARP_THREADS))

    def _meet(self, role: Role) -> None:
        """Enter the rendezvous of all warps of a role."""
        signal = Signal(NAMED, rendezvous_barriers(self.program, self.sync)[role.name])
        threads = role.warps * WARP_THREADS
        self.actions.append(Action(ActionKind.MEET, 0, signal=signal, value=threads))

    def _move(self, move: Move, replica: int, steps: int) -> None:
        joins = list(move.joins)
        drains: list[Drain] = []

        def wait(point: int) -> None:
            while joins and joins[0].point <= point:
                join = joins.pop(0)
                self.actions.append(Action(ActionKind.JOIN, 0, value=join.pending))
                for matmul in self._sites(join.use, replica):
                    self._signals(matmul, join.step, steps, ActionKind.ARRIVE)
            while drains and drains[0].point <= point:
                drain = Action(ActionKind.DRAIN, 0, value=drains.pop(0).pending)
                self.actions.append(drain)

        for group in self._groups(move.use, replica):
            drains = list(move.drains)
            for site in self.plan.sites[move.use.op.name, group]:
                wait(site.point)
                self._site(move, site, steps)
        if (handed := move.hands) is not None:
            for site in self._sites(handed.use, replica):
                if site.point == handed.point:
                    self._signals(site, handed.step, steps, ActionKind.ARRIVE)
        wait(len(move.use.op.points))
        if move.use.op.engine is Engine.WARPS and not move.use.op.adds:
            for _ in self._groups(move.use, replica):
                self._globals(move.use.op.stored)

    def _groups(self, use: OpUse, replica: int) -> tuple[int, ...]:
        return (replica,) if use.group_ref is GroupRef.REPLICA else use.groups or (-1,)

    def _sites(self, use: OpUse, replica: int) -> list[Site]:
        groups = self._groups(use, replica)
        return [site for group in groups for site in self.plan.sites[use.op.name, group]]

    def _site(self, move: Move, site: Site, steps: int) -> None:
        use, step = move.use, move.step
        touches = self.plan.touches[site]
        for channel, end in self._ends(site, step, steps, signal=False):
            number = self._number(channel, end, step) - channel.lag
            parity = number // channel.slots & 1
            signal = self._signal(channel, site, number)
            self.actions.append(Action(ActionKind.WAIT, 0, signal=signal, value=parity))
        if site in self.sync.rendezvous:
            self._meet(self.plan.at(site).role)
        reads = tuple(self._region(t, step) for t in touches if t.mode is Mode.READ)
        writes = tuple(
            self._region(t, step)
            for t in touches
            if t.mode is not Mode.READ and step >= t.first_step - (step < 0)
        )
        engine = self.plan.engine(site)
        match engine:
            case Engine.LOAD:
                for channel, end in self._ends(site, step, steps, signal=True):
                    signal = self._signal(channel, site, self._number(channel, end, step))
                    size = channel.bytes[channel.buffers.index(touches[0].buffer)]
                    expect = Action(ActionKind.EXPECT, 0, signal=signal, value=size)
                    self.actions += [
                        expect,
                        Action(ActionKind.LOAD, 0, signal=signal, writes=writes),
                    ]
                return
            case Engine.STORE:
                adds = use.op.adds
                self.actions.append(Action(ActionKind.STORE, 0, reads=reads, accumulates=adds))
                if not adds and not self.program.lingers(use):
                    self.actions.append(Action(ActionKind.DRAIN, 0))
            case Engine.MMA if self.program.joins(use.op):
                if move.hands is not None:
                    self.actions.append(Action(ActionKind.FENCE, 0, tensor="async_shared"))
                # One multiplication for each group of which it reads, a pair of tiles each.
                count = self.program.multiplications(use.op)
                for number in range(count):
                    pair = reads[number::count] if count > 1 else reads
                    self.actions.append(Action(ActionKind.MMA, 0, reads=pair, joined=True))
                return
            case Engine.MMA:
                accumulates = any(
                    t.mode is Mode.UPDATE and (site.slice or step >= t.first_read) for t in touches
                )
                self.actions.append(
                    Action(
                        ActionKind.MMA, 0, reads=reads, writes=writes, accumulates=bool(accumulates)
                    )
                )
            case Engine.WARPS:
                self._warps(use, site, reads, writes, step, fenced=site.point != move.withheld)
                if site.point == move.withheld:
                    return
        kind = ActionKind.COMMIT if engine is Engine.MMA else ActionKind.ARRIVE
        self._signals(site, step, steps, kind)

    def _signals(self, site: Site, step: int, steps: int, kind: ActionKind) -> None:
        for channel, end in self._ends(site, step, steps, signal=True):
            signal = self._signal(channel, site, self._number(channel, end, step))
            value = int(kind is ActionKind.ARRIVE)
            self.actions.append(Action(kind, 0, signal=signal, value=value))

    def _warps(
        self,
        use: OpUse,
        site: Site,
        reads: tuple[Region, ...],
        writes: tuple[Region, ...],
        step: int,
        *,
        fenced: bool,
    ) -> None:
        updates = tuple(
            self._region(t, step)
            for t in self.plan.touches[site]
            if t.mode is Mode.UPDATE and step >= t.first_step
        )
        self.actions += [Action(ActionKind.READ, 0, reads=(r,)) for r in reads + updates]
        if use.staging is not None and site.point == COPY:
            pending = self.program.pending(use.staging)
            self.actions.append(Action(ActionKind.DRAIN, 0, value=pending))
        self.actions += [Action(ActionKind.WRITE, 0, writes=(w,)) for w in writes]
        if use.op.adds:
            self._globals(use.op.stored, accumulates=True)
        if fenced and site in self.sync.fences:
            self.actions.append(Action(ActionKind.FENCE, 0, tensor="async_shared"))

    def _ends(
        self, site: Site, step: int, steps: int, *, signal: bool
    ) -> list[tuple[Channel, End]]:
        """Return the ends that take part in this step of a site."""
        return [
            (channel, end)
            for channel, end in self.ends.get((site, signal), ())
            if (end.when is not When.FIRST or step == 0)
            and (end.when is not When.LAST or step == steps - 1)
        ]

    def _number(self, channel: Channel, end: End, step: int) -> int:
        if channel.per is Space.TILE:
            return self.tiles
        return channel.rate * (self.steps + step) + end.position

    def _signal(self, channel: Channel, site: Site, number: int) -> Signal:
        group = site.group if len(channel.groups) > 1 else 0
        piece = site.slice if channel.slices > 1 else 0
        index = (group * channel.slots + number % channel.slots) * channel.slices + piece
        return Signal(channel.name, index)

    def _region(self, touch: Touch, step: int) -> Region:
        buffer = self.program.buffer(touch.buffer)
        rate = self.program.uses_per_tile_step(buffer)
        use = self.tiles
        if rate:
            use = rate * (self.steps + step) + touch.turn
        copy = max(touch.group, 0) * buffer.depth + use % buffer.depth
        width = text_shape(buffer)[-1]
        part = width // buffer.slices if touch.slice >= 0 else width
        start = max(touch.slice, 0) * part
        return Region(tiles_name(buffer.name), copy, start, start + part)


def role_text(role: Role, replica: int) -> RoleText:
    """Return how a role instance must be declared."""
    return RoleText(
        name=role.name,
        replica=replica,
        warps=0 if role.default else role.warps,
        registers=role.registers,
    )


def expected_barriers(sync: SyncPlan) -> dict[str, tuple[int, int, bool]]:
    """Return for every array of barriers: number, count, and whether threads arrive."""
    return {
        channel.name: (channel.barriers, channel.arrivals, channel.arrival is Arrival.THREADS)
        for channel in sync.channels
    }
