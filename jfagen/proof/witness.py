"""Witnesses: cycles and pairs of accesses in the words and lines of the schedule."""

from __future__ import annotations

from ..diagnostics import Diagnostic, Label, Note
from ..passes.channels import SyncPlan
from ..passes.needed import Illegal
from ..plan import Event, EventKind, Plan
from .realize import Realized


def event_words(event: Event) -> str:
    """Return what an event does, for example `mma: pv[0] of step 3 executes`."""
    if event.site is None:
        return f"`{event.actor.role}` {_TILE_WORDS[event.kind]}"
    group = f"[{event.site.group}]" if event.site.group >= 0 else ""
    step = f" of step {event.step}" if event.step >= 0 else ""
    return f"`{event.actor.role}` {_KIND_WORDS[event.kind]} `{event.site.op}{group}`{step}"


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


def illegal_order(plan: Plan, illegal: Illegal) -> Diagnostic:
    """Return the diagnostic for a layout or an order of ops that no barrier can mend."""
    if illegal.clobbers:
        return _clobber(plan, illegal)
    events = illegal.unrolled.events
    crossing = [d for d in illegal.dependences if d.earlier.buffer != d.later.buffer]
    chosen = (crossing or list(illegal.dependences))[0]
    first, second = plan.at(chosen.first[0]), plan.at(chosen.second[0])
    shared = (
        f"`{chosen.earlier.buffer}` and `{chosen.later.buffer}` share memory"
        if crossing
        else f"both touch `{chosen.earlier.buffer}`"
    )
    return Diagnostic(
        id="order-cycle",
        message=f"`{first.use.op.name}` must come before `{second.use.op.name}`, but their order "
        f"in the roles says otherwise: {shared}",
        label=Label(span=second.use.span, message="would run too early"),
        notes=(
            Note(
                message=f"`{first.use.op.name}` of the step before is placed here",
                label=Label(span=first.use.span, message="must be through by then"),
            ),
            Note(message=_cycle_words([events[node] for node in illegal.cycle])),
        ),
        helps=_order_helps(plan, [chosen.earlier.buffer, chosen.later.buffer]),
    )


def _order_helps(plan: Plan, buffers: list[str]) -> tuple[str, ...]:
    first, second = buffers
    if first != second:
        return (
            f"place the ops in the order in which data flows, or keep `{first}` and `{second}` "
            "apart if there is room",
        )
    depth = plan.program.buffer(first).depth
    return (
        f"place the ops in the order in which data flows, or give `{first}` a depth of {depth + 1}",
    )


def _cycle_words(events: list[Event]) -> str:
    words = " -> ".join(event_words(event) for event in [*events, events[0]])
    return f"each of these waits for the one before it: {words}"


def _clobber(plan: Plan, illegal: Illegal) -> Diagnostic:
    clobber = illegal.clobbers[0]
    reader = plan.at(clobber.reader[0]).use
    wanted = clobber.touch.value
    if clobber.found is None or clobber.found.value == wanted:
        return Diagnostic(
            id="never-written",
            message=f"`{reader.op.name}` reads `{wanted}` before anything has written it",
            label=Label(span=reader.span),
            helps=("place the op that writes it",),
        )
    found = clobber.found.buffer
    buffer = plan.program.buffer(clobber.touch.buffer)
    return Diagnostic(
        id="overlap-live",
        message=f"`{found}` overwrites `{buffer.name}` while `{reader.op.name}` still needs it",
        label=Label(span=reader.span, message=f"reads `{wanted}`"),
        notes=(
            Note(
                message=f"`{buffer.name}` is alive from its first write to this read",
                label=Label(span=buffer.span),
            ),
            Note(
                message=f"`{found}` shares its place",
                label=Label(span=plan.program.buffer(found).span),
            ),
        ),
        helps=(f"keep `{found}` and `{buffer.name}` apart",),
    )


def deadlock(plan: Plan, sync: SyncPlan, realized: Realized, cycle: tuple[int, ...]) -> Diagnostic:
    """Return the diagnostic for a cycle through barriers, with role, barrier and line of each."""
    events = realized.unrolled.events
    names = {node: completion for completion, node in realized.completions.items()}
    words: list[str] = []
    spans: dict[str, Note] = {}
    for node in cycle:
        if node >= len(events):
            channel = sync.channels[names[node][0]]
            words.append(f"barrier `{channel.name}`")
            continue
        event = events[node]
        words.append(event_words(event))
        if event.use is not None:
            text = f"`{event.actor.role}` places `{event.use.op.name}` here"
            spans.setdefault(text, Note(message=text, label=Label(span=event.use.span)))
    first = next(events[node].use for node in cycle if node < len(events) and events[node].use)
    assert first is not None
    return Diagnostic(
        id="deadlock",
        message=f"tiles of {list(realized.unrolled.trips)} steps hang",
        label=Label(span=first.span, message="part of the cycle"),
        notes=(
            Note(message="each waits for the one before it: " + " -> ".join([*words, words[0]])),
            *spans.values(),
        ),
        helps=("make a ring on this path deeper, or let the role that waits do so later",),
    )
