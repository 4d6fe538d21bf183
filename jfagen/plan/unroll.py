"""Unroll a plan over a few tiles: events, and the orders that hold without any barrier."""

from __future__ import annotations

from ..algorithm import Engine
from ..semantics.program import GroupRef, NextTile, OpUse, RoleProgram
from .events import Actor, Event, EventKind, Site, Unrolled
from .sites import Plan


def unroll(plan: Plan, trips: tuple[int, ...]) -> Unrolled:
    """Return the events of tiles with these numbers of steps, run by every role in turn.

    A tile without steps takes no part in anything but the tile channel.
    """
    builder = _Builder(plan)
    program = plan.program
    for role_program in program.role_programs:
        for replica in range(role_program.role.replicas):
            builder.run_role(role_program, replica, trips)
    builder.connect_tile_channel(len(trips))
    return Unrolled(
        trips=trips,
        events=tuple(builder.events),
        order=tuple(builder.order),
        start=builder.start,
        end=builder.end,
        previous=builder.previous,
    )


def laps(role_program: RoleProgram, steps: int) -> range:
    """Return the laps of a role's loop so that every op runs for each of its steps."""
    offsets = [use.offset for use in role_program.loop]
    return range(-max(offsets), steps - min(offsets))


class _Builder:
    """Collects nodes and edges; one instance per unrolling."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.events: list[Event] = []
        self.order: list[tuple[int, int]] = []
        self.start: dict[tuple[Site, int, int], int] = {}
        self.end: dict[tuple[Site, int, int], int] = {}
        self.previous: dict[int, int] = {}
        self.asks: dict[int, int] = {}
        self.takes: dict[int, list[int]] = {}
        self.last = -1
        self.last_mma = -1

    def run_role(self, role_program: RoleProgram, replica: int, trips: tuple[int, ...]) -> None:
        """Append the events of one role instance in program order."""
        actor = Actor(role_program.role.name, replica)
        self.last, self.last_mma = -1, -1
        tiles = self.plan.program.tiles
        for tile, steps in enumerate(trips):
            asks = tiles.asker == actor.role
            if asks and not role_program.runs_ahead:
                self.asks[tile] = self._in_order(Event(EventKind.ASK, actor, tile, -1, None, None))
            if steps:
                self._run_tile(role_program, actor, tile, steps)
            if asks and role_program.runs_ahead:
                self.asks[tile] = self._in_order(Event(EventKind.ASK, actor, tile, -1, None, None))
            if tiles.next is NextTile.CLC:
                node = self._in_order(Event(EventKind.TAKE, actor, tile, -1, None, None))
                self.takes.setdefault(tile, []).append(node)

    def _run_tile(self, role_program: RoleProgram, actor: Actor, tile: int, steps: int) -> None:
        for use in role_program.before:
            self._run_op(use, actor, tile, -1)
        if role_program.loop:
            for lap in laps(role_program, steps):
                for use in role_program.loop:
                    if 0 <= lap + use.offset < steps:
                        self._run_op(use, actor, tile, lap + use.offset)
        for use in role_program.after:
            self._run_op(use, actor, tile, -1)

    def _run_op(self, use: OpUse, actor: Actor, tile: int, step: int) -> None:
        groups = (actor.replica,) if use.group_ref is GroupRef.REPLICA else use.groups or (-1,)
        for group in groups:
            for site in self.plan.sites[use.op.name, group]:
                self._run_site(use, actor, tile, step, site)

    def _run_site(self, use: OpUse, actor: Actor, tile: int, step: int, site: Site) -> None:
        key = (site, tile, step)
        engine = use.op.engine
        if engine is Engine.WARPS:
            node = self._in_order(Event(EventKind.ACT, actor, tile, step, site, use))
            self.start[key] = self.end[key] = node
            return
        issue = self._in_order(Event(EventKind.ISSUE, actor, tile, step, site, use))
        done = Event(EventKind.DONE, actor, tile, step, site, use)
        self.start[key] = issue
        if engine is Engine.STORE:
            self.end[key] = self._in_order(done)
            return
        self.events.append(done)
        self.end[key] = node = len(self.events) - 1
        self.order.append((issue, node))
        if engine is Engine.MMA:
            if self.last_mma >= 0:
                self.order.append((self.last_mma, node))
            self.last_mma = node

    def _in_order(self, event: Event) -> int:
        self.events.append(event)
        node = len(self.events) - 1
        if self.last >= 0:
            self.order.append((self.last, node))
            self.previous[node] = self.last
        self.last = node
        return node

    def connect_tile_channel(self, tiles: int) -> None:
        """Add the answers: asked in tile t, taken by every role at its end, once a tile."""
        for tile in range(tiles if self.asks else 0):
            ask = self.asks[tile]
            actor = self.events[ask].actor
            self.events.append(Event(EventKind.ANSWER, actor, tile, -1, None, None))
            answer = len(self.events) - 1
            self.order.append((ask, answer))
            self.order += [(answer, take) for take in self.takes[tile]]
            if tile:
                self.order += [(take, ask) for take in self.takes[tile - 1]]
