"""One execution of a trace: which arrivals complete which phase, and which phase each wait saw.

Loads, stores and MMAs complete at once. If the rule `parity` holds, every other execution pairs
arrivals, phases and waits in the same way, so that one is enough.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ..target import WARP_THREADS
from .trace import Action, ActionKind, RoleText, Signal, Trace

#: An action of a role: (role, index).
Place = tuple[RoleText, int]


@dataclass(slots=True)
class _Barrier:
    """State of one mbarrier."""

    count: int
    arrived: int = 0
    bytes: int = 0
    completed: int = 0


@dataclass(frozen=True, slots=True)
class Meeting:
    """One generation of a named barrier: who arrived and went on, and who waited for them.

    Attributes:
        threads: of all of them.
        wanted: what the waiter says that complete it.
    """

    signal: Signal
    arrivals: tuple[Place, ...]
    waiter: Place
    threads: int
    wanted: int


@dataclass(slots=True)
class Execution:
    """What happened.

    Attributes:
        arrivals: (barrier, completion) -> places that arrived, or whose MMA or load did.
        waits: place of a wait -> (barrier, completion that it saw; -1 on a fresh barrier).
        takes: tile -> places that took it.
        asks: tile -> place that asked for the one after it.
        meetings: generations of named barriers.
        again: arrivals of a role at a named barrier where it is already.
        stuck: places at which roles wait for ever.
    """

    arrivals: dict[tuple[Signal, int], list[Place]] = field(
        default_factory=lambda: defaultdict(list)
    )
    waits: dict[Place, tuple[Signal, int]] = field(default_factory=dict)
    takes: dict[int, list[Place]] = field(default_factory=lambda: defaultdict(list))
    asks: dict[int, Place] = field(default_factory=dict)
    meetings: list[Meeting] = field(default_factory=list)
    again: list[Place] = field(default_factory=list)
    stuck: list[Place] = field(default_factory=list)


def execute(trace: Trace) -> Execution:
    """Run every role as far as it goes, in turn, until none can move."""
    run = _Run(trace)
    moved = True
    while moved:
        moved = False
        for role in trace.actions:
            moved |= run.advance(role)
    run.result.stuck = [
        (role, at) for role, at in run.position.items() if at < len(trace.actions[role])
    ]
    return run.result


class _Run:
    """The roles, the barriers and the tile channel in motion."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.result = Execution()
        self.position = dict.fromkeys(trace.actions, 0)
        self.barriers: dict[Signal, _Barrier] = {}
        self.named: dict[Signal, list[Place]] = defaultdict(list)
        self.asked = 0
        self.taken: dict[RoleText, int] = defaultdict(int)

    def advance(self, role: RoleText) -> bool:
        """Run one role until it has to wait; return whether it moved."""
        actions = self.trace.actions[role]
        start = self.position[role]
        while self.position[role] < len(actions):
            if not self._step(role, actions[self.position[role]], self.position[role]):
                break
            self.position[role] += 1
        return self.position[role] > start

    def _step(self, role: RoleText, action: Action, index: int) -> bool:
        place = (role, index)
        match action.kind:
            case ActionKind.WAIT:
                return self._wait(place, action)
            case ActionKind.ARRIVE | ActionKind.COMMIT:
                assert action.signal is not None
                self._arrive(place, action.signal, max(action.value, 1))
            case ActionKind.EXPECT:
                assert action.signal is not None
                self._barrier(action.signal).bytes += action.value
                self._arrive(place, action.signal, 1)
            case ActionKind.LOAD:
                assert action.signal is not None
                barrier = self._barrier(action.signal)
                self.result.arrivals[action.signal, barrier.completed].append(place)
                barrier.bytes -= self._tile_bytes(action)
                self._complete(action.signal)
            case ActionKind.MMA:
                for signal in action.commits:
                    self._arrive(place, signal, 1)
            case ActionKind.HAND:
                assert action.signal is not None
                there = self.named[action.signal]
                if any(other == role for other, _ in there):
                    self.result.again.append(place)
                there.append(place)
            case ActionKind.MEET:
                return self._meet(place, action)
            case ActionKind.ASK:
                roles = len(self.trace.actions)
                if self.asked and len(self.result.takes[self.asked - 1]) < roles:
                    return False
                self.result.asks[self.asked] = place
                self.asked += 1
            case ActionKind.TAKE:
                if self.taken[role] >= self.asked:
                    return False
                self.result.takes[self.taken[role]].append(place)
                self.taken[role] += 1
            case _:
                pass
        return True

    def _meet(self, place: Place, action: Action) -> bool:
        """Complete a generation if the threads that arrived and those that wait are enough."""
        assert action.signal is not None
        there = self.named[action.signal]
        threads = WARP_THREADS * sum(self._warps(role) for role, _ in (*there, place))
        if threads < action.value:
            return False
        meeting = Meeting(action.signal, tuple(there), place, threads, action.value)
        self.result.meetings.append(meeting)
        there.clear()
        return True

    def _warps(self, role: RoleText) -> int:
        return role.warps or self.trace.default_warps

    def _barrier(self, signal: Signal) -> _Barrier:
        if signal not in self.barriers:
            declared = self.trace.barriers.get(signal.name)
            self.barriers[signal] = _Barrier(declared.count if declared else 1)
        return self.barriers[signal]

    def _tile_bytes(self, action: Action) -> int:
        tiles = self.trace.tiles[action.writes[0].array]
        size = tiles.element_bytes
        for extent in tiles.shape:
            size *= extent
        return size

    def _wait(self, place: Place, action: Action) -> bool:
        assert action.signal is not None
        completed = self._barrier(action.signal).completed
        if (completed - 1) & 1 != action.value:
            return False
        self.result.waits[place] = (action.signal, completed - 1)
        return True

    def _arrive(self, place: Place, signal: Signal, arrivals: int) -> None:
        barrier = self._barrier(signal)
        self.result.arrivals[signal, barrier.completed].append(place)
        barrier.arrived += arrivals
        self._complete(signal)

    def _complete(self, signal: Signal) -> None:
        barrier = self._barrier(signal)
        if barrier.arrived >= barrier.count and barrier.bytes == 0:
            barrier.arrived -= barrier.count
            barrier.completed += 1
