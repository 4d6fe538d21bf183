"""round-trip: the emitted text does what the plan says, action by action.

What: the text is executed without numbers for a few tiles; every role's waits, arrivals, phases,
bytes, accesses, fences and stores must equal those of plan, channels and placement, and so must the
declared barriers, tiles, overlaps and roles.

Why: the rules prove the plan. A template that spells something else would void the proof.

Example: an accumulator that is read before a barrier in the text and after it in the plan.

Fix: this is a mistake of the compiler or its templates, never of a schedule.

Assumes: consecutive waits may be swapped, and so may consecutive arrivals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

from ..emit.names import text_shape, tiles_name
from ..passes.channels import SyncPlan
from ..passes.placement import Placement, copies
from ..planning import Plan
from ..semantics.program import Program
from ..semantics.regions import Arrangement, Beside, Leaf, leaves
from ..types import Storage
from .expected import ExpectedTrace, expected_barriers
from .trace import Action, ActionKind, Region, Trace

_SORTED = (ActionKind.WAIT, ActionKind.ARRIVE, ActionKind.COMMIT)
_ACCESSES = (ActionKind.READ, ActionKind.WRITE)


ID = "round-trip"
PROVES = "the emitted text does what the plan says, action by action"


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the text and the plan disagree.

    Attributes:
        line: of the text; 0 where something is missing altogether.
        message: what the text does, and what the plan says.
    """

    line: int
    message: str


def differences(plan: Plan, placement: Placement, sync: SyncPlan, trace: Trace) -> list[Difference]:
    """Return where the text's trace departs from the plan: the first place of every role."""
    found = [*_barrier_differences(sync, trace), *_tile_differences(plan, placement, trace)]
    expected = ExpectedTrace(plan, sync, trace.trips).roles()
    for role in expected.keys() - trace.actions.keys():
        found.append(Difference(0, f"role `{role.name}` is missing or declared otherwise"))
    for role, actions in trace.actions.items():
        if role not in expected:
            found.append(Difference(0, f"role `{role.name}` is not in the plan as it stands"))
            continue
        found += _first_difference(role.name, normal(actions), normal(expected[role]))
    return found


def normal(actions: tuple[Action, ...]) -> list[Action]:
    """Return the actions in an order that does not depend on what is free.

    Consecutive waits may be swapped, and so may arrivals; accesses by warps between two
    synchronisations are merged into whole ranges of columns.
    """
    flat: list[Action] = []
    for action in actions:
        flat.append(replace(action, commits=(), tensor=_tensor(action)))
        flat += [Action(ActionKind.COMMIT, action.line, signal=signal) for signal in action.commits]
    flat = _globals_merged(flat)
    found: list[Action] = []
    for kind, run in groupby(flat, key=_group_key):
        group = list(run)
        if kind == "accesses":
            found += _merged(group)
        elif kind in _SORTED:
            found += sorted(group, key=lambda a: (str(a.signal), a.value))
        else:
            found += group
    return found


def _tensor(action: Action) -> str:
    """Descriptors are named by the template; only fences and global stores are compared."""
    return action.tensor if action.kind in (ActionKind.FENCE, ActionKind.GLOBAL) else ""


def _group_key(action: Action) -> str:
    return "accesses" if action.kind in _ACCESSES else action.kind


def _globals_merged(actions: list[Action]) -> list[Action]:
    """Global stores move to the end of their tile, each tensor once; adds stay where they are."""
    found: list[Action] = []
    waiting: dict[str, Action] = {}
    for action in actions:
        if action.kind is ActionKind.GLOBAL and not action.accumulates:
            waiting.setdefault(action.tensor, action)
            continue
        if action.kind in (ActionKind.TAKE, ActionKind.ASK):
            found += [waiting.pop(tensor) for tensor in sorted(waiting)]
        found.append(action)
    return found + [waiting[tensor] for tensor in sorted(waiting)]


def _merged(accesses: list[Action]) -> list[Action]:
    ranges: dict[tuple[ActionKind, str, int], tuple[int, int, int]] = {}
    for access in accesses:
        for region in access.reads + access.writes:
            key = (access.kind, region.array, region.copy)
            line, start, stop = ranges.get(key, (access.line, region.start, region.stop))
            ranges[key] = (line, min(start, region.start), max(stop, region.stop))
    found: list[Action] = []
    for (kind, array, copy), (line, start, stop) in sorted(ranges.items()):
        whole = (Region(array, copy, start, stop),)
        if kind is ActionKind.READ:
            found.append(Action(kind, line, reads=whole))
        else:
            found.append(Action(kind, line, writes=whole))
    return found


