"""Looks at many layouts of one plan: what a tree of buffers orders is found once."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..planning import Plan, Unrolled, unroll
from ..semantics.regions import Arrangement, leaves
from .dependences import Dependences, Instance, dependences_on, in_sequence
from .layout import Layout

Trips = tuple[int, ...]


@dataclass(slots=True)
class SharedLook:
    """A `Look` with a memory: buffers of different trees share no memory, so each adds its own.

    The dependences are those of `find_dependences`, tree by tree instead of in the order of the
    sequential program.
    """

    plan: Plan
    _unrolled: dict[Trips, tuple[Unrolled, tuple[Instance, ...]]] = field(default_factory=dict)
    _found: dict[tuple[Trips, Arrangement], Dependences] = field(default_factory=dict)

    def __call__(self, trips: Trips, layout: Layout) -> tuple[Unrolled, Dependences]:
        """Return the unrolled plan and the dependences of a layout."""
        if trips not in self._unrolled:
            fresh = unroll(self.plan, trips)
            self._unrolled[trips] = (fresh, in_sequence(self.plan, fresh))
        parts = [self._of(trips, tree, layout) for tree in layout.trees]
        together = Dependences(
            found=tuple(one for part in parts for one in part.found),
            clobbers=tuple(one for part in parts for one in part.clobbers),
        )
        return self._unrolled[trips][0], together

    def _of(self, trips: Trips, tree: Arrangement, layout: Layout) -> Dependences:
        key = (trips, tree)
        if key not in self._found:
            buffers = frozenset(leaf.buffer for leaf in leaves(tree))
            unrolled, sequence = self._unrolled[trips]
            self._found[key] = dependences_on(buffers, self.plan, unrolled, layout, sequence)
        return self._found[key]
