"""The seeded scheduler: it picks between roles that can run and operations that can complete."""

from __future__ import annotations

import hashlib
import random
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import greenlet  # type: ignore[import-untyped]
import numpy as np

from .barriers import Released
from .interleaving import DefaultOrder
from .memory import View
from .report import Blocked, Deadlock, Fault, MachineFault, MachineStop, Place
from .values import Value

STEP_BOUND = 5_000_000


class PolicyName(StrEnum):
    """How the scheduler chooses; a command line names all but the default order."""

    RANDOM = "random"
    LATE = "late"
    AT_ONCE = "at_once"
    STARVE = "starve"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How the scheduler chooses: `random`, `late`, `at_once`, or `starve` with a role's name.

    `default` is the default order: with `role` or `late` it puts off that role's steps or all
    operations, and for each launch what `holds` lists for it.
    """

    name: PolicyName
    role: str = ""
    late: bool = False
    holds: tuple[tuple[str, ...], ...] = ()

    def text(self) -> str:
        """Return the policy as a command line spells it."""
        return f"{self.name}={self.role}" if self.role else str(self.name)


def parse_policy(text: str) -> Policy:
    """Return the policy that `random`, `late`, `at_once` or `starve=ROLE` names.

    Raises:
        ValueError: it is none of these.
    """
    name, _, role = text.partition("=")
    takes_role = name == PolicyName.STARVE
    if name in set(PolicyName) - {PolicyName.DEFAULT} and takes_role is bool(role):
        return Policy(name=PolicyName(name), role=role)
    raise ValueError(f"policy `{text}` is none of random, late, at_once, starve=ROLE")


@dataclass(slots=True, eq=False)
class Operation:
    """An asynchronous operation under way: `run` does it, `before` is what it is ordered after.

    Operations with a `queue` complete in the order of that queue.
    """

    run: Callable[[Operation], None]
    before: int
    place: Place
    cta: Value = None
    queue: deque[Operation] | None = None
    done: bool = False
    label: str = ""
    what: str = ""
    issuer: str = ""
    turn: int = 0

    def next_label(self) -> str:
        """Return `ROLE@CTA operation N`, the N-th that the role put under way."""
        return self.label


@dataclass(slots=True, eq=False)
class Role:
    """One role of a CTA while it runs."""

    name: str
    base_name: str
    replica: int
    warps: int
    cta: Value
    number: int
    line: int
    before: int = 0
    waiting: Callable[[], bool] | None = None
    blocked: Callable[[], Blocked] | None = None
    finished: bool = False
    mma_queue: deque[Operation] = field(default_factory=deque)
    mma_before: Released = field(default_factory=Released)
    # Multiplications into registers: under way, and issued but not waited for.
    dot_queue: deque[Operation] = field(default_factory=deque)
    dots: deque[Operation] = field(default_factory=deque)
    joining: bool = False
    store_groups: deque[Operation] = field(default_factory=deque)
    tmem_loads: list[tuple[View, Place]] = field(default_factory=list)
    fiber: Value = None
    label: str = ""
    resumed: int = 0
    submitted: int = 0
    calling: str = ""
    calling_at: Place | None = None

    def next_label(self) -> str:
        """Return `ROLE@CTA step N`, the N-th time that the role is let run."""
        return f"{self.label} step {self.resumed + 1}"

    def matches(self, name: str) -> bool:
        """Tell whether `name` means this role, with or without its index."""
        return name in (self.name, self.base_name)


class Scheduler:
    """Runs roles as greenlets until all are done or nothing can go on."""

    def __init__(
        self,
        *,
        seed: int,
        policy: Policy,
        step_bound: int,
        launch: int = 0,
        keep_choices: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self.policy = policy
        self.step_bound = step_bound
        self.roles: list[Role] = []
        self.pending: list[Operation] = []
        self.steps = 0
        self.current: Role | None = None
        self.started = 0
        self.starved_exists = not policy.role
        self.order: DefaultOrder[Role, Operation] | None = None
        if policy.name is PolicyName.DEFAULT:
            holds = policy.holds[launch] if launch < len(policy.holds) else ()
            self.order = DefaultOrder(holds, self._put_off if policy.role or policy.late else None)
        elif keep_choices:
            self.order = DefaultOrder()
        self._labels: dict[str, int] = {}
        self._role_ended = False
        self._trace = array("q")
        self._main = greenlet.getcurrent()

    def start(self, role: Role, body: Callable[[], None]) -> None:
        """Make a role runnable."""

        def run() -> None:
            # numpy keeps its error state in a context variable, and every greenlet has its own.
            with np.errstate(all="ignore"):
                body()
            role.finished = True

        role.number = self.started
        self.started += 1
        role.label = self._new_label(f"{role.name}@{role.cta.number}")
        role.fiber = greenlet.greenlet(run, self._main)
        self.roles.append(role)
        self.starved_exists |= role.matches(self.policy.role)

    def _new_label(self, label: str) -> str:
        """Return a label; roles of one name in a CTA are told apart."""
        self._labels[label] = self._labels.get(label, 0) + 1
        return label if self._labels[label] == 1 else f"{label}#{self._labels[label]}"

    def _put_off(self, actor: Role | Operation) -> bool:
        if isinstance(actor, Role):
            return bool(self.policy.role) and actor.matches(self.policy.role)
        return self.policy.late

    def pause(self) -> None:
        """Let the scheduler choose again."""
        self._main.switch()

    def wait(self, condition: Callable[[], bool], blocked: Callable[[], Blocked]) -> None:
        """Block the current role until `condition` holds when the scheduler looks."""
        role = self.current
        if role is None:
            raise AssertionError("a wait outside every role")
        role.waiting, role.blocked = condition, blocked
        self._main.switch()
        role.waiting = role.blocked = None

    def submit(self, operation: Operation) -> None:
        """Put an asynchronous operation under way."""
        role = self.current
        if role is not None:
            role.submitted += 1
            operation.label = f"{role.label} operation {role.submitted}"
        if operation.queue is None:
            self.pending.append(operation)
            return
        operation.queue.append(operation)
        if len(operation.queue) == 1:
            self.pending.append(operation)

    @property
    def choices_made(self) -> int:
        """Return how often the scheduler has chosen so far."""
        return len(self._trace)

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the holds so far that turn the default order into this one, if they are kept."""
        return tuple(self.order.taken) if self.order is not None else ()

    def trace(self) -> str:
        """Return the hash of all choices so far."""
        return hashlib.blake2b(self._trace.tobytes(), digest_size=8).hexdigest()

    def run(self, refill: Callable[[], bool]) -> None:
        """Run to the end; `refill` may start new CTAs and tells whether it did.

        Raises:
            MachineStop: a deadlock, a race or a fault.
        """
        try:
            with np.errstate(all="ignore"):
                while self._step() or refill():
                    if self._role_ended:
                        self._role_ended = False
                        refill()
        finally:
            self._kill()

    def _step(self) -> bool:
        ready = [role for role in self.roles if role.waiting is None or role.waiting()]
        if not ready and not self.pending:
            if not self.roles:
                return False
            raise MachineStop(self._deadlock())
        self.steps += 1
        if self.steps > self.step_bound:
            raise MachineStop(
                Fault(rule="livelock", message=f"no end after {self.step_bound} scheduler steps")
            )
        chosen = self._choose(ready)
        if isinstance(chosen, Role):
            self._trace.append(chosen.number * 2)
            self._resume(chosen)
            if chosen.finished:
                self.roles.remove(chosen)
                self._role_ended = True
        else:
            self._trace.append(self.pending.index(chosen) * 2 + 1)
            self._complete(chosen)
        return True

    def _choose(self, ready: list[Role]) -> Role | Operation:
        if self.order is None:
            return self._pick(ready)
        if self.policy.name is PolicyName.DEFAULT:
            return self.order.choose(ready, self.pending)
        chosen = self._pick(ready)
        self.order.explain(chosen, ready, self.pending)
        return chosen

    def _pick(self, ready: list[Role]) -> Role | Operation:
        name = self.policy.name
        if name is PolicyName.AT_ONCE and self.pending:
            return self.pending[0]
        if name is PolicyName.LATE and ready:
            return ready[int(self.random.random() * len(ready))]
        if name is PolicyName.STARVE:
            others = [role for role in ready if not role.matches(self.policy.role)]
            if others or self.pending:
                ready = others
        choice = int(self.random.random() * (len(ready) + len(self.pending)))
        return ready[choice] if choice < len(ready) else self.pending[choice - len(ready)]

    def _resume(self, role: Role) -> None:
        self.current = role
        role.resumed += 1
        try:
            role.fiber.switch()
        finally:
            self.current = None

    def _complete(self, operation: Operation) -> None:
        self.pending.remove(operation)
        try:
            operation.run(operation)
        except MachineFault as error:
            raise MachineStop(
                Fault(rule=error.rule, message=error.message, place=operation.place)
            ) from error
        operation.done = True
        if operation.queue is not None:
            operation.queue.popleft()
            if operation.queue:
                self.pending.append(operation.queue[0])

    def _deadlock(self) -> Deadlock:
        # A role that waits for the end of the others says nothing about why they do not end.
        stuck = [role for role in self.roles if role.blocked and not role.joining]
        stuck.sort(key=lambda role: (role.cta.number, role.number))
        return Deadlock(blocked=tuple(role.blocked() for role in stuck if role.blocked))

    def _kill(self) -> None:
        for role in self.roles:
            if role.fiber is not None and not role.fiber.dead and role.fiber.gr_frame is not None:
                role.fiber.throw(greenlet.GreenletExit)
        self.roles.clear()
        self.pending.clear()
