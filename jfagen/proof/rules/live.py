"""live: no deadlock, for any number of steps and tiles.

What: tiles of 0, 1 and N steps in every order of two, (N, 0, N), (1, 1, 1) and short tiles give an
order without a cycle in which every phase that is awaited is completed; in the endless loop no
cycle of program order and barriers stands still (no cycle of weight at most 0 in the marked graph).

Why: a kernel that hangs takes the GPU with it and says nothing.

Example: with a ring of one slot for k and v, `load_v[i]` waits until `qk[i]` has freed the slot; if
the matmuls run `pv[i]` first, both wait for ever.

Fix: a deeper ring on the cycle, or an op a step later; the diagnostic names one that was tried.

Assumes: N, the largest lag plus the largest depth plus one, shows every order of the loop; all
roles see the same number of steps.
"""

from __future__ import annotations

from itertools import pairwise

from ...algorithm import Engine, Space
from ...diagnostics import Diagnostic, Label
from ...graph.closure import find_cycle, has_cycle_without_progress
from ...passes.channels import Arrival, Channel
from ...planning import Plan, Site, tile_moves
from ...semantics.program import GroupRef, OpUse, Role, RoleProgram
from ..subject import Subject
from ..witness import deadlock, trips_words

ID = "live"
PROVES = "no deadlock for any trip counts and any number of tiles"

Marked = tuple[str, str, int]


def check(subject: Subject) -> list[Diagnostic]:
    """Return the shortest deadlock found, or nothing."""
    plan, sync = subject.plan, subject.sync
    for channel in sync.channels:
        if found := _wrong_bytes(plan, channel):
            return found
    for realized in subject.realized:
        for waiting in realized.waits:
            channel = sync.channels[waiting.completion[0]]
            if waiting.completion[3] >= 0 and waiting.completion not in realized.completions:
                return [_never_signalled(plan, channel, realized.unrolled.trips)]
        if realized.closure is None:
            return [deadlock(plan, sync, realized, find_cycle(realized.edges))]
    if has_cycle_without_progress(steady_edges(subject)):
        span = plan.program.loop_span
        return [
            Diagnostic(
                id="deadlock",
                message="the endless loop stops: its roles wait for each other in one step",
                label=Label(span=span),
                helps=("make a ring deeper, or move an op to a later step",),
            )
        ]
    return []


def _wrong_bytes(plan: Plan, channel: Channel) -> list[Diagnostic]:
    """A phase that expects other bytes than its load brings is never complete, or too early."""
    for end in channel.signals if channel.arrival is Arrival.BYTES else ():
        buffer = plan.program.buffer(plan.touches[end.site][0].buffer)
        expected, loaded = channel.bytes[channel.buffers.index(buffer.name)], buffer.bytes
        if loaded != expected:
            load = plan.at(end.site).use
            return [
                Diagnostic(
                    id="deadlock",
                    message=f"`{channel.name}` expects {expected:,} bytes, `{load.op.name}` "
                    f"brings {loaded:,}",
                    label=Label(span=load.span),
                )
            ]
    return []


def _never_signalled(plan: Plan, channel: Channel, trips: tuple[int, ...]) -> Diagnostic:
    waiter = plan.at(channel.waits[0].site)
    return Diagnostic(
        id="deadlock",
        message=f"`{waiter.use.op.name}` waits for `{channel.name}`, which nobody completes: "
        f"seen with {trips_words(trips)}",
        label=Label(span=waiter.use.span),
    )


def steady_edges(subject: Subject) -> list[Marked]:
    """Return the marked graph of the endless loop: (event, event, iteration distance)."""
    plan = subject.plan
    edges: list[Marked] = []
    for role_program in plan.program.role_programs:
        for replica in range(role_program.role.replicas):
            chain = _steady_lap(plan, role_program, replica)
            edges += [
                (first, second, after - before)
                for (first, before), (second, after) in pairwise(chain)
            ]
            if chain:
                (first, after), (last, before) = chain[0], chain[-1]
                edges.append((last, first, after - before + 1))
        if role_program.turns:
            edges += _turns(role_program.role, role_program.turns)
    edges += _asynchronous(plan)
    known = {event for edge in edges for event in edge[:2]}
    for channel in subject.sync.channels:
        if channel.per is Space.STEP:
            edges += _channel_edges(plan, channel, known)
    return edges


