"""What changed in roles and in the pipeline: who does what, in which order, how far ahead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..diagnostics import quoted
from .changes import Change, Part
from .facts import Facts, OpFact, RoleFact
from .pairing import Pairing

#: Steps for which two orders of a loop are compared; more than any lag.
_STEPS = 8


def role_changes(before: Facts, after: Facts, pairing: Pairing) -> Iterator[Change]:
    """Yield what changed in each role, those of the second schedule last."""
    new = {role.name: role for role in after.roles}
    for role in before.roles:
        other = new.pop(pairing.roles.get(role.name, ""), None)
        if other is None:
            ops = ", ".join(op.words for op in role.ops)
            yield Change(part=Part.ROLES, name=role.name, words=f"is gone, with {ops}")
            continue
        yield from _of_role(role, other)
    for role in new.values():
        ops = ", ".join(op.words for op in role.ops)
        words = f"is new: {_size(role)}, with {ops}"
        yield Change(part=Part.ROLES, name=role.name, words=words)
    yield from _moved_ops(before, after, pairing)
    yield from _ways(before, after, pairing)
    for role in before.roles:
        other = next((r for r in after.roles if r.name == pairing.roles.get(role.name)), None)
        if other is not None:
            yield from _pipeline(role, other)


def _size(role: RoleFact) -> str:
    several = f"{role.replicas} x " if role.replicas > 1 else ""
    warps = f"{several}{role.warps} warp{'s' * (role.warps > 1)}"
    left = " (what is left)" if role.default else ""
    return f"{warps} of {role.registers} registers a thread{left}"


def _of_role(role: RoleFact, other: RoleFact) -> Iterator[Change]:
    name = other.name
    if name != role.name:
        yield Change(part=Part.ROLES, name=name, words=f"was called `{role.name}`")
    if _size(role) != _size(other):
        yield Change(part=Part.ROLES, name=name, words=f"{_size(role)} -> {_size(other)}")
    if role.peel != other.peel:
        words = (
            "is peeled: the loop's main part has no mask test"
            if other.peel
            else "is not peeled any more: one loop, with the mask test in it"
        )
        yield Change(part=Part.PIPELINE, name=name, words=words)


@dataclass(frozen=True, slots=True)
class _Doing:
    """Who does an op for one group, and how; the offset is None outside the loop."""

    role: str
    offset: int | None
    how: tuple[str, ...]


#: Op -> group, or -1 of an op without any -> who does it.
_Doers = dict[str, dict[int, _Doing]]


def _doers(facts: Facts) -> _Doers:
    found: _Doers = {}
    for role in facts.roles:
        for ops, in_loop in ((role.before, False), (role.loop, True), (role.after, False)):
            for op in ops:
                doing = _Doing(role.name, op.offset if in_loop else None, op.how)
                found.setdefault(op.name, {}).update(dict.fromkeys(op.groups or (-1,), doing))
    return found


def _moved_ops(before: Facts, after: Facts, pairing: Pairing) -> Iterator[Change]:
    """Yield ops that another role executes, and those that only one schedule has."""
    old, new = _doers(before), _doers(after)
    gone = {role.name for role in before.roles if role.name not in pairing.roles}
    made = {role.name for role in after.roles} - set(pairing.roles.values())
    for op, doers in old.items():
        moves: dict[tuple[str, str], list[int]] = {}
        for group, was in doers.items():
            now = new.get(op, {}).get(group)
            if now is not None and now.role != pairing.roles.get(was.role, was.role):
                moves.setdefault((was.role, now.role), []).append(group)
        for (role, other), groups in moves.items():
            words = f"does {_named(op, groups, doers)} now, which `{role}` did"
            yield Change(part=Part.ROLES, name=other, words=words)
        still = {doing.role for doing in new.get(op, {}).values()}
        for role, groups in _left(doers, new.get(op, {}), gone).items():
            name = pairing.roles.get(role, role)
            if name not in still:
                words = f"does no {_named(op, groups, doers)} any more"
                yield Change(part=Part.ROLES, name=name, words=words)
    for op, doers in new.items():
        already = {pairing.roles.get(one.role, one.role) for one in old.get(op, {}).values()}
        for role, groups in _left(doers, old.get(op, {}), made).items():
            if role not in already:
                words = f"does {_named(op, groups, doers)}, which is new"
                yield Change(part=Part.ROLES, name=role, words=words)


def _left(
    doers: Mapping[int, _Doing], others: Mapping[int, _Doing], told: set[str]
) -> dict[str, list[int]]:
    """Return role -> groups that the other schedule does not have; not of roles told already."""
    found: dict[str, list[int]] = {}
    for group, doing in doers.items():
        if group not in others and doing.role not in told:
            found.setdefault(doing.role, []).append(group)
    return found


def _named(op: str, groups: Sequence[int], doers: Mapping[int, _Doing]) -> str:
    """Return an op in words: with its groups, if they are not all."""
    return quoted([op] if len(groups) == len(doers) else [f"{op}[{g}]" for g in groups], "and")


def _ways(before: Facts, after: Facts, pairing: Pairing) -> Iterator[Change]:
    """Yield changes of offsets and of all else that is said of an op, whoever does it."""
    old = _doers(before)
    for op, doers in _doers(after).items():
        changed: dict[tuple[str, str], list[int]] = {}
        for group, now in doers.items():
            was = old.get(op, {}).get(group)
            if was is None:
                continue
            if None not in (was.offset, now.offset) and was.offset != now.offset:
                words = f"{_lag(was.offset or 0)} -> {_lag(now.offset or 0)}"
                changed.setdefault((now.role, words), []).append(group)
            if (how := tuple(map(pairing.staged_in, was.how))) != now.how:
                said = (" and ".join(part) or "without that" for part in (how, now.how))
                changed.setdefault((now.role, " -> ".join(said)), []).append(group)
        for (role, words), groups in changed.items():
            words = f"{_named(op, groups, doers)}: {words}"
            yield Change(part=Part.PIPELINE, name=role, words=words)


def _each(ops: tuple[OpFact, ...]) -> list[tuple[str, int, int]]:
    """Return ops group by group: name, group or -1, offset."""
    return [(op.name, group, op.offset) for op in ops for group in op.groups or (-1,)]


def _pipeline(role: RoleFact, other: RoleFact) -> Iterator[Change]:
    """Yield changes of order and of place, of the ops that both have."""
    yield from _places(role, other)
    for where, mine, theirs in (
        ("before the loop", role.before, other.before),
        ("in the loop", role.loop, other.loop),
        ("behind the loop", role.after, other.after),
    ):
        both = {one[:2] for one in _each(mine)} & {one[:2] for one in _each(theirs)}
        if _order(mine, both) == _order(theirs, both):
            continue
        words = f"order {where}: {_shown(mine, both)} -> {_shown(theirs, both)}"
        if where == "in the loop" and _issued(mine, both) == _issued(theirs, both):
            words += ": the same sequence, only a lap begins elsewhere"
        yield Change(part=Part.PIPELINE, name=other.name, words=words)


def _lag(offset: int) -> str:
    if not offset:
        return "in its own step"
    count = f"{abs(offset)} step{'s' * (abs(offset) > 1)}"
    return f"{count} {'behind' if offset < 0 else 'ahead'}"


def _places(role: RoleFact, other: RoleFact) -> Iterator[Change]:
    """Yield ops that moved into or out of the loop."""
    where = {}
    for one, role_fact in (("old", role), ("new", other)):
        for words, ops in (
            ("before the loop", role_fact.before),
            ("in the loop", role_fact.loop),
            ("behind the loop", role_fact.after),
        ):
            where.update({(one, op.name): words for op in ops})
    for op in dict.fromkeys(op.name for op in other.ops):
        old, new = where.get(("old", op)), where.get(("new", op))
        if old is not None and old != new:
            words = f"`{op}`: {old} -> {new}"
            yield Change(part=Part.PIPELINE, name=other.name, words=words)


def _shown(ops: tuple[OpFact, ...], both: set[tuple[str, int]]) -> str:
    shown = [op.words for op in ops if any(one[:2] in both for one in _each((op,)))]
    return f"`{'  '.join(shown)}`"


def _order(ops: tuple[OpFact, ...], both: set[tuple[str, int]]) -> list[tuple[str, int]]:
    return [one[:2] for one in _each(ops) if one[:2] in both]


def _issued(ops: tuple[OpFact, ...], both: set[tuple[str, int]]) -> list[tuple[str, int, int]]:
    """Return what is issued for a tile of some steps, lap by lap."""
    kept = [one for one in _each(ops) if one[:2] in both]
    reach = max((abs(offset) for _, _, offset in kept), default=0)
    return [
        (name, group, lap + offset)
        for lap in range(-reach, _STEPS + reach)
        for name, group, offset in kept
        if 0 <= lap + offset < _STEPS
    ]
