"""The default order of a run, and what it takes to turn it into another one.

By default the role that ran last runs on, and asynchronous work completes at once. A *hold* puts
one thing off, a step of a role or an asynchronous operation, until everything that can go without
it has gone. Every interleaving is the default order with some holds, so a list of holds replays it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar


class Actor(Protocol):
    """A role that can run or an operation that can complete."""

    def next_label(self) -> str:
        """Return the name of what it would do next: `load@0 step 3`, `load@0 operation 2`."""
        ...


RoleT = TypeVar("RoleT", bound=Actor)
OperationT = TypeVar("OperationT", bound=Actor)


class DefaultOrder(Generic[RoleT, OperationT]):
    """The default order of one launch with holds.

    `holds` are labels, each as often as it is put off. What `always` names is put off every time.
    `taken` are the holds that took effect, in order.
    """

    def __init__(
        self,
        holds: Iterable[str] = (),
        always: Callable[[RoleT | OperationT], bool] | None = None,
    ) -> None:
        self.taken: list[str] = []
        self.on_hold: Callable[[RoleT | OperationT], None] = lambda _: None
        self._wanted = Counter(holds)
        self._always = always
        self._held: dict[RoleT | OperationT, None] = {}
        self._last: RoleT | None = None

    def choose(self, ready: Sequence[RoleT], pending: Sequence[OperationT]) -> RoleT | OperationT:
        """Return who goes next."""
        actor = self._first(ready, pending)
        while self._is_held_here(actor):
            self._hold(actor)
            actor = self._first(ready, pending)
        self._go(actor, ready)
        return actor

    def explain(
        self,
        chosen: RoleT | OperationT,
        ready: Sequence[RoleT],
        pending: Sequence[OperationT],
    ) -> None:
        """Add the holds that make `chosen` go next."""
        while (actor := self._first(ready, pending)) is not chosen:
            self._hold(actor)
        self._go(chosen, ready)

    def _first(self, ready: Sequence[RoleT], pending: Sequence[OperationT]) -> RoleT | OperationT:
        for operation in pending:
            if operation not in self._held:
                return operation
        if self._last is not None and self._last not in self._held and self._last in ready:
            return self._last
        for role in ready:
            if role not in self._held:
                return role
        able: set[RoleT | OperationT] = {*ready, *pending}
        return next(actor for actor in self._held if actor in able)

    def _is_held_here(self, actor: RoleT | OperationT) -> bool:
        if self._always is not None and actor not in self._held and self._always(actor):
            return True
        if not self._wanted:
            return False
        label = actor.next_label()
        if not self._wanted[label]:
            return False
        self._wanted[label] -= 1
        return True

    def _hold(self, actor: RoleT | OperationT) -> None:
        self.taken.append(actor.next_label())
        self.on_hold(actor)
        self._held.pop(actor, None)
        self._held[actor] = None

    def _go(self, actor: RoleT | OperationT, ready: Sequence[RoleT]) -> None:
        self._held.pop(actor, None)
        for role in ready:
            if role is actor:
                self._last = role
