"""What changed in roles and in the pipeline: who does what, in which order, how far ahead."""

from __future__ import annotations

from collections.abc import Iterator

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
    return tuple(map(pairing.translate, op.how))


def _moved_ops(before: Facts, after: Facts, pairing: Pairing) -> Iterator[Change]:
    """Yield ops that another role executes, and those that only one schedule has."""
    old = {op.name: role.name for role in before.roles for op in role.ops}
    new = {op.name: role.name for role in after.roles for op in role.ops}
    gone = {role.name for role in before.roles if role.name not in pairing.roles}
    made = {role.name for role in after.roles} - set(pairing.roles.values())
    for op, role in old.items():
        other, mine = new.get(op), pairing.roles.get(role, role)
        if other is not None and other != mine:
            words = f"does `{op}` now, which `{role}` did"
            yield Change(part=Part.ROLES, name=other, words=words)
        elif other is None and role not in gone:
            yield Change(part=Part.ROLES, name=mine, words=f"does no `{op}` any more")
    for op, role in new.items():
        if op not in old and role not in made:
            yield Change(part=Part.ROLES, name=role, words=f"does `{op}`, which is new")


def _pipeline(role: RoleFact, other: RoleFact) -> Iterator[Change]:
    """Yield changes of order and of offsets, of the ops that both have."""
    both = {op.name for op in role.loop} & {op.name for op in other.loop}
    yield from _offsets(role, other, both)
    yield from _places(role, other)
    for where, mine, theirs in (
        ("before the loop", role.before, other.before),
        ("behind the loop", role.after, other.after),
    ):
        kept = {op.name for op in mine} & {op.name for op in theirs}
        was, now = (_shown(ops, kept) for ops in (mine, theirs))
        if was != now and _order(mine, kept) != _order(theirs, kept):
            words = f"order {where}: {was} -> {now}"
            yield Change(part=Part.PIPELINE, name=other.name, words=words)
    old, new = (_shown(one.loop, both) for one in (role, other))
    if old == new or _order(role.loop, both) == _order(other.loop, both):
        return
    if _issued(role.loop, both) == _issued(other.loop, both):
        words = f"{old} -> {new}: the same sequence, only a lap begins elsewhere"
    else:
        words = f"{old} -> {new}"
    yield Change(part=Part.PIPELINE, name=other.name, words=f"order in the loop: {words}")


def _offsets(role: RoleFact, other: RoleFact, both: set[str]) -> Iterator[Change]:
    for name in sorted(both, key=[op.name for op in other.loop].index):
        old, new = ({op.offset for op in one.loop if op.name == name} for one in (role, other))
        if old != new and len(old) == len(new) == 1:
            words = f"`{name}`: {_lag(old.pop())} -> {_lag(new.pop())}"
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


def _shown(ops: tuple[OpFact, ...], both: set[str]) -> str:
    return "`" + "  ".join(op.words for op in ops if op.name in both) + "`"


def _order(ops: tuple[OpFact, ...], both: set[str]) -> list[tuple[str, tuple[int, ...]]]:
    return [(op.name, op.groups) for op in ops if op.name in both]


def _issued(ops: tuple[OpFact, ...], both: set[str]) -> list[tuple[str, tuple[int, ...], int]]:
    """Return what is issued for a tile of some steps, lap by lap."""
    reach = max((abs(op.offset) for op in ops), default=0)
    return [
        (op.name, op.groups, lap + op.offset)
        for lap in range(-reach, _STEPS + reach)
        for op in ops
        if op.name in both and 0 <= lap + op.offset < _STEPS
    ]
