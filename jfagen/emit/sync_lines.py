"""Waits and arrives as text, at the points of one op."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..algorithm import Engine, Space
from ..passes.channels import Channel, ChannelKind, End, SyncPlan, When
from ..planning import Plan
from ..semantics.program import GroupRef, OpUse, Program
from .counts import Counters
from .laps import Lap
from .names import bytes_name, meeting_name, slices_name, slots_text, threads_name


@dataclass(frozen=True, slots=True)
class Line:
    """One statement and the conditions under which it runs, outermost first."""

    text: str
    conditions: tuple[str, ...] = ()


def merged(lines: list[Line]) -> list[str]:
    """Return the statements as text, those under the same conditions together, the others last."""
    under: dict[tuple[str, ...], list[str]] = {line.conditions: [] for line in lines}
    for line in lines:
        under[line.conditions].append(line.text)
    found: list[str] = []
    for conditions, texts in sorted(under.items(), key=lambda item: not item[0]):
        for depth, condition in enumerate(conditions):
            found.append(f"{'    ' * depth}if {condition}:")
        found += [f"{'    ' * len(conditions)}{text}" for text in texts]
    return found


@dataclass(slots=True)
class PointLines:
    """Lines around one point of an op; those of a sliced point repeat for every `piece`.

    `joins` are the waits for matmuls and what is signalled then, `drains` those for stores, `meets`
    the rendezvous of the role's warps. `fenced` says that a proxy fence stands before the lines
    after it.
    """

    joins: list[str] = field(default_factory=list)
    drains: list[str] = field(default_factory=list)
    before: list[Line] = field(default_factory=list)
    meets: str = ""
    before_slice: list[Line] = field(default_factory=list)
    after_slice: list[Line] = field(default_factory=list)
    fenced: bool = False
    after: list[Line] = field(default_factory=list)


@dataclass(slots=True)
class OpSync:
    """All synchronisation of one op use.

    Attributes:
        points: lines around each point.
        hands: whether it fences what the op before it has written.
        ends: what is signalled, and which matmuls are waited for, behind the op.
        expect: lines that expect a load's bytes.
        commits: barriers that the tensor core arrives on when an MMA of one slice is through.
        arrival: the barrier on which a load's bytes land.
    """

    points: list[PointLines]
    hands: bool = False
    ends: list[str] = field(default_factory=list)
    expect: list[str] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    arrival: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPlace:
    """Where an op is spelled.

    Attributes:
        use: the placed op.
        lap: the part of the loop that it stands in; None outside.
        shift: its step relative to the lap.
        group: how its group is spelled.
        counters: collects the definitions that its lines need.
    """

    use: OpUse
    lap: Lap | None
    shift: int
    group: str
    counters: Counters


class SyncSpeller:
    """Spells the channels of one program."""

    def __init__(self, plan: Plan, sync: SyncPlan) -> None:
        """Remember the program; nothing is spelled yet."""
        self.plan = plan
        self.program: Program = plan.program
        self.sync = sync

    def of(self, place: OpPlace) -> OpSync:
        """Return the synchronisation of one op use."""
        spelled = OpSync(points=[PointLines() for _ in place.use.op.points])
        for site in self.sync.fences:
            if site.op == place.use.op.name:
                spelled.points[site.point].fenced = True
        for site in self.sync.rendezvous:
            if site.op == place.use.op.name:
                role = self.plan.at(site).role.name
                meeting = f"{meeting_name(role)}, {threads_name(role)}"
                spelled.points[site.point].meets = f"tlx.named_barrier_wait({meeting})"
        for channel in self.sync.channels:
            for end, groups in self._ends(channel, channel.waits, place.use):
                self._wait(spelled, channel, end, groups, place)
            for end, groups in self._ends(channel, channel.signals, place.use):
                self._signal(spelled, channel, end, groups, place)
        return spelled

    def _ends(
        self, channel: Channel, ends: tuple[End, ...], use: OpUse
    ) -> list[tuple[End, frozenset[int]]]:
        """Return the ends of a channel at an op, each with the groups that take part alike."""
        mine = set(use.groups or (-1,))
        found: dict[End, tuple[End, set[int]]] = {}
        for end in ends:
            groups = {site.group for site in channel.sites(end)} & mine
            if end.site.op == use.op.name and groups:
                alike = replace(end, site=replace(end.site, group=-1))
                found.setdefault(alike, (end, set()))[1].update(groups)
        return [(end, frozenset(groups)) for end, groups in found.values()]

    def _wait(
        self,
        spelled: OpSync,
        channel: Channel,
        end: End,
        groups: frozenset[int],
        place: OpPlace,
    ) -> None:
        slot, phase = self._count(channel, end, place)
        if channel.lag:
            phase = "1" if phase == "0" else f"{phase} ^ 1"
        text = f"tlx.barrier_wait({self._barrier(channel, slot, place.group)}, {phase})"
        conditions = self._conditions(end, groups, place)
        if conditions is None:
            return
        line = Line(text, conditions)
        point = spelled.points[end.site.point]
        if channel.slices > 1:
            target = point.before_slice
        elif end.site.slice:
            target, line = point.before_slice, _in_slice(line, end.site.slice)
        else:
            target = point.before
        if line not in target:
            target.append(line)

    def _signal(
        self,
        spelled: OpSync,
        channel: Channel,
        end: End,
        groups: frozenset[int],
        place: OpPlace,
    ) -> None:
        slot, _ = self._count(channel, end, place)
        barrier = self._barrier(channel, slot, place.group)
        point = spelled.points[end.site.point]
        op = place.use.op
        if op.engine is Engine.LOAD:
            count = bytes_name(self.plan.touches[end.site][0].buffer)
            spelled.expect.append(f"tlx.barrier_expect_bytes({barrier}, {count})")
            spelled.arrival = barrier
            return
        conditions = self._conditions(end, groups, place)
        if conditions is None:
            return
        if op.engine is not Engine.MMA or self.program.joins(op):
            line = Line(f"tlx.barrier_arrive({barrier})", conditions)
        elif conditions or op.points[end.site.point].per_slice:
            line = Line(f"tlx.tcgen05_commit({barrier})", conditions)
        else:
            spelled.commits.append(barrier)
            return
        target = point.after_slice if channel.slices > 1 else point.after
        if line not in target:
            target.append(line)

    def _conditions(
        self, end: End, groups: frozenset[int], place: OpPlace
    ) -> tuple[str, ...] | None:
        """Return the conditions under which an end takes part here; None if it never does."""
        use, lap = place.use, place.lap
        conditions: list[str] = []
        if lap is not None and end.when is not When.EVERY:
            part = lap.is_last if end.when is When.LAST else lap.is_first
            condition = part(place.shift)
            if condition is False:
                return None
            if isinstance(condition, str):
                conditions.append(condition)
        if use.group_ref in (GroupRef.EVERY, GroupRef.REPLICA) and len(use.groups) > 1:
            symbol = self.program.tile.group_symbol
            if len(groups) == 1:
                conditions.append(f"{symbol} == {min(groups)}")
            elif len(groups) < len(use.groups):
                conditions.append(" | ".join(f"({symbol} == {group})" for group in sorted(groups)))
        return tuple(conditions)

    def _count(self, channel: Channel, end: End, place: OpPlace) -> tuple[str, str]:
        """Return (slot, phase); the slot is empty where there is only one."""
        counters, shift = place.counters, place.shift
        depth = slots_text(self.program, channel)
        what = channel.name
        buffer = self.program.buffer(channel.buffers[0])
        if channel.kind is not ChannelKind.AFTER and channel.slots == buffer.depth:
            what = buffer.holds[end.position]
        if channel.per is Space.TILE:
            if channel.slots > 1:
                return counters.tile_ring(what, depth)
            return "", counters.tile_phase()
        if channel.slots == 1 and channel.rate == 1:
            return "", counters.step_phase(shift)
        slot, phase = counters.step_ring(what, shift, channel.rate, end.position, depth)
        return ("" if channel.slots == 1 else slot), phase

    def _barrier(self, channel: Channel, slot: str, group: str) -> str:
        terms = [
            (group if len(channel.groups) > 1 else "", "GROUPS"),
            (slot, slots_text(self.program, channel) if channel.slots > 1 else ""),
            ("piece" if channel.slices > 1 else "", slices_name(channel.buffers[0])),
        ]
        return f"{channel.name}[{flat_index([term for term in terms if term[0]])}]"


def flat_index(terms: list[tuple[str, str]]) -> str:
    """Return the index of (index, extent) pairs in one array, without noise."""
    index = ""
    for term, extent in terms:
        if index in ("", "0"):
            index = term
        elif extent == "1":
            index = f"{index} + {term}"
        elif index == "1":
            index = f"{extent} + {term}"
        else:
            index = f"{f'({index})' if ' ' in index else index} * {extent} + {term}"
    return index or "0"


def _in_slice(line: Line, piece: int) -> Line:
    return Line(line.text, (*line.conditions, f"piece == {piece}"))
