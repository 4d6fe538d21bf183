"""parity: a wait for completion k neither passes early nor is lapped.

What: a barrier shows only the parity of its phase. With `slots` barriers in the array, completion
k + slots comes after every wait for k, completion k - slots before it; nobody arrives for k + slots
before k is complete; a ring and its barriers have as many slots; a phase takes all of its arrivals.

Why: a wait that is lapped hangs, one that passes early reads what is not there yet.

Example: an accumulator two deep lets the matmuls finish two tiles before one is collected; with one
barrier the second completion hides the first.

Fix: give the buffer, and with it the barrier, another slot, or hold the faster role back.

Assumes: a fresh barrier lets a wait for parity 1 pass.
"""

from __future__ import annotations

from ...diagnostics import Diagnostic, Label, Note, count, quoted
from ...graph.closure import Closure
from ...passes.channels import Channel, ChannelKind
from ...planning import Event
from ..realize import Realized
from ..subject import Subject

ID = "parity"
PROVES = "no wait passes early or is lapped"


def check(subject: Subject) -> list[Diagnostic]:
    """Return one diagnostic for every channel whose phases can be confused."""
    found = {
        channel.name: finding
        for channel in subject.sync.channels
        for finding in (*_depth(subject, channel), *_uneven(subject, channel))
    }
    for realized in subject.realized:
        if realized.closure is None:
            continue
        _check_turns(subject, realized, found)
        _check_waits(subject, realized, found)
        _check_arrivals(subject, realized, found)
    return list(found.values())


def _depth(subject: Subject, channel: Channel) -> list[Diagnostic]:
    """A ring and its barriers count uses alike: they need the same number of slots."""
    buffer = subject.plan.program.buffer(channel.buffers[0])
    if channel.kind is ChannelKind.AFTER or channel.slots == buffer.depth:
        return []
    return [
        Diagnostic(
            id="parity",
            message=f"`{buffer.name}` has {buffer.depth} slots and its barrier `{channel.name}` "
            f"{channel.slots}",
            label=Label(span=buffer.span),
        )
    ]


def _uneven(subject: Subject, channel: Channel) -> list[Diagnostic]:
    """A ring's barrier counts the same arrivals whichever of its values a slot holds."""
    plan = subject.plan
    buffer = plan.program.buffer(channel.buffers[0])
    roles = {
        value: sorted({plan.at(e.site).role.name for e in channel.signals if e.position == index})
        for index, value in enumerate(buffer.holds)
    }
    ends = {
        value: [end for end in channel.signals if end.position == index]
        for index, value in enumerate(buffer.holds)
    }
    if channel.rate == 1 or len({len(found) for found in ends.values()}) == 1:
        return []
    by = {value: quoted(names, "and") if names else "none" for value, names in roles.items()}
    freed = ", ".join(f"`{value}` by {names}" for value, names in by.items())
    last = buffer.holds[-1]
    return [
        Diagnostic(
            id="uneven-ring",
            message=f"the slots of `{buffer.name}` are freed by different roles: {freed}; its "
            "barrier counts the same arrivals for every slot",
            label=Label(span=buffer.span, message=f"one ring for {quoted(buffer.holds, 'and')}"),
            notes=tuple(
                Note(
                    message=f"`{plan.at(end.site).role.name}` frees `{value}` here",
                    label=Label(span=plan.at(end.site).use.span),
                )
                for value, found in ends.items()
                for end in found
            ),
            helps=(f"give `{last}` a ring of its own: `smem {last} : bf16[n, d]  depth 2`",),
        )
    ]


def _check_turns(subject: Subject, realized: Realized, found: dict[str, Diagnostic]) -> None:
    """A turn is handed on again only when the one before was taken: nobody arrives twice."""
    closure = realized.closure
    assert closure is not None
    for role, replicas in realized.unrolled.turns.items():
        for replica, turns in enumerate(replicas):
            following = replicas[(replica + 1) % len(replicas)]
            shift = int(replica + 1 == len(replicas))
            taken = [node for node, _ in following[shift:]]
            for (_, again), node in zip(turns[1:], taken, strict=False):
                if not closure.ordered(node, again):
                    span = subject.plan.program.program_of(role).role.span
                    message = (
                        f"`{role}` can hand its turn on twice before the next replica takes it"
                    )
                    found.setdefault(
                        f"turn of {role}",
                        Diagnostic(id="parity", message=message, label=Label(span=span)),
                    )


