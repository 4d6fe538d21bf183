"""What changed in roles and in the pipeline: who does what, in which order, how far ahead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

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
        yield from _of_role(role, other, pairing)
    for role in new.values():
        ops = ", ".join(op.words for op in role.ops)
        words = f"is new: {_size(role)}, with {ops}"
        yield Change(part=Part.ROLES, name=role.name, words=words)
    yield from _moved_ops(before, after, pairing)
    for role in before.roles:
        other = next((r for r in after.roles if r.name == pairing.roles.get(role.name)), None)
        if other is not None:
            yield from _pipeline(role, other)


def _size(role: RoleFact) -> str:
    several = f"{role.replicas} x " if role.replicas > 1 else ""
    warps = f"{several}{role.warps} warp{'s' * (role.warps > 1)}"
    left = " (what is left)" if role.default else ""
    return f"{warps} of {role.registers} registers a thread{left}"


def _of_role(role: RoleFact, other: RoleFact, pairing: Pairing) -> Iterator[Change]:
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
    old = {(op.name, op.groups): op for op in role.ops}
    for op in other.ops:
        was = old.get((op.name, op.groups))
        if was is not None and (how := _how(was, pairing)) != op.how:
            said = (" and ".join(part) or "without that" for part in (how, op.how))
            words = "`{}`: {} -> {}".format(op.words, *said)
            yield Change(part=Part.PIPELINE, name=name, words=words)


def _how(op: OpFact, pairing: Pairing) -> tuple[str, ...]:
    """Return what a schedule says of an op, in the other schedule's names."""
    return tuple(map(pairing.buffers_in, op.how))


def _moved_ops(before: Facts, after: Facts, pairing: Pairing) -> Iterator[Change]:
    """Yield ops that another role executes, and those that only one schedule has."""
    old, new = (_who_does(facts) for facts in (before, after))
    gone = {role.name for role in before.roles if role.name not in pairing.roles}
    made = {role.name for role in after.roles} - set(pairing.roles.values())
    for op, doers in old.items():
        moves: dict[tuple[str, str], list[int]] = {}
        for group, role in doers.items():
            other = new.get(op, {}).get(group)
            if other is not None and other != pairing.roles.get(role, role):
                moves.setdefault((role, other), []).append(group)
        for (role, other), groups in moves.items():
            shown = [op] if len(groups) == len(doers) else [f"{op}[{one}]" for one in groups]
            words = f"does {quoted(shown, 'and')} now, which `{role}` did"
            yield Change(part=Part.ROLES, name=other, words=words)
        for role in dict.fromkeys(doers.values()) if op not in new else ():
            if role not in gone:
                words = f"does no `{op}` any more"
                yield Change(part=Part.ROLES, name=pairing.roles.get(role, role), words=words)
    for op, doers in new.items():
        for role in dict.fromkeys(doers.values()) if op not in old else ():
            if role not in made:
                yield Change(part=Part.ROLES, name=role, words=f"does `{op}`, which is new")


def _who_does(facts: Facts) -> dict[str, dict[int, str]]:
    """Return op -> group -> role; the group is -1 of an op without any."""
    found: dict[str, dict[int, str]] = {}
    for role in facts.roles:
        for name, group, _ in _each(role.ops):
            found.setdefault(name, {})[group] = role.name
    return found


def _each(ops: tuple[OpFact, ...]) -> list[tuple[str, int, int]]:
    """Return ops group by group: name, group or -1, offset."""
    return [(op.name, group, op.offset) for op in ops for group in op.groups or (-1,)]


def _pipeline(role: RoleFact, other: RoleFact) -> Iterator[Change]:
    """Yield changes of order and of offsets, of the ops that both have."""
    yield from _offsets(role, other)
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


def _offsets(role: RoleFact, other: RoleFact) -> Iterator[Change]:
    old = {(name, group): offset for name, group, offset in _each(role.loop)}
    changed: dict[str, dict[tuple[int, int], list[int]]] = {}
    count = Counter(name for name, _, _ in _each(other.loop))
    for name, group, offset in _each(other.loop):
        was = old.get((name, group), offset)
        if was != offset:
            changed.setdefault(name, {}).setdefault((was, offset), []).append(group)
    for name, ways in changed.items():
        for (was, now), groups in ways.items():
            shown = [name] if len(groups) == count[name] else [f"{name}[{g}]" for g in groups]
            words = f"{quoted(shown, 'and')}: {_lag(was)} -> {_lag(now)}"
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
