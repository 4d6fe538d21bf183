"""Unroll a plan over a few tiles: events, and the orders that hold without any barrier."""

from __future__ import annotations

from itertools import pairwise

from ..algorithm import Engine
from ..semantics.program import GroupRef, NextTile, OpUse, RoleProgram
from .events import Actor, Event, EventKind, Site, Unrolled
from .move import COPY, Move
from .moves import tile_moves
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
        builder.connect_turns(role_program.role.name)
    builder.connect_tile_channel(len(trips))
    return Unrolled(
        trips=trips,
        events=tuple(builder.events),
        order=tuple(builder.order),
        start=builder.start,
        end=builder.end,
        handed=builder.handed,
        previous=builder.previous,
        turns=builder.turns,
    )


class _Builder:
    """Collects nodes and edges; one instance per unrolling."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.events: list[Event] = []
        self.order: list[tuple[int, int]] = []
        self.start: dict[tuple[Site, int, int], int] = {}
        self.end: dict[tuple[Site, int, int], int] = {}
        self.handed: dict[tuple[Site, int, int], int] = {}
        self.previous: dict[int, int] = {}
        self.asks: dict[int, int] = {}
        self.takes: dict[int, list[int]] = {}
        self.turns: dict[str, list[list[tuple[int, int]]]] = {}
        self.last = -1
        self.last_mma = -1
        self.stores: list[Event] = []

    def run_role(self, role_program: RoleProgram, replica: int, trips: tuple[int, ...]) -> None:
        """Append the events of one role instance in program order."""
        actor = Actor(role_program.role.name, replica)
        self.turns.setdefault(actor.role, []).append([])
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
        self._drain(0)

    def _run_tile(self, role_program: RoleProgram, actor: Actor, tile: int, steps: int) -> None:
        taken = -1
        for move in tile_moves(self.plan.program, role_program, steps):
            if move.takes_turn:
                taken = self._in_order(Event(EventKind.TURN, actor, tile, -1, None, None))
            self._run_move(move, actor, tile)
            if move.passes_turn:
                passed = self._in_order(Event(EventKind.PASS, actor, tile, -1, None, None))
                self.turns[actor.role][actor.replica].append((taken, passed))

    def _run_move(self, move: Move, actor: Actor, tile: int) -> None:
        joins, drains = list(move.joins), list(move.drains)

        def wait(point: int) -> None:
            while joins and joins[0].point <= point:
                join = joins.pop(0)
                for matmul in self._sites(join.use, actor):
                    self._join(join.use, actor, tile, join.step, matmul)
            while drains and drains[0].point <= point:
                self._drain(drains.pop(0).pending)

        for site in self._sites(move.use, actor):
            wait(site.point)
            self._run_site(move.use, actor, tile, move.step, site)
        if (handed := move.hands) is not None:
            for site in self._sites(handed.use, actor):
                if site.point == handed.point:
                    self.handed[site, tile, handed.step] = self.last
        wait(len(move.use.op.points))

    def _sites(self, use: OpUse, actor: Actor) -> list[Site]:
        groups = (actor.replica,) if use.group_ref is GroupRef.REPLICA else use.groups or (-1,)
        return [site for group in groups for site in self.plan.sites[use.op.name, group]]

    def _join(self, use: OpUse, actor: Actor, tile: int, step: int, site: Site) -> None:
        """Append the role's wait for a matmul that it issued."""
        key = (site, tile, step)
        node = self._in_order(Event(EventKind.DONE, actor, tile, step, site, use))
        self.order.append((self.start[key], node))
        self.end[key] = node

    def _run_site(self, use: OpUse, actor: Actor, tile: int, step: int, site: Site) -> None:
        key = (site, tile, step)
        engine = self.plan.engine(site)
        if engine is Engine.WARPS:
            if use.staging is not None and site.point == COPY:
                self._drain(self.plan.program.pending(use.staging))
            node = self._in_order(Event(EventKind.ACT, actor, tile, step, site, use))
            self.start[key] = self.end[key] = node
            return
        issue = self._in_order(Event(EventKind.ISSUE, actor, tile, step, site, use))
        self.start[key] = issue
        if self.plan.program.joins(use.op):
            return
        done = Event(EventKind.DONE, actor, tile, step, site, use)
        if engine is Engine.STORE:
            self.stores.append(done)
            if use.staging is None and not self.plan.program.lingers(use):
                self._drain(0)
            return
        self.events.append(done)
        self.end[key] = node = len(self.events) - 1
        self.order.append((issue, node))
        if engine is Engine.MMA:
            if self.last_mma >= 0:
                self.order.append((self.last_mma, node))
            self.last_mma = node

    def _drain(self, pending: int) -> None:
        """Let the role wait until all of its stores but the last few have read their tiles."""
        while len(self.stores) > pending:
            done = self.stores.pop(0)
            assert done.site is not None
            key = (done.site, done.tile, done.step)
            self.end[key] = node = self._in_order(done)
            self.order.append((self.start[key], node))

    def _in_order(self, event: Event) -> int:
        self.events.append(event)
        node = len(self.events) - 1
        if self.last >= 0:
            self.order.append((self.last, node))
            self.previous[node] = self.last
        self.last = node
        return node

    def connect_turns(self, role: str) -> None:
        """Add the order of turns: replica after replica, and round again."""
        replicas = self.turns[role]
        for number, turn in enumerate(zip(*replicas, strict=True)):
            for (_, passed), (taken, _) in pairwise(turn):
                self.order.append((passed, taken))
            if number + 1 < len(replicas[0]):
                self.order.append((turn[-1][1], replicas[0][number + 1][0]))

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
