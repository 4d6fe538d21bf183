"""Mutants of a compiled schedule: one change in the result of Plan, Placement or Sync, emitted.

The text follows the changed result, so the round trip agrees and the rules alone have to judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from builders import compiled

from jfagen.passes.channels import Channel, ChannelKind, SyncPlan
from jfagen.passes.layout import leaves, make_layout
from jfagen.passes.placement import Placement, copies
from jfagen.planning import Plan, make_plan
from jfagen.semantics.regions import Leaf, Over
from jfagen.types import Storage

KINDS = (
    "drop a barrier",
    "drop a wait",
    "drop an arrive",
    "flip a phase",
    "change an arrive count",
    "change a byte count",
    "shorten a depth",
    "lengthen a depth",
    "swap two ops",
    "overlap two buffers",
    "drop a fence",
    "drop a rendezvous",
)


@dataclass(frozen=True)
class Mutant:
    """One changed kernel.

    Attributes:
        kind: one of KINDS.
        place: what was changed.
    """

    kind: str
    place: str
    plan: Plan
    placement: Placement
    sync: SyncPlan


def mutants(name: str) -> Iterator[Mutant]:
    """Yield every mutant of a schedule, kind by kind."""
    one = compiled(name)
    for kind, place, sync in sync_mutants(one.sync):
        yield Mutant(kind, place, one.plan, one.placement, sync)
    for place, plan in swapped_ops(one.plan):
        yield Mutant("swap two ops", place, plan, one.placement, one.sync)
    for kind, place, plan in changed_depths(one.plan):
        yield Mutant(kind, place, plan, one.placement, one.sync)
    for place, placement in overlapped(one.plan, one.placement):
        yield Mutant("overlap two buffers", place, one.plan, placement, one.sync)


def sync_mutants(sync: SyncPlan) -> Iterator[tuple[str, str, SyncPlan]]:
    for op, point in dict.fromkeys((site.op, site.point) for site in sync.fences):
        fences = tuple(site for site in sync.fences if (site.op, site.point) != (op, point))
        yield "drop a fence", f"{op}.{point}", replace(sync, fences=fences)
    for op, point in dict.fromkeys((site.op, site.point) for site in sync.rendezvous):
        rest = tuple(site for site in sync.rendezvous if (site.op, site.point) != (op, point))
        yield "drop a rendezvous", f"{op}.{point}", replace(sync, rendezvous=rest)
    for channel in sync.channels:
        yield "drop a barrier", channel.name, with_channel(sync, channel, None)
        for kind, place, changed in channel_mutants(channel):
            yield kind, f"{channel.name} {place}".strip(), with_channel(sync, channel, changed)


def with_channel(sync: SyncPlan, old: Channel, new: Channel | None) -> SyncPlan:
    changed = [new if channel is old else channel for channel in sync.channels]
    return replace(sync, channels=tuple(channel for channel in changed if channel is not None))


def channel_mutants(channel: Channel) -> Iterator[tuple[str, str, Channel]]:
    for end in channel.waits:
        rest = tuple(other for other in channel.waits if other != end)
        yield "drop a wait", end_words(end), replace(channel, waits=rest)
    for end in channel.signals:
        rest = tuple(other for other in channel.signals if other != end)
        yield "drop an arrive", end_words(end), replace(channel, signals=rest)
    lag = 0 if channel.lag else channel.slots
    yield "flip a phase", "", replace(channel, lag=lag)
    for count in {channel.arrivals - 1, channel.arrivals + 1} - {0}:
        yield "change an arrive count", str(count), replace(channel, arrivals=count)
    for index, right in enumerate(channel.bytes):
        for size in (right // 2, right * 2):
            sizes = (*channel.bytes[:index], size, *channel.bytes[index + 1 :])
            yield "change a byte count", str(size), replace(channel, bytes=sizes)
    ring = channel.kind is not ChannelKind.AFTER
    for kind, slots in (
        ("shorten a depth", channel.slots - 1),
        ("lengthen a depth", channel.slots + 1),
    ):
        if slots:
            lag = slots if channel.lag else 0
            yield (
                kind,
                f"to {slots}" if ring else f"slots {slots}",
                replace(channel, slots=slots, lag=lag),
            )


def end_words(end) -> str:
    site = end.site
    return f"{site.op}[{site.group}].{site.point}.{site.slice}"


def swapped_ops(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Swap every two neighbours in a role's program."""
    program = plan.program
    for index, role_program in enumerate(program.role_programs):
        for part in ("before", "loop", "after"):
            uses = getattr(role_program, part)
            for at in range(len(uses) - 1):
                order = [*uses[:at], uses[at + 1], uses[at], *uses[at + 2 :]]
                programs = list(program.role_programs)
                programs[index] = replace(role_program, **{part: tuple(order)})
                place = f"{role_program.role.name}: {uses[at].op.name}, {uses[at + 1].op.name}"
                yield place, make_plan(replace(program, role_programs=tuple(programs)))


def changed_depths(plan: Plan) -> Iterator[tuple[str, str, Plan]]:
    """Give a buffer one slot more or less than its barriers know of."""
    program = plan.program
    for buffer in program.buffers:
        # What waits for a staging buffer follows from its depth; it has no barriers.
        if buffer.storage is Storage.REG or program.algorithm.value(buffer.holds[0]).staging:
            continue
        for kind, depth in (
            ("shorten a depth", buffer.depth - 1),
            ("lengthen a depth", buffer.depth + 1),
        ):
            if depth:
                changed = tuple(
                    replace(b, depth=depth) if b is buffer else b for b in program.buffers
                )
                yield (
                    kind,
                    f"buffer {buffer.name} to {depth}",
                    make_plan(replace(program, buffers=changed)),
                )


def overlapped(plan: Plan, placement: Placement) -> Iterator[tuple[str, Placement]]:
    """Lay one root over another without telling anybody."""
    program = plan.program
    trees = placement.layout.trees
    for one, other in combinations(trees, 2):
        host, guest = (program.buffer(leaves(tree)[0].buffer) for tree in (one, other))
        if (host.storage, copies(program, host)) != (guest.storage, copies(program, guest)):
            continue
        rest = tuple(tree for tree in trees if tree not in (one, other))
        joined = (*rest, Over(parts=(one, other)))
        layout = make_layout(program, tuple(t for t in joined if not isinstance(t, Leaf)))
        yield f"{host.name} and {guest.name}", replace(placement, layout=layout)
