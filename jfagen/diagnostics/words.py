"""Wording that messages share: lists of names and near matches."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def quoted(names: Iterable[str], joint: str = "or") -> str:
    """Return `a`, `b` or `c`: names in backticks, in the order given."""
    return listed([f"`{name}`" for name in names], joint)


def listed(phrases: Iterable[str], joint: str = "or") -> str:
    """Return phrases joined by commas, with `joint` before the last one."""
    *head, last = phrases
    return f"{', '.join(head)} {joint} {last}" if head else last


def near_match(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` most likely was meant to be, or None."""
    candidates = {word.lower(): word for word in known if word != name}
    for spelling, word in candidates.items():
        if sorted(spelling) == sorted(name.lower()):
            return word
    matches = get_close_matches(name.lower(), list(candidates), n=1, cutoff=0.6)
    return candidates[matches[0]] if matches else None