def _first_difference(role: str, text: list[Action], plan: list[Action]) -> list[Difference]:
    for mine, wanted in zip_longest(text, plan):
        if mine is not None and wanted is not None and replace(mine, line=0) == wanted_at(wanted):
            continue
        line = mine.line if mine is not None else 0
        does = words(mine) if mine is not None else "ends"
        should = words(wanted) if wanted is not None else "end"
        return [Difference(line, f"role `{role}` {does}; the plan says: {should}")]
    return []


def wanted_at(action: Action) -> Action:
    """Return an action of the plan without a line."""
    return replace(action, line=0)


def words(action: Action) -> str:
    """Return an action in words."""
    parts: list[str] = [action.kind.value]
    if action.signal is not None:
        parts.append(f"`{action.signal.name}[{action.signal.index}]`")
    if action.kind in (ActionKind.WAIT, ActionKind.ASK, ActionKind.TAKE):
        parts.append(f"phase {action.value}")
    if action.kind is ActionKind.EXPECT:
        parts.append(f"{action.value} bytes")
    for verb, regions in (("of", action.reads), ("into", action.writes)):
        for region in regions:
            parts.append(
                f"{verb} `{region.array}[{region.copy}]` {region.start}..{region.stop - 1}"
            )
    if action.kind in (ActionKind.MMA, ActionKind.STORE, ActionKind.GLOBAL):
        parts.append("accumulating" if action.accumulates else "overwriting")
    if action.kind in (ActionKind.DRAIN, ActionKind.JOIN):
        parts.append(f"until {action.value} are in flight")
    if action.tensor:
        parts.append(f"`{action.tensor}`")
    return " ".join(parts)


def _barrier_differences(sync: SyncPlan, trace: Trace) -> list[Difference]:
    found: list[Difference] = []
    wanted = expected_barriers(sync)
    for name, barriers in trace.barriers.items():
        mine = (barriers.number, barriers.count, barriers.threads)
        if wanted.get(name) != mine:
            found.append(
                Difference(
                    barriers.line,
                    f"`{name}` has {mine[0]} barriers with {mine[1]} arrivals each; the plan says "
                    f"{wanted.get(name, 'nothing of it')}",
                )
            )
    missing = wanted.keys() - trace.barriers.keys()
    return found + [Difference(0, f"`{name}` is not allocated") for name in sorted(missing)]


def _tile_differences(plan: Plan, placement: Placement, trace: Trace) -> list[Difference]:
    program = plan.program
    found: list[Difference] = []
    for buffer in program.buffers:
        if buffer.storage is Storage.REG:
            continue
        name = tiles_name(buffer.name)
        tiles = trace.tiles.get(name)
        wanted = (
            text_shape(buffer),
            buffer.dtype.bytes,
            copies(program, buffer),
            buffer.storage.value,
        )
        if tiles is None:
            found.append(Difference(0, f"`{name}` is not allocated"))
        elif (tiles.shape, tiles.element_bytes, tiles.number, tiles.storage) != wanted:
            found.append(Difference(tiles.line, f"`{name}` is not what the plan says: {wanted}"))
    trees = [tree for tree in placement.layout.trees if not isinstance(tree, Leaf)]
    mine = sorted(map(str, trace.overlaps.values()))
    if mine != sorted(str(_tree(program, tree)) for tree in trees):
        found.append(Difference(0, "the text shares memory otherwise than the plan"))
    for tree in trees:
        spaces = {
            tiles.space
            for leaf in leaves(tree)
            if (tiles := trace.tiles.get(tiles_name(leaf.buffer))) is not None
        }
        if len(spaces) != 1:
            found.append(Difference(0, "the members of a shared place lie in different ones"))
    return found


def _tree(program: Program, tree: Arrangement) -> object:
    if isinstance(tree, Leaf):
        return tiles_name(tree.buffer)
    kind = "distinct" if isinstance(tree, Beside) else "shared"
    return (kind, tuple(_tree(program, part) for part in tree.parts))
