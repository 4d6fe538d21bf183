"""Which role and which buffer of one schedule is which of another, whatever they are called."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .facts import BufferFact, Facts, RoleFact

Named = TypeVar("Named", RoleFact, BufferFact)


@dataclass(frozen=True, slots=True)
class Pairing:
    """Names of the first schedule -> names of the second, where both have such a thing."""

    roles: dict[str, str]
    buffers: dict[str, str]

    def translate(self, words: str, kept: frozenset[str] = frozenset()) -> str:
        """Return words of the first schedule, or lines of its kernel, with the names of the second.

        The name of a buffer is a part of other names there, `kv_full` and `KV_DEPTH`, and that of
        a role a part of constants: `COMPUTE_THREADS`.

        Args:
            words: the words, or a line.
            kept: identifiers that the second kernel has too. They stay as they are where only a
                part of them is such a name: `kv_offsets` is called so whatever the buffers are.
        """
        roles = {old: new for old, new in self.roles.items() if old != new}
        buffers = {old: new for old, new in self.buffers.items() if old != new}
        buffers |= {old.upper(): new.upper() for old, new in (roles | buffers).items()}
        # `tl.store` is no role.
        words = _replaced(words, roles, r"(?<![\w.])({})\b")
        if not buffers:
            return words

        def renamed(found: re.Match[str]) -> str:
            if found[0] in kept and found[0] not in buffers:
                return found[0]
            return _replaced(found[0], buffers, r"(?<![A-Za-z0-9])({})(?![A-Za-z0-9])")

        return re.sub(r"\w+", renamed, words)

    def buffers_in(self, words: str) -> str:
        """Return words of the first schedule with the buffers' names of the second."""
        return _replaced(words, self.buffers, r"\b({})\b")

    def staged_in(self, words: str) -> str:
        """Return what is said of an op, with the name of the buffer that it goes through."""
        return _replaced(words, self.buffers, r"(?<=through `)({})\b")

    def forms(self, token: str) -> frozenset[str]:
        """Return what a token of the first kernel's text may be called in the second's."""
        roles = {old: new for old, new in self.roles.items() if old != new}
        buffers = {old: new for old, new in self.buffers.items() if old != new}
        part = r"(?<![A-Za-z0-9])({})(?![A-Za-z0-9])"
        upper = {old.upper(): new.upper() for old, new in (roles | buffers).items()}
        found = {token}
        for names in (roles, buffers, upper):
            found |= {_replaced(one, names, part) for one in found}
        return frozenset(found)

    def roles_in(self, words: str) -> str:
        """Return `role: ops; role: ops` with the roles' names of the second schedule."""
        return _replaced(words, self.roles, r"(?:(?<=; )|^)({})(?=: )")

    @property
    def renamed(self) -> bool:
        """Return whether anything has another name."""
        return any(old != new for old, new in (*self.roles.items(), *self.buffers.items()))


def _replaced(words: str, names: dict[str, str], pattern: str) -> str:
    if not names:
        return words
    known = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    return re.sub(pattern.format(known), lambda found: names[found[1]], words)


def pair(before: Facts, after: Facts) -> Pairing:
    """Return who is who: by name, and among those left by their ops, or by what they hold."""
    roles = _pair(before.roles, after.roles, lambda role: frozenset(op.name for op in role.ops))
    buffers = _pair(before.buffers, after.buffers, lambda buffer: buffer.holds)
    return Pairing(roles, buffers)


def _pair(
    before: Sequence[Named], after: Sequence[Named], nature: Callable[[Named], Hashable]
) -> dict[str, str]:
    names = {one.name for one in after}
    found = {one.name: one.name for one in before if one.name in names}
    left = [one for one in after if one.name not in found]
    for one in before:
        if one.name in found or not nature(one):
            continue
        like = [other for other in left if nature(other) == nature(one)]
        if len(like) == 1:
            found[one.name] = like[0].name
            left.remove(like[0])
    return found
