"""A kernel's trace, ready to be run by brute force: steps with numbers for barriers and cells."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from brute_gradients import GradientMeaning
from brute_hopper_gradients import HopperGradientMeaning
from brute_meaning import Cells, Meaning, Touch

from jfagen.readback.trace import ActionKind, RoleText, Trace

WARP_THREADS = 32
AnyMeaning = Meaning | GradientMeaning | HopperGradientMeaning


class Found(Exception):
    """Ends a run at its first trouble."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind, self.words = kind, words


@dataclass(slots=True)
class Code:
    """A trace as steps of (what, ...) for every role; cut after each tile where `tiles` says so."""

    trips: tuple[int, ...]
    names: list[str]
    steps: list[list[tuple]]
    counts: list[tuple[str, int]]


def code_of(trace: Trace, groups: int) -> Code:
    """Return a trace ready to run."""
    cells = Cells(trace)
    numbers: dict[object, int] = {}
    counts: list[tuple[str, int]] = []

    def barrier(signal) -> int:
        if signal not in numbers:
            declared = trace.barriers[signal.name]
            if not 0 <= signal.index < declared.number:
                raise Found("index", f"{signal.name}[{signal.index}] of {declared.number}")
            numbers[signal] = len(counts)
            counts.append((f"{signal.name}[{signal.index}]", declared.count))
        return numbers[signal]

    steps = [
        _role_steps(
            [action for action in actions if not _meets_itself(trace, role, action)],
            cells,
            meaning_of(trace, groups, role.replica),
            barrier,
        )
        for role, actions in trace.actions.items()
    ]
    names = [f"{role.name}[{role.replica}]" for role in trace.actions]
    return Code(trace.trips, names, steps, counts)


def meaning_of(trace: Trace, groups: int, replica: int) -> AnyMeaning:
    """Return what says what the actions of a role mean."""
    if "dq_tiles" in trace.tiles:
        return GradientMeaning(trace)
    if "ds_tiles" in trace.tiles:
        return HopperGradientMeaning(trace, groups, replica)
    return Meaning(trace, groups, replica)


def _meets_itself(trace: Trace, role: RoleText, action) -> bool:
    """Whether the warps of one role meet: it is one party here."""
    threads = WARP_THREADS * (role.warps or trace.default_warps)
    return action.kind is ActionKind.MEET and action.value == threads


def _role_steps(actions, cells: Cells, meaning: AnyMeaning, barrier) -> list[tuple]:
    steps: list[tuple] = []
    for action, following in zip_longest(actions, actions[1:]):
        kind, line = action.kind, action.line
        if kind in (ActionKind.READ, ActionKind.WRITE):
            if not steps or steps[-1][0] != "touch":
                steps.append(("touch", Touch()))
            writes = kind is ActionKind.WRITE
            value = meaning.write(action) if writes else meaning.read(action, following)
            regions = action.writes if writes else action.reads
            steps[-1][1].accesses += [(writes, cells.of(r), value, line) for r in regions]
        elif kind is ActionKind.WAIT:
            steps.append(("wait", barrier(action.signal), action.value, line))
        elif kind is ActionKind.ARRIVE:
            steps.append(("arrive", barrier(action.signal), max(1, action.value), 0, line))
        elif kind is ActionKind.EXPECT:
            steps.append(("arrive", barrier(action.signal), 1, action.value, line))
        elif kind is ActionKind.COMMIT:
            steps.append(("mma", None, (barrier(action.signal),), line))
        elif kind is ActionKind.LOAD:
            region = action.writes[0]
            touch = Touch([(True, cells.of(region), meaning.load(action), line)])
            steps.append(("load", touch, barrier(action.signal), cells.bytes(region.array), line))
        elif kind is ActionKind.MMA:
            touch = _matmul(action, cells, meaning)
            steps.append(("mma", touch, tuple(barrier(s) for s in action.commits), line))
        elif kind is ActionKind.STORE:
            value = meaning.stored(action)
            touch = Touch([(False, cells.of(action.reads[0]), value, line)])
            steps.append(("store", touch, line))
        elif kind in (ActionKind.MEET, ActionKind.HAND):
            steps.append((kind.value, action.signal.index, action.value, line))
        elif kind in (ActionKind.DRAIN, ActionKind.JOIN, ActionKind.ASK, ActionKind.TAKE):
            steps.append((kind.value, action.value, line))
        else:
            assert kind in (ActionKind.FENCE, ActionKind.GLOBAL), kind
    return steps


def _matmul(action, cells: Cells, meaning: AnyMeaning) -> Touch:
    if action.joined:
        operands = meaning.joined(action)
        return Touch(
            [
                (False, cells.of(region), value, action.line)
                for region, value in zip(action.reads, operands, strict=True)
            ]
        )
    operands, before, after = meaning.mma(action)
    target = cells.of(action.writes[0])
    accesses = [
        (False, cells.of(region), value, action.line)
        for region, value in zip(action.reads, operands, strict=True)
    ]
    if before is not None:
        accesses.append((False, target, before, action.line))
    return Touch([*accesses, (True, target, after, action.line)])
