"""Places that buffers share: a tree of buffers that lie over or beside each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..diagnostics import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A buffer in a region's tree."""

    buffer: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """Parts that take the same place at different times."""

    parts: tuple[Arrangement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Parts that lie side by side."""

    parts: tuple[Arrangement, ...]


Arrangement = Leaf | Over | Beside


def leaves(tree: Arrangement) -> tuple[Leaf, ...]:
    """Return the buffers of a tree in the order in which they are written."""
    if isinstance(tree, Leaf):
        return (tree,)
    return tuple(leaf for part in tree.parts for leaf in leaves(part))


def tree_words(tree: Arrangement) -> str:
    """Return a tree as a schedule writes it: `s over (p, alpha)`."""
    match tree:
        case Leaf():
            return tree.buffer
        case Over():
            return " over ".join(map(tree_words, tree.parts))
        case Beside():
            return f"({', '.join(map(tree_words, tree.parts))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A place that several buffers share, as the schedule demands it."""

    name: str
    tree: Arrangement
    span: Span = field(compare=False)
    whole: Span = field(compare=False)