def _check_waits(subject: Subject, realized: Realized, found: dict[str, Diagnostic]) -> None:
    closure = realized.closure
    assert closure is not None
    previous = realized.unrolled.previous
    for waiting in realized.waits:
        index, group, piece, number = waiting.completion
        channel = subject.sync.channels[index]
        lapping = realized.completions.get((index, group, piece, number + channel.slots))
        earlier = realized.signals.get((index, group, piece, number - channel.slots), [])
        before = previous.get(waiting.node)
        early = [s for s in earlier if before is None or not _by(closure, s, before)]
        if early:
            _early(subject, channel, realized.unrolled.events[waiting.node], found)
            continue
        if lapping is None or closure.ordered(waiting.node, lapping):
            continue
        event = realized.unrolled.events[waiting.node]
        assert event.use is not None
        signal = subject.plan.at(channel.signals[0].site)
        found.setdefault(
            channel.name,
            Diagnostic(
                id="parity",
                message=f"`{signal.role.name}` can run ahead by {_phases(channel.slots)} on the "
                f"barrier `{channel.name}` and lap the wait of `{event.actor.role}`",
                label=Label(span=event.use.span, message="this wait can miss its phase"),
                notes=(
                    Note(
                        message=f"`{signal.use.op.name}` completes the phases",
                        label=Label(span=signal.use.span),
                    ),
                ),
                helps=(_help(subject, channel),),
            ),
        )


def _by(closure: Closure, source: int, node: int) -> bool:
    """Whether an arrival has been made by the time that a role comes from `node` to its wait."""
    return source == node or closure.ordered(source, node)


def _early(subject: Subject, channel: Channel, event: Event, found: dict[str, Diagnostic]) -> None:
    """A phase looks like the one before the last: whoever waits must know the last is through."""
    assert event.use is not None
    helps = [f"let `{event.actor.role}` wait for every phase, or give each value a ring of its own"]
    if channel.rate > 1 and channel.slots % channel.rate:
        helps.append(
            f"with a depth that {channel.rate} divides, `{channel.buffers[0]}` keeps each value "
            "in slots of its own"
        )
    found.setdefault(
        channel.name,
        Diagnostic(
            id="parity",
            message=f"the wait of `{event.actor.role}` on the barrier `{channel.name}` can pass "
            "early: nothing says that the phase before is through",
            label=Label(span=event.use.span, message="may read what is not there yet"),
            helps=tuple(helps),
        ),
    )


def _phases(count: int) -> str:
    return f"{count} phase" + ("s" if count > 1 else "")


def _help(subject: Subject, channel: Channel) -> str:
    """Return the depth with which the barrier and its buffer have equally many slots."""
    buffer = subject.plan.program.buffer(channel.buffers[0])
    if buffer.depth > channel.slots:
        words = f"give `{buffer.name}` a depth of {channel.slots}, as many as its barrier has slots"
        return count(words, buffer.declared, "depth", channel.slots)
    return f"give `{buffer.name}` a greater depth"


def _check_arrivals(subject: Subject, realized: Realized, found: dict[str, Diagnostic]) -> None:
    closure = realized.closure
    assert closure is not None
    for completion, sources in realized.signals.items():
        index, group, piece, number = completion
        channel = subject.sync.channels[index]
        if len(sources) > channel.arrivals:
            _too_many(subject, channel, len(sources), found)
        earlier = realized.completions.get((index, group, piece, number - channel.slots))
        if earlier is None:
            continue
        for source in sources:
            if channel.arrivals > 1 and not closure.ordered(earlier, source):
                event = realized.unrolled.events[source]
                assert event.use is not None
                found.setdefault(
                    channel.name,
                    Diagnostic(
                        id="parity",
                        message=f"`{event.actor.role}` can arrive twice in one phase of "
                        f"`{channel.name}`",
                        label=Label(span=event.use.span),
                        helps=(_help(subject, channel),),
                    ),
                )


def _too_many(
    subject: Subject, channel: Channel, arrivals: int, found: dict[str, Diagnostic]
) -> None:
    found.setdefault(
        channel.name,
        Diagnostic(
            id="parity",
            message=f"a phase of `{channel.name}` is complete after {channel.arrivals} of "
            f"{arrivals} arrivals",
            label=Label(span=subject.plan.at(channel.signals[0].site).use.span),
        ),
    )
