"""Witnesses: what is wrong with an order or an overlap, in the words and lines of the schedule."""

from __future__ import annotations

from ..diagnostics import Diagnostic, Label, Note, count, drop, quoted
from ..passes.channels import SyncPlan
from ..passes.dependences import Clobber
from ..passes.layout import size_in
from ..passes.needed import Illegal
from ..planning import Event, EventKind, Plan, Touch
from ..semantics.program import OpUse
from ..semantics.regions import Region, leaves
from .cycle import order_cycle
from .realize import Realized


def illegal_order(plan: Plan, illegal: Illegal) -> Diagnostic:
    """Return the diagnostic for a layout or an order of ops that no barrier can mend."""
    if not illegal.clobbers:
        return order_cycle(plan, illegal)
    clobber = illegal.clobbers[0]
    if clobber.found is None:
        return _never_written(plan, clobber)
    if clobber.found.buffer == clobber.touch.buffer:
        return _shallow_ring(plan, clobber, clobber.found)
    return _overwritten(plan, clobber, clobber.found)


def _never_written(plan: Plan, clobber: Clobber) -> Diagnostic:
    reader = plan.at(clobber.reader[0]).use
    value = clobber.touch.value
    writers = quoted(op.name for op in plan.program.algorithm.writers(value))
    return Diagnostic(
        id="never-written",
        message=f"`{reader.op.name}` reads `{value}` before anything has written it",
        label=Label(span=reader.span),
        helps=(f"{writers} writes it",),
    )


def _shallow_ring(plan: Plan, clobber: Clobber, found: Touch) -> Diagnostic:
    """Return the diagnostic for a ring whose slot is filled again before it was read."""
    buffer = plan.program.buffer(found.buffer)
    reader, writer = plan.at(clobber.reader[0]).use, _writer(plan, found)
    slots = f"{buffer.depth} slot" + ("s" if buffer.depth > 1 else "")
    depth = max(buffer.depth + 1, len(buffer.holds))
    return Diagnostic(
        id="shallow-ring",
        message=f"`{buffer.name}` has {slots}: `{found.value}` overwrites `{clobber.touch.value}` "
        f"before `{reader.op.name}` has read it",
        label=Label(span=buffer.span, message=slots),
        notes=(
            Note(
                message=f"`{writer.op.name}` writes `{found.value}` here",
                label=Label(span=writer.span),
            ),
            Note(
                message=f"`{reader.op.name}` still needs `{clobber.touch.value}` here",
                label=Label(span=reader.span),
            ),
        ),
        helps=(count(f"write `depth {depth}`", buffer.declared, "depth", depth),),
    )


def _overwritten(plan: Plan, clobber: Clobber, found: Touch) -> Diagnostic:
    """Return the diagnostic for a buffer that another one overwrites while it is alive."""
    reader, writer = plan.at(clobber.reader[0]).use, _writer(plan, found)
    mine, theirs = clobber.touch.buffer, found.buffer
    regions = [r for r in plan.program.regions if {mine, theirs} <= _members(r)]
    shared = [leaf for r in regions for leaf in leaves(r.tree) if leaf.buffer == theirs]
    return Diagnostic(
        id="overlap-live",
        message=f"`{writer.op.name}` overwrites `{mine}` with `{found.value}` while "
        f"`{reader.op.name}` still needs it",
        label=Label(span=reader.span, message=f"reads `{clobber.touch.value}`"),
        notes=(
            Note(
                message=f"`{writer.op.name}` writes `{found.value}` before that",
                label=Label(span=writer.span),
            ),
            *(
                Note(
                    message=f"`{theirs}` takes the place of `{mine}` here",
                    label=Label(span=leaf.span),
                )
                for leaf in shared
            ),
        ),
        helps=tuple(help for region in regions for help in _apart(plan, region, mine, theirs)),
    )


def _apart(plan: Plan, region: Region, one: str, other: str) -> list[str]:
    """Return how to keep two buffers of a region apart."""
    if len(_members(region)) == 2:
        return [drop(f"drop `region {region.name}`", region.whole)]
    sizes = {name: size_in(plan.program.buffer(name)) for name in _members(region)}
    helps = [f"take `{one}` or `{other}` out of `region {region.name}`"]
    if sizes[one] + sizes[other] <= max(sizes.values()):
        # The wide one first: each is aligned to its own size.
        wide, narrow = sorted((one, other), key=lambda name: -sizes[name])
        helps.insert(0, f"lay them side by side: `({wide}, {narrow})`")
    return helps


def _writer(plan: Plan, found: Touch) -> OpUse:
    """Return the op that wrote what was found."""
    op = plan.program.algorithm.writers(found.value)[-1]
    group = max(found.group, 0) if op.grouped else -1
    return plan.placed[op.name, group].use


def _members(region: Region) -> set[str]:
    return {leaf.buffer for leaf in leaves(region.tree)}


# ---- Deadlocks ---------------------------------------------------------------------------------


_KIND_WORDS = {
    EventKind.ACT: "runs",
    EventKind.ISSUE: "issues",
    EventKind.DONE: "completes",
}
_TILE_WORDS = {
    EventKind.ASK: "asks for the next tile",
    EventKind.ANSWER: "is answered with the next tile",
    EventKind.TAKE: "takes the next tile",
}


def event_words(event: Event, *, grouped: bool) -> str:
    """Return what an event does, for example `mma` issues `pv[0]` of step 3."""
    if event.site is None:
        return f"`{event.actor.role}` {_TILE_WORDS[event.kind]}"
    group = f"[{event.site.group}]" if event.site.group >= 0 and grouped else ""
    step = f" of step {event.step}" if event.step >= 0 else ""
    return f"`{event.actor.role}` {_KIND_WORDS[event.kind]} `{event.site.op}{group}`{step}"


def trips_words(trips: tuple[int, ...]) -> str:
    """Return the steps of a few tiles, for example: a tile of 1 step, then one of 5 steps."""
    counts = [f"{trip} step" + ("" if trip == 1 else "s") for trip in trips]
    return ", then one of ".join([f"a tile of {counts[0]}", *counts[1:]])


def deadlock(plan: Plan, sync: SyncPlan, realized: Realized, cycle: tuple[int, ...]) -> Diagnostic:
    """Return the diagnostic for a cycle through barriers, with role, barrier and line of each."""
    events = realized.unrolled.events
    names = {node: completion for completion, node in realized.completions.items()}
    words: list[str] = []
    notes: dict[tuple[str, str], Note] = {}
    for node in cycle:
        if node >= len(events):
            words.append(f"barrier `{sync.channels[names[node][0]].name}`")
            continue
        event = events[node]
        said = event_words(event, grouped=plan.program.tile.groups > 1)
        if not words or words[-1] != said:
            words.append(said)
        if event.use is not None:
            role, op = event.actor.role, event.use.op.name
            text = f"`{role}` runs `{op}` here"
            notes.setdefault((role, op), Note(message=text, label=Label(span=event.use.span)))
    uses = [events[node].use for node in cycle if node < len(events)]
    around = words if words[0] == words[-1] else [*words, words[0]]
    first = next((use.span for use in uses if use is not None), plan.program.tiles.span)
    return Diagnostic(
        id="deadlock",
        message="roles wait for each other and the kernel hangs: seen with "
        f"{trips_words(realized.unrolled.trips)}",
        label=Label(span=first, message="part of the cycle"),
        notes=(
            Note(message="each waits for the one before it: " + " -> ".join(around)),
            *notes.values(),
        ),
        helps=("make a ring on this path deeper, or let the role that waits run later",),
    )
