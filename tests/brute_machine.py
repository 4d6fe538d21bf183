"""The machine of brute force: roles, mbarriers and engines, and the orders in which they move."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field

from brute_code import Code, Found
from brute_meaning import Touch

from jfagen.readback.trace import ActionKind

AT_ONCE, LATE, RANDOM = "at once", "late", "random"


@dataclass(slots=True)
class Barrier:
    """One mbarrier and, for every completed phase, the events that made it."""

    name: str
    count: int
    completed: int = 0
    arrived: int = 0
    bytes: int = 0
    mask: int = 0
    sources: list[int] = field(default_factory=lambda: [0])
    masks: list[int] = field(default_factory=list)
    waiters: dict[int, int] = field(default_factory=lambda: defaultdict(int))


class Machine:
    """One run of a kernel's roles."""

    def __init__(self, code: Code, order: str, seed: int) -> None:
        self.code = code
        self.order = order
        self.random = random.Random(seed)
        roles = range(len(code.steps))
        self.at = [0 for _ in roles]
        self.mask = [0 for _ in roles]
        self.events = 0
        self.epoch = [self.event() for _ in roles]
        self.matmuls: list[list[tuple]] = [[] for _ in roles]
        self.engine = [0 for _ in roles]
        self.loads: list[tuple] = []
        self.stores: list[list[tuple]] = [[] for _ in roles]
        self.stored = [0 for _ in roles]
        self.barriers = [Barrier(name, count) for name, count in code.counts]
        self.written: dict[int, tuple[int, object, int]] = {}
        self.readers: dict[int, int] = defaultdict(int)
        self.handed: dict[int, list[int]] = defaultdict(list)
        self.asked, self.answer, self.takes = 0, 0, 0
        self.taken = [0 for _ in roles]

    def event(self) -> int:
        """Return the bit of a new event."""
        self.events += 1
        return 1 << self.events

    def release(self, role: int) -> int:
        """Return what has happened before now in a role; its later actions are another event."""
        mask = self.mask[role] = self.mask[role] | self.epoch[role]
        self.epoch[role] = self.event()
        return mask

    # -- roles

    def step(self, role: int) -> bool:
        """Run one step of a role if it can; return whether it did."""
        steps, at = self.code.steps[role], self.at[role]
        if at == len(steps):
            return False
        step = steps[at]
        what = step[0]
        if what == "wait":
            if not self.wait(role, step[1], step[2], step[3]):
                return False
        elif what == "touch":
            self.touch(step[1], self.mask[role] | self.epoch[role], self.epoch[role])
        elif what == "arrive":
            before = self.epoch[role]
            mask = self.release(role)
            self.barriers[step[1]].bytes += step[3]
            self.arrive(step[1], step[2], mask, before, step[4])
        elif what == "mma":
            self.matmuls[role].append((self.release(role), *step[1:]))
        elif what == "load":
            self.loads.append((self.release(role), *step[1:]))
        elif what == "store":
            self.stores[role].append((self.release(role), step[1]))
        elif not self.rare(role, step):
            return False
        self.at[role] = at + 1
        return True

    def rare(self, role: int, step: tuple) -> bool:
        """Run a step of the tile channel, or a wait for stores, matmuls or a turn."""
        what, value = step[0], step[1]
        if what == ActionKind.JOIN.value:
            if len(self.matmuls[role]) > value:
                return False
            self.mask[role] |= self.engine[role]
            return True
        if what == ActionKind.HAND.value:
            if self.handed[value]:
                raise Found("phase", f"line {step[3]}: a second arrival at a named barrier")
            self.handed[value].append(self.release(role))
            return True
        if what == ActionKind.MEET.value:
            if not self.handed[value]:
                return False
            self.mask[role] |= self.handed[value].pop()
            return True
        if what == "wait for stores" or what == ActionKind.DRAIN.value:
            if len(self.stores[role]) > value:
                return False
            self.mask[role] |= self.stored[role]
        elif what == ActionKind.ASK.value:
            if self.takes < self.asked * len(self.code.steps):
                return False
            if value != (self.asked & 1) ^ 1:
                raise Found("phase", f"line {step[2]}: the wrong phase of the tile channel")
            self.mask[role] |= self.answer
            self.answer |= self.release(role)
            self.asked += 1
        else:
            if self.taken[role] >= self.asked:
                return False
            if value != self.taken[role] & 1:
                raise Found("phase", f"line {step[2]}: the wrong phase of the tile channel")
            self.taken[role] += 1
            self.takes += 1
            self.mask[role] |= self.answer
            self.answer |= self.release(role)
        return True

    # -- barriers

    def wait(self, role: int, number: int, parity: int, line: int) -> bool:
        """Pass a wait if the phase has the parity; see that it could only be this phase."""
        barrier = self.barriers[number]
        seen = barrier.completed - 1
        if seen & 1 != parity:
            return False
        mask = self.mask[role] | self.epoch[role]
        if seen > 0 and barrier.sources[seen - 1] & ~mask:
            raise Found("phase", f"line {line}: the wait on {barrier.name} can pass early")
        barrier.waiters[seen] |= self.epoch[role]
        if seen >= 0:
            self.mask[role] |= barrier.masks[seen]
        return True

    def arrive(self, number: int, arrivals: int, mask: int, event: int, line: int) -> None:
        """Arrive; see that the arrival can only fall into this phase."""
        barrier = self.barriers[number]
        if barrier.completed and barrier.sources[barrier.completed - 1] & ~mask:
            raise Found("phase", f"line {line}: an arrival on {barrier.name} can be too early")
        barrier.sources[barrier.completed] |= event
        barrier.mask |= mask
        barrier.arrived += arrivals
        if barrier.arrived > barrier.count:
            raise Found("phase", f"line {line}: too many arrivals on {barrier.name}")
        self.complete(barrier)

    def complete(self, barrier: Barrier) -> None:
        """Complete the phase if nothing is pending; see that nobody still waits for the last."""
        if barrier.arrived < barrier.count or barrier.bytes:
            return
        if barrier.waiters[barrier.completed - 1] & ~barrier.mask:
            raise Found("phase", f"a wait on {barrier.name} can be lapped")
        barrier.masks.append(barrier.mask)
        barrier.sources.append(0)
        barrier.completed += 1
        barrier.arrived = barrier.mask = 0

    # -- what happens later

    def matmul(self, role: int) -> None:
        """Execute the oldest matmul of a role, or arrive for those before a commit."""
        mask, touch, signals, line = self.matmuls[role].pop(0)
        event = self.event()
        if touch is not None:
            mask |= self.engine[role] | event
            self.touch(touch, mask, event)
            self.engine[role] = mask
        else:
            self.engine[role] |= event
        for number in signals:
            self.arrive(number, 1, self.engine[role] | event, event, line)

    def land(self, index: int) -> None:
        """Let a load land."""
        mask, touch, number, size, line = self.loads.pop(index)
        event = self.event()
        self.touch(touch, mask | event, event)
        barrier = self.barriers[number]
        barrier.sources[barrier.completed] |= event
        barrier.mask |= mask | event
        barrier.bytes -= size
        if barrier.bytes < 0:
            raise Found("phase", f"line {line}: bytes on {barrier.name} that nobody expects")
        self.complete(barrier)

    def store(self, role: int) -> None:
        """Let the oldest store of a role read its tile."""
        mask, touch = self.stores[role].pop(0)
        event = self.event()
        self.touch(touch, mask | event, event)
        self.stored[role] |= mask | event

    def touch(self, touch: Touch, mask: int, event: int) -> None:
        """Make accesses of one event; `mask` is all that is known to be before it."""
        written, readers = self.written, self.readers
        for writes, cells, value, line in touch.accesses:
            for cell in cells:
                last = written.get(cell)
                if last is not None and not last[0] & mask:
                    raise Found("race", f"lines {last[2]} and {line}")
                if writes:
                    if readers[cell] & ~mask:
                        raise Found("race", f"line {line} overwrites what is still read")
                    written[cell] = (event, value, line)
                    readers[cell] = 0
                    continue
                readers[cell] |= event
                if last is None or last[1] != value:
                    found = "nothing" if last is None else last[1]
                    raise Found("stale", f"line {line} finds {found} instead of {value}")

    # -- orders

    def later(self, starved: int = -1) -> bool:
        """Let one thing happen that was issued; return False if there was none."""
        for role in reversed(range(len(self.at))):
            if self.stores[role] and role != starved:
                self.store(role)
                return True
            if self.matmuls[role] and role != starved:
                self.matmul(role)
                return True
        if self.loads:
            self.land(len(self.loads) - 1)
            return True
        return False

    def run(self) -> None:
        """Run to the end; Found at the first trouble."""
        if self.order == RANDOM:
            self.run_random()
        else:
            self.run_policy()
        waiting = [
            f"{name} at line {steps[at][-1]}"
            for name, steps, at in zip(self.code.names, self.code.steps, self.at, strict=True)
            if at < len(steps)
        ]
        if waiting:
            raise Found("hang", "; ".join(waiting))

    def run_policy(self) -> None:
        roles = range(len(self.at))
        starved = int(self.order) if self.order.isdigit() else -1
        hasty = self.order != LATE
        moved = True
        while moved:
            moved = False
            for role in roles:
                while role != starved and self.step(role):
                    moved = True
                    while hasty and self.later(starved):
                        pass
            if not moved:
                moved = self.later(starved)
            if not moved and starved >= 0:
                moved = self.step(starved) or self.later()

    def run_random(self) -> None:
        roles = list(range(len(self.at)))
        stuck = False
        while not stuck:
            self.random.shuffle(roles)
            stuck = True
            for role in roles:
                for _ in range(self.random.randrange(1, 12)):
                    if not self.step(role):
                        break
                    stuck = False
                if self.random.random() < 0.4 and self.anything_later():
                    stuck = False
            if stuck:
                stuck = not self.anything_later()

    def anything_later(self) -> bool:
        """Let something happen that was issued, whichever it is."""
        waiting: list[tuple] = [(self.land, index) for index in range(len(self.loads))]
        waiting += [(self.matmul, role) for role, queue in enumerate(self.matmuls) if queue]
        waiting += [(self.store, role) for role, queue in enumerate(self.stores) if queue]
        if waiting:
            happen, which = self.random.choice(waiting)
            happen(which)
        return bool(waiting)
