"""Sync: the smallest set of channels whose closure holds every dependence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..algorithm import Engine, Mode, Space
from ..planning import Plan, Site, unroll
from ..semantics.program import Buffer, GroupRef
from ..types import Storage
from .channels import Arrival, Channel, ChannelKind, End, SyncPlan, When
from .layout import Layout
from .needed import Family, all_pairs, trip_counts
from .rendezvous import find_rendezvous


@dataclass(frozen=True, slots=True)
class _Key:
    """What makes dependences share one channel."""

    kind: ChannelKind
    per: Space
    lag: int
    buffers: tuple[str, ...]
    target: tuple[str, int]
    across: tuple[int, int]


def derive_sync(plan: Plan, layout: Layout, families: tuple[Family, ...]) -> SyncPlan:
    """Return the channels for the dependences that need one."""
    members: dict[_Key, list[Family]] = defaultdict(list)
    for family in families:
        members[_classify(plan, family)].append(family)
    channels: list[Channel] = []
    for key, group in members.items():
        channels += _channels(plan, layout, key, group)
    channels = _landed(plan, channels)
    order = {buffer.name: index for index, buffer in enumerate(plan.program.buffers)}
    kinds = list(ChannelKind)
    channels.sort(key=lambda c: (order[c.buffers[0]], kinds.index(c.kind), c.name))
    return SyncPlan(
        channels=tuple(_distinct_names(channels)),
        fences=_fences(plan),
        rendezvous=find_rendezvous(plan, layout),
    )


def _landed(plan: Plan, channels: list[Channel]) -> list[Channel]:
    """Return the channels with those of loads that land on one barrier made one."""
    found = list(channels)
    for placed in plan.placed.values():
        first = _full_of(found, placed.use.lands_with)
        other = _full_of(found, placed.use.op.name) if placed.use.lands_with else None
        if first is None or other is None or first is other:
            continue
        buffers = first.buffers + other.buffers
        both = replace(
            first,
            name=f"{'_and_'.join(buffers)}_{first.kind.value}",
            buffers=buffers,
            signals=tuple(sorted(first.signals + other.signals, key=lambda end: end.site)),
            waits=first.waits + _unmet(plan, first.waits, other.waits),
            arrivals=first.arrivals + other.arrivals,
            bytes=first.bytes + other.bytes,
            reasons=tuple(dict.fromkeys(first.reasons + other.reasons)),
        )
        found = [both if one is first else one for one in found if one is not other]
    return found


def _full_of(channels: list[Channel], load: str) -> Channel | None:
    """Return the channel on which a load lands."""
    return next(
        (
            channel
            for channel in channels
            if channel.arrival is Arrival.BYTES and load in {e.site.op for e in channel.signals}
        ),
        None,
    )


def _unmet(plan: Plan, waits: tuple[End, ...], others: tuple[End, ...]) -> tuple[End, ...]:
    """Return those of the other waits before which their role has not waited for the same phase."""
    unrolled = unroll(plan, trip_counts(plan)[0])

    def met(other: End, wait: End) -> bool:
        if wait.when is not other.when or plan.at(wait.site).role != plan.at(other.site).role:
            return False
        starts = [
            (unrolled.start[wait.site, tile, step], start)
            for (site, tile, step), start in unrolled.start.items()
            if site == other.site
        ]
        actors = [unrolled.events[node].actor for pair in starts for node in pair]
        return len(set(actors)) == 1 and all(one < another for one, another in starts)

    return tuple(end for end in others if not any(met(end, wait) for wait in waits))


def _fences(plan: Plan) -> tuple[Site, ...]:
    """Return where warps write what TMA or the tensor core reads from SMEM."""
    smem = {b.name for b in plan.program.buffers if b.storage is Storage.SMEM}
    read = {
        touch.buffer
        for site, touches in plan.touches.items()
        if plan.engine(site) in (Engine.STORE, Engine.MMA)
        for touch in touches
        if touch.mode is Mode.READ
    }
    return tuple(
        site
        for site, touches in plan.touches.items()
        if plan.engine(site) is Engine.WARPS
        and any(t.mode is not Mode.READ and t.buffer in smem & read for t in touches)
    )


def _classify(plan: Plan, family: Family) -> _Key:
    program = plan.program
    grouped = family.first.group == family.second.group
    across = (-1, -1) if grouped else (family.first.group, family.second.group)
    for kind in (ChannelKind.FULL, ChannelKind.EMPTY):
        guarded = [pair for pair in family.pairs if _ring_use(plan, family, pair) is kind]
        if guarded:
            buffers = tuple(dict.fromkeys(pair[0] for pair in guarded))
            buffer = program.buffer(buffers[0])
            if not buffer.grouped or _is_shared(plan, buffer):
                across = (-1, -1)
            per = program.algorithm.value(buffer.holds[0]).space
            lag = 0 if kind is ChannelKind.FULL else buffer.depth
            return _Key(kind, per, lag, buffers, ("", 0), across)
    buffers = tuple(dict.fromkeys(pair[2] for pair in family.pairs))
    target = (family.second.op, family.second.point)
    steps = plan.space(family.first) is Space.STEP and plan.space(family.second) is Space.STEP
    if steps and family.steps:
        return _Key(ChannelKind.AFTER, Space.STEP, max(family.steps), buffers, target, across)
    lag = 0 if 0 in family.tiles else max(family.tiles)
    return _Key(ChannelKind.AFTER, Space.TILE, lag, buffers, target, across)


def _ring_use(plan: Plan, family: Family, pair: tuple[str, str, str, str]) -> ChannelKind | None:
    """Return whether a dependence is between a producer and the readers of one ring."""
    earlier_buffer, earlier_value, later_buffer, later_value = pair
    if earlier_buffer != later_buffer:
        return None
    algorithm = plan.program.algorithm
    writes_first = _writes(plan, family.first, earlier_value)
    writes_second = _writes(plan, family.second, later_value)
    sole = all(len(algorithm.writers(v)) == 1 for v in (earlier_value, later_value))
    if not sole or writes_first == writes_second:
        return None
    if writes_first:
        return ChannelKind.FULL if earlier_value == later_value else None
    return ChannelKind.EMPTY


def _writes(plan: Plan, site: Site, value: str) -> bool:
    return any(t.value == value and t.mode is not Mode.READ for t in plan.touches[site])


def _channels(plan: Plan, layout: Layout, key: _Key, families: list[Family]) -> list[Channel]:
    """Return one channel, or one for each set of groups that need the same ends."""
    if key.across != (-1, -1) or not _has_groups(plan, key, families):
        return [_channel(plan, layout, key, families, ())]
    by_group: dict[int, list[Family]] = defaultdict(list)
    for family in families:
        by_group[family.first.group].append(family)
    shapes: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for group, members in by_group.items():
        shape: tuple[object, ...] = tuple(
            sorted((_bare(f.first), _bare(f.second)) for f in members)
        )
        shapes[shape].append(group)
    every = plan.program.tile.groups
    # An array over groups has a barrier for each; some of them alone get arrays of their own.
    for shape, some in list(shapes.items()):
        if 1 < len(some) < every:
            del shapes[shape]
            shapes |= {(*shape, group): [group] for group in some}
    return [
        _channel(plan, layout, key, by_group[groups[0]], tuple(groups))
        for groups in shapes.values()
    ]


def _has_groups(plan: Plan, key: _Key, families: list[Family]) -> bool:
    if key.kind is not ChannelKind.AFTER:
        buffer = plan.program.buffer(key.buffers[0])
        return buffer.grouped and not _is_shared(plan, buffer)
    return all(family.first.group >= 0 for family in families)


def _is_shared(plan: Plan, buffer: Buffer) -> bool:
    """Whether ops of one group read the tiles of all: one barrier then stands for all of them."""
    return any(
        access.every_group and access.value in buffer.holds
        for op in plan.program.algorithm.ops
        for access in op.accesses()
    )


def _bare(site: Site) -> tuple[str, int, int]:
    return (site.op, site.point, site.slice)


def _channel(
    plan: Plan, layout: Layout, key: _Key, families: list[Family], groups: tuple[int, ...]
) -> Channel:
    buffer = plan.program.buffer(key.buffers[0])
    ring = key.kind is not ChannelKind.AFTER
    signals = {_end(plan, key, family.first, buffer, signal=True): None for family in families}
    waits = {_end(plan, key, family.second, buffer, signal=False): None for family in families}
    if ring and len(buffer.holds) > 1:
        for end in _missing_signals(plan, layout, key, buffer, tuple(signals)):
            signals[end] = None
    if not groups and key.across == (-1, -1):
        signals, waits = _in_every_replica(plan, signals), _in_every_replica(plan, waits)
    slices = max(end.site.slice for end in signals) + 1 if key.kind is ChannelKind.FULL else 1
    if slices == 1:
        signals = dict.fromkeys(_after_all_slices(plan, e) for e in _extreme(signals, last=True))
        waits = dict.fromkeys(_extreme(waits, last=False))
    positions = {end.position for end in signals}
    arrival, warps = _arrival(plan, tuple(signals))
    return Channel(
        name=_name(key, families) + _suffix(plan, groups),
        kind=key.kind,
        per=key.per,
        rate=max(1, len(buffer.holds)) if ring and key.per is Space.STEP else 1,
        buffers=key.buffers,
        groups=groups,
        slices=slices,
        slots=key.lag or _slots(plan, key, buffer),
        lag=key.lag,
        signals=tuple(sorted(signals, key=lambda end: end.site)),
        waits=tuple(sorted(waits, key=lambda end: end.site)),
        arrival=arrival,
        arrivals=len(signals) // len(positions) // slices,
        warps=warps,
        bytes=(buffer.bytes,) if arrival is Arrival.BYTES else (),
        reasons=tuple(dict.fromkeys(_reason(family) for family in families)),
    )


def _in_every_replica(plan: Plan, ends: dict[End, None]) -> dict[End, None]:
    """Return ends with those of all replicas of a role where some of them signal or wait.

    Replicas run one text. Where turns order them, one of them could do it for the others; then the
    text would differ from replica to replica, and a matmul rest on a wait that another role made.
    """
    found: dict[End, None] = {}
    for end in ends:
        use = plan.at(end.site).use
        alike = use.groups if use.group_ref is GroupRef.REPLICA else (end.site.group,)
        for group in alike:
            found[replace(end, site=replace(end.site, group=group))] = None
    return found


def _end(plan: Plan, key: _Key, site: Site, buffer: Buffer, *, signal: bool) -> End:
    when = When.EVERY
    if key.per is Space.TILE and plan.space(site) is Space.STEP:
        when = When.LAST if signal else When.FIRST
    position = 0
    if key.kind is not ChannelKind.AFTER:
        values = [t.value for t in plan.touches[site] if t.buffer == buffer.name]
        position = buffer.holds.index(values[0])
    return End(site=site, position=position, when=when)


def _after_all_slices(plan: Plan, end: End) -> End:
    """Return the end at the last slice of its point, behind which the text signals."""
    site = end.site
    sites = plan.sites[site.op, site.group]
    last = max(other.slice for other in sites if other.point == site.point)
    return replace(end, site=replace(site, slice=last))


def _slots(plan: Plan, key: _Key, buffer: Buffer) -> int:
    """Return how many phases may be complete before the first of them is awaited."""
    rhythm = plan.program.algorithm.value(buffer.holds[0]).space
    return buffer.depth if rhythm is key.per else 1


def _extreme(ends: Iterable[End], *, last: bool) -> list[End]:
    """Return one end for every point: the last slice to signal, or the first to wait.

    One barrier stands for all slices, so the last one completes it and the first one needs it.
    """
    found: dict[tuple[str, int, int], End] = {}
    for end in sorted(ends, key=lambda end: end.site, reverse=not last):
        found[end.site.op, end.site.group, end.site.point] = end
    return list(found.values())


def _missing_signals(
    plan: Plan, layout: Layout, key: _Key, buffer: Buffer, signals: tuple[End, ...]
) -> list[End]:
    """Return signals for the values of a ring whose release something else already implies.

    A phase that nobody completes would stop the ring.
    """
    covered = {end.position for end in signals}
    if len(covered) == len(buffer.holds):
        return []
    missing: dict[int, End] = {}
    for family in all_pairs(plan, layout).values():
        kinds = [k for p in family.pairs if (k := _ring_use(plan, family, p)) is key.kind]
        if kinds and any(pair[0] == buffer.name for pair in family.pairs):
            end = _end(plan, key, family.first, buffer, signal=True)
            if end.position not in covered:
                missing[end.position] = max(
                    missing.get(end.position, end), end, key=lambda e: e.site
                )
    return list(missing.values())


def _arrival(plan: Plan, signals: tuple[End, ...]) -> tuple[Arrival, int]:
    engines = {_arriver(plan, end.site) for end in signals}
    warps = {plan.at(end.site).role.warps for end in signals}
    if engines == {Engine.LOAD}:
        return Arrival.BYTES, 0
    if engines == {Engine.MMA}:
        return Arrival.COMMIT, 0
    if engines == {Engine.WARPS} and len(warps) == 1 and min(warps) > 1:
        return Arrival.THREADS, min(warps)
    return Arrival.ROLES, 0


def _arriver(plan: Plan, site: Site) -> Engine:
    """Return what arrives for a site: warps, where the role itself waits for its matmul."""
    waits = plan.engine(site) is Engine.MMA and plan.joins(site)
    return Engine.WARPS if waits else plan.engine(site)


def _suffix(plan: Plan, groups: tuple[int, ...]) -> str:
    """Return what tells the channel of one group from those of the others."""
    alone = len(groups) == 1 < plan.program.tile.groups
    return f"_{groups[0]}" if alone else ""


def _name(key: _Key, families: list[Family]) -> str:
    if key.kind is not ChannelKind.AFTER:
        return f"{'_and_'.join(key.buffers)}_{key.kind.value}"
    sources = dict.fromkeys(family.first.op for family in families)
    name = f"{'_and_'.join(key.buffers)}_after_{'_and_'.join(sources)}"
    return name if key.across == (-1, -1) else f"{name}_{key.across[0]}_for_{key.across[1]}"


def _reason(family: Family) -> str:
    words = {
        pair[0] if pair[0] == pair[2] else f"{pair[0]} under {pair[2]}" for pair in family.pairs
    }
    return f"{family.first.op} -> {family.second.op} ({', '.join(sorted(words))})"


def _distinct_names(channels: list[Channel]) -> list[Channel]:
    """Return the channels with the waiter added to names that occur twice."""
    names = [channel.name for channel in channels]
    return [
        replace(channel, name=f"{channel.name}_for_{channel.waits[0].site.op}")
        if names.count(channel.name) > 1
        else channel
        for channel in channels
    ]