def _steady_lap(plan: Plan, role_program: RoleProgram, replica: int) -> list[tuple[str, int]]:
    """Return what a role does in one lap of the endless loop: (event, its step in lap 0)."""
    offsets = [use.offset for use in role_program.loop]
    if not offsets:
        return []
    span = max(offsets) - min(offsets)
    around = tile_moves(plan.program, role_program, 2 * span + 3).laps
    lap = min(around) + span + 1
    name = role_program.role.name
    chain: list[tuple[str, int]] = []
    turns = 0
    for move in around[lap]:
        if move.takes_turn:
            chain.append((_turn(name, replica, turns), 0))
        joins = list(move.joins)
        for site in _sites(plan, move.use, replica):
            while joins and joins[0].point <= site.point:
                join = joins.pop(0)
                matmuls = _sites(plan, join.use, replica)
                chain += [(_done(plan, matmul), join.step - lap) for matmul in matmuls]
            chain.append((_name(site), move.step - lap))
            if plan.engine(site) is Engine.STORE and move.use.staging is None:
                chain.append((_done(plan, site), move.step - lap))
        if (handed := move.hands) is not None:
            sites = _sites(plan, handed.use, replica)
            chain += [
                (_handed(site), handed.step - lap) for site in sites if site.point == handed.point
            ]
        for join in joins:
            matmuls = _sites(plan, join.use, replica)
            chain += [(_done(plan, matmul), join.step - lap) for matmul in matmuls]
        if move.passes_turn:
            chain.append((f"{_turn(name, replica, turns)} passed", 0))
            turns += 1
    return chain


def _turn(role: str, replica: int, number: int) -> str:
    return f"turn {number} of {role}[{replica}]"


def _turns(role: Role, count: int) -> list[Marked]:
    """Return the order of a lap's turns: each of all replicas, and round again one lap later."""
    order = [_turn(role.name, r, number) for number in range(count) for r in range(role.replicas)]
    return [
        (f"{before} passed", after, int(after == order[0]))
        for before, after in pairwise([*order, order[0]])
    ]


def _sites(plan: Plan, use: OpUse, replica: int) -> list[Site]:
    groups = (replica,) if use.group_ref is GroupRef.REPLICA else use.groups or (-1,)
    return [site for group in groups for site in plan.sites[use.op.name, group]]


def _name(site: Site) -> str:
    return f"{site.op}[{site.group}].{site.point}.{site.slice}"


def _done(plan: Plan, site: Site) -> str:
    return _name(site) + ("" if plan.engine(site) is Engine.WARPS else " done")


def _asynchronous(plan: Plan) -> list[Marked]:
    edges: list[Marked] = []
    for role_program in plan.program.role_programs:
        for replica in range(role_program.role.replicas):
            chain: list[tuple[str, int]] = []
            for use in role_program.loop:
                for site in _sites(plan, use, replica):
                    if plan.engine(site) is not Engine.WARPS:
                        edges.append((_name(site), _done(plan, site), 0))
                    if use.op.engine is Engine.MMA:
                        chain.append((_done(plan, site), use.offset))
            edges += [
                (first, second, after - before)
                for (first, before), (second, after) in pairwise(chain)
            ]
    return edges


def _handed(site: Site) -> str:
    return f"{_name(site)} handed on"


def _channel_edges(plan: Plan, channel: Channel, known: set[str]) -> list[Marked]:
    """Return signal -> wait for every pair of uses; a step makes `rate` uses."""
    edges: list[Marked] = []
    for signal in channel.signals:
        for wait in channel.waits:
            behind = wait.position - channel.lag - signal.position
            if behind % channel.rate or (
                channel.slices > 1 and signal.site.slice != wait.site.slice
            ):
                continue
            weight = -behind // channel.rate
            edges += [
                (
                    _handed(first) if _handed(first) in known else _done(plan, first),
                    _name(second),
                    weight,
                )
                for first, second in zip(channel.sites(signal), channel.sites(wait), strict=True)
            ]
    return edges
