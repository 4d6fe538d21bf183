"""Orders that cannot be: which op stands before which, and what makes the first wait for it.

Dependences only lead forward in the sequential program, so a cycle has a role that runs two ops
the other way round. The diagnostic says which, and follows the dependences from one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from ..algorithm import Engine, Mode
from ..diagnostics import Diagnostic, Label, Note, count, moved, put
from ..passes.dependences import Dependence, sequential_key
from ..passes.needed import Illegal, needed_families
from ..passes.placement import place
from ..planning import Event, EventKind, Plan, Site, make_plan
from ..semantics.program import Buffer, OpUse, Program
from .refit import legal_placement

#: How many more slots are tried when a deeper ring may help.
MORE_SLOTS = 3


@dataclass(frozen=True, slots=True)
class _Hop:
    """One dependence of a cycle, from the end of one stretch of a role to the start of another."""

    first: Event
    second: Event
    dependence: Dependence | None


def order_cycle(plan: Plan, illegal: Illegal) -> Diagnostic:
    """Return the diagnostic for an order of ops whose dependences run in a circle."""
    hops = _turned(plan, _hops(plan, illegal))
    runs_first, runs_later = hops[-1].second, hops[0].first
    assert runs_first.use is not None and runs_later.use is not None
    say = _Words(runs_first, plan.program)
    role = runs_first.actor.role
    return Diagnostic(
        id="order-cycle",
        message=f"`{role}` runs {say(runs_first)} before {say(runs_later)}, but "
        f"{say(runs_later)} has to come first",
        label=Label(span=runs_first.use.span, message=f"has to wait for {say(runs_later)}"),
        notes=(*_notes(say, hops), *_circle(hops)),
        helps=_helps(plan, say, hops),
    )


# ---- The cycle ---------------------------------------------------------------------------------


def _hops(plan: Plan, illegal: Illegal) -> list[_Hop]:
    """Return the dependences of the shortest cycle among the events of the one that was found."""
    events, cycle = illegal.unrolled.events, illegal.cycle
    # Of several dependences between two ops, one on a single buffer says most.
    plainest = sorted(illegal.dependences, key=lambda d: d.earlier.buffer == d.later.buffer)
    by_sites: dict[tuple[Site | None, Site | None], Dependence] = {
        (found.first[0], found.second[0]): found for found in plainest
    }
    nodes = list(dict.fromkeys(cycle))
    costs: dict[int, dict[int, int]] = {node: {} for node in nodes}
    for one in nodes:
        for other in nodes:
            if one != other and _in_order(plan, events, one, other):
                costs[one][other] = 1
    for one, other in pairwise([*cycle, cycle[0]]):
        costs[one].setdefault(other, len(nodes))
    tight = min((_around(costs, node) for node in nodes), key=lambda found: found[0])[1]
    hops: list[_Hop] = []
    for one, other in pairwise([*tight, tight[0]]):
        if costs[one][other] > 1:
            first, second = events[one], events[other]
            sites = (first.site, second.site)
            hops.append(_Hop(first, second, by_sites.get(sites)))
    return hops


def _in_order(plan: Plan, events: tuple[Event, ...], one: int, other: int) -> bool:
    """Whether program order alone puts one event before another."""
    first, second = events[one], events[other]
    if first.actor != second.actor or one > other or EventKind.ANSWER in (first.kind, second.kind):
        return False
    if not _is_later(plan, first):
        return True
    return _is_mma(plan, first) and _is_later(plan, second) and _is_mma(plan, second)


def _is_later(plan: Plan, event: Event) -> bool:
    """Whether an event is the completion of something asynchronous."""
    joined = event.site is not None and plan.joins(event.site)
    return event.kind is EventKind.DONE and not joined


def _is_mma(plan: Plan, event: Event) -> bool:
    return event.site is not None and plan.engine(event.site) is Engine.MMA


def _around(costs: dict[int, dict[int, int]], start: int) -> tuple[int, list[int]]:
    """Return the cheapest way from a node back to itself: its cost and its nodes."""
    best: dict[int, tuple[int, list[int]]] = {start: (0, [start])}
    waiting = [start]
    back: tuple[int, list[int]] | None = None
    while waiting:
        node = waiting.pop(0)
        cost, path = best[node]
        for following, step in costs[node].items():
            if following == start:
                if back is None or cost + step < back[0]:
                    back = (cost + step, path)
            elif following not in best or cost + step < best[following][0]:
                best[following] = (cost + step, [*path, following])
                waiting.append(following)
    assert back is not None, "every node of the cycle leads back to itself"
    return back


def _turned(plan: Plan, hops: list[_Hop]) -> list[_Hop]:
    """Return the hops so that the last one ends and the first one starts in the role to blame."""
    for index in range(len(hops)):
        turned = hops[index:] + hops[:index]
        if _later(plan, turned[-1].second, turned[0].first):
            return turned
    return hops


def _later(plan: Plan, first: Event, second: Event) -> bool:
    """Whether an event comes after another in the sequential program."""
    if first.site is None or second.site is None:
        return False
    return _place(plan, first, first.site) > _place(plan, second, second.site)


def _place(plan: Plan, event: Event, site: Site) -> tuple[int, ...]:
    phase, index = sequential_key(plan.program.algorithm)[site.op]
    return (event.tile, phase, event.step, index, site.group, plan.place(site))


# ---- Its words ---------------------------------------------------------------------------------


class _Words:
    """Names events as a schedule does, relative to the step of one of them."""

    def __init__(self, base: Event, program: Program) -> None:
        assert base.use is not None
        self.symbol = program.loop_symbol
        self.grouped = program.tile.groups > 1
        self.tile = base.tile
        self.lap = base.step - base.use.offset if base.step >= 0 else 0
        self.steps = base.step >= 0

    def __call__(self, event: Event) -> str:
        if event.site is None:
            return f"the next tile of `{event.actor.role}`"
        group = f"[{event.site.group}]" if event.site.group >= 0 and self.grouped else ""
        step, tile = "", ""
        if event.step >= 0 and self.steps and event.tile == self.tile:
            distance = event.step - self.lap
            step = f"[{self.symbol}{distance:+d}]" if distance else f"[{self.symbol}]"
        if event.tile != self.tile:
            tile = " of the next tile" if event.tile > self.tile else " of the tile before"
        return f"`{event.site.op}{group}{step}`{tile}"


def _notes(say: _Words, hops: list[_Hop]) -> list[Note]:
    """Return one note for each dependence, with the place of the op that comes first."""
    notes: list[Note] = []
    for index, hop in enumerate(hops):
        words = _reason(say, hop)
        following = hops[index + 1].first if index + 1 < len(hops) else None
        if following is not None and say(following) != say(hop.second):
            words += f", and `{following.actor.role}` runs it before {say(following)}"
        label = Label(span=hop.first.use.span) if hop.first.use else None
        notes.append(Note(message=words, label=label))
    return notes


def _circle(hops: list[_Hop]) -> list[Note]:
    """Return the cycle as role -> barrier -> role, where it goes through more than one role."""
    words = [f"`{hops[0].first.actor.role}`"]
    for hop in hops:
        if hop.first.actor == hop.second.actor:
            continue
        words += [f"`{_barrier(hop)}`", f"`{hop.second.actor.role}`"]
    return [Note(message=f"the circle: {' -> '.join(words)}")] if len(words) > 1 else []


def _barrier(hop: _Hop) -> str:
    """Return what the barrier of a dependence would be called."""
    found = hop.dependence
    if found is None:
        return "next_tile"
    earlier, later = found.earlier, found.later
    if earlier.mode is not Mode.READ and _reads(hop.second, earlier.value):
        return f"{earlier.buffer}_full"
    if earlier.buffer == later.buffer and earlier.mode is Mode.READ and later.mode is Mode.WRITE:
        return f"{later.buffer}_empty"
    return f"{found.later.buffer}_after_{found.first[0].op}"


def _reason(say: _Words, hop: _Hop) -> str:
    first, second, found = say(hop.first), say(hop.second), hop.dependence
    if found is None:
        return f"{second} comes after {first}"
    earlier, later = found.earlier, found.later
    if earlier.mode is not Mode.READ and _reads(hop.second, earlier.value):
        return f"{second} reads `{earlier.value}`, which {first} writes"
    if earlier.buffer != later.buffer:
        verb = "read" if earlier.mode is Mode.READ else "write"
        return (
            f"{first} has to {verb} `{earlier.value}` before {second} overwrites it with "
            f"`{later.value}`"
        )
    if later.mode is Mode.READ:
        return f"{second} reads `{later.value}`, which {first} writes"
    if earlier.mode is Mode.READ and later.mode is Mode.WRITE:
        return f"{second} fills the slot of `{earlier.buffer}` from which {first} reads"
    return f"{second} {later.mode}s `{later.value}` after {first}"


def _reads(event: Event, value: str) -> bool:
    """Whether the op of an event reads a value, at whichever of its points."""
    accesses = event.use.op.accesses() if event.use else ()
    return any(access.value == value and access.mode is Mode.READ for access in accesses)


# ---- Its helps ---------------------------------------------------------------------------------


def _helps(plan: Plan, say: _Words, hops: list[_Hop]) -> tuple[str, ...]:
    runs_first, runs_later = hops[-1].second, hops[0].first
    assert runs_first.use is not None and runs_later.use is not None
    closer, deeper = _closer(plan, say, runs_first, runs_later), _deeper(plan, hops)
    # A first step of several is only said where nothing else helps.
    alone = deeper and not _is_legal(plan, runs_first, runs_first.use, runs_later.use)
    helps = deeper if alone else [*closer, *deeper]
    return tuple(helps) or ("place the ops in the order in which data flows",)


def _closer(plan: Plan, say: _Words, runs_first: Event, runs_later: Event) -> list[str]:
    """Say where the op that runs too late should stand, or for which step it should run."""
    one, other = runs_first.use, runs_later.use
    assert one is not None and other is not None
    if runs_first.tile != runs_later.tile or (runs_first.step < 0) != (runs_later.step < 0):
        return []
    laps = (runs_later.step - other.offset) - (runs_first.step - one.offset)
    stands_before = _index(plan, runs_later, other) < _index(plan, runs_first, one)
    if not laps and one is other:
        return []
    if not laps:
        words = f"place {say(runs_later)} before {say(runs_first)}"
        return [moved(words, other.whole, one.whole, before=True)]
    offset = other.offset + laps
    head = other.span.text.rsplit("[", 1)[0]
    written = other.at(plan.program.loop_symbol, offset)
    words = f"let `{head}` run closer: write `{written}`"
    if stands_before:
        return [put(words, other.span, written)]
    words += f", before `{one.span.text}`"
    whole = other.whole if other.whole == other.span else None
    return [moved(words, whole, one.whole, before=True, text=written)]


def _is_legal(plan: Plan, event: Event, one: OpUse, other: OpUse) -> bool:
    """Whether the order is right once an op stands before another one of its role."""
    program = plan.program
    role_program = program.program_of(event.actor.role)
    if one not in role_program.loop or other not in role_program.loop:
        return True
    rest = [use for use in role_program.loop if use is not other]
    at = next(index for index, use in enumerate(rest) if use is one)
    changed = replace(role_program, loop=(*rest[:at], other, *rest[at:]))
    programs = tuple(changed if old is role_program else old for old in program.role_programs)
    return legal_placement(replace(program, role_programs=programs)) is not None


def _index(plan: Plan, event: Event, use: OpUse) -> int:
    uses = plan.program.program_of(event.actor.role).uses()
    return next(index for index, other in enumerate(uses) if other is use)


def _deeper(plan: Plan, hops: list[_Hop]) -> list[str]:
    """Return the depth that makes the order legal and fits, for a ring that is filled too soon."""
    for hop in hops:
        found = hop.dependence
        if found is None or found.earlier.buffer != found.later.buffer:
            continue
        buffer = plan.program.buffer(found.earlier.buffer)
        if found.earlier.mode is not Mode.READ or found.later.mode is not Mode.WRITE:
            continue
        for depth in range(buffer.depth + 1, buffer.depth + 1 + MORE_SLOTS):
            if _is_enough(plan, buffer, depth):
                words = f"give `{buffer.name}` a depth of {depth}"
                return [count(words, buffer.declared, "depth", depth)]
    return []


def _is_enough(plan: Plan, buffer: Buffer, depth: int) -> bool:
    program = plan.program
    if any(buffer.name in _names(region.tree) for region in program.regions):
        return False
    buffers = tuple(replace(b, depth=depth) if b is buffer else b for b in program.buffers)
    changed = make_plan(replace(program, buffers=buffers))
    placement = place(changed)
    fits = (
        placement.smem_bytes <= program.target.smem_bytes
        and placement.columns <= program.target.tmem_columns
    )
    return fits and not isinstance(needed_families(changed, placement.layout), Illegal)


def _names(tree: object) -> set[str]:
    name = getattr(tree, "buffer", None)
    if name is not None:
        return {name}
    return {found for part in getattr(tree, "parts", ()) for found in _names(part)}
