"""A tile's ops in the order that program and barriers force, and the lives of its buffers.

A level is no time: every op stands as early as the order allows if each takes one level. The order
is the realized one, which is what the prover looks at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from ..algorithm import Engine
from ..driver import Compiled
from ..graph.levels import levels
from ..passes.channels import ChannelKind
from ..passes.dependences import Cells
from ..planning import Actor, Event, EventKind
from ..proof.realize import Realized, executes, realize
from ..semantics.program import OpUse, Program
from ..types import Storage


class Phase(StrEnum):
    """Where in a role's work on a tile an op stands.

    In the prologue and the epilogue of a loop some ops of the lap do not run, because they belong
    to a step before the first or after the last. The tail is the masked step of a split loop.
    """

    BEFORE = "before"
    PROLOGUE = "prologue"
    STEADY = "steady"
    EPILOGUE = "epilogue"
    TAIL = "tail"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One op, for one group and step, in the lane of its role.

    Attributes:
        lane: index of the lane.
        words: the op with its group and step in numbers.
        source: the op as the schedule says it.
        line: of the schedule.
        top: its first level.
        stop: one past the last level at which its role works on it.
        done: one past the level at which it is over; later than `stop` if it goes on by itself.
    """

    lane: int
    words: str
    source: str
    line: int
    phase: Phase
    engine: Engine
    top: int
    stop: int
    done: int


@dataclass(frozen=True, slots=True)
class Arrow:
    """A barrier between two ops: `second` waits for what `first` signals.

    Attributes:
        channel: its name.
        kind: what a phase means.
        first: index of a box.
        second: index of another.
        leaves: one past the level of the signal.
        reaches: level of the wait.
        hands: the op whose signal it is, if that stands in another one; else empty.
    """

    channel: str
    kind: ChannelKind
    first: int
    second: int
    leaves: int
    reaches: int
    hands: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One use of one slot of a buffer, from its first access to the end of its last.

    Attributes:
        buffer: its name.
        value: what it holds then.
        label: the value with group and step in numbers.
        storage: the memory.
        first: its first column or byte.
        stop: one past its last.
        top: level of the first access.
        done: one past the level of the last one.
        line: of the schedule.
    """

    buffer: str
    value: str
    label: str
    storage: Storage
    first: int
    stop: int
    top: int
    done: int
    line: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """One tile of a few steps.

    Attributes:
        steps: how many.
        lanes: a title for each replica of each role.
        rows: levels.
    """

    steps: int
    lanes: tuple[str, ...]
    rows: int
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    lives: tuple[Life, ...]


def timeline(compiled: Compiled) -> Timeline:
    """Return the ops of one tile that is just long enough to show a steady lap."""
    program = compiled.program
    steps = _steps(program)
    realized = realize(compiled.plan, compiled.sync, (steps,))
    builder = _Builder(compiled, realized, steps)
    boxes, arrows = builder.boxes(), builder.arrows()
    lives = tuple(builder.lives())
    return Timeline(
        steps=steps,
        lanes=builder.titles(),
        rows=max([box.done for box in boxes] + [life.done for life in lives]),
        boxes=boxes,
        arrows=arrows,
        lives=lives,
    )


def _steps(program: Program) -> int:
    """Return the fewest steps with a lap in which every op of every role runs, and one more."""
    lags = [use.offset for role in program.role_programs for use in role.loop]
    peels = any(role.peel for role in program.role_programs)
    return max(lags, default=0) - min(lags, default=0) + 2 + peels


@dataclass(slots=True)
class _Builder:
    compiled: Compiled
    realized: Realized
    steps: int
    levels: tuple[int, ...] = field(init=False)
    box_of: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = len(self.realized.unrolled.events) + len(self.realized.completions)
        events = self.realized.unrolled.events
        weights = [int(node < len(events) and _takes_part(events[node])) for node in range(nodes)]
        self.levels = levels(weights, self.realized.edges)

    @property
    def actors(self) -> list[Actor]:
        programs = self.compiled.program.role_programs
        return [Actor(p.role.name, r) for p in programs for r in range(p.role.replicas)]

    def titles(self) -> tuple[str, ...]:
        """Return the lanes' titles."""
        roles = {role.name: role for role in self.compiled.program.roles}
        return tuple(
            f"{actor.role}[{actor.replica}]" if roles[actor.role].replicas > 1 else actor.role
            for actor in self.actors
        )

    def boxes(self) -> tuple[Box, ...]:
        """Return the ops in order of lane and level."""
        found: dict[tuple[Actor, str, int, int], list[int]] = defaultdict(list)
        for node, event in enumerate(self.realized.unrolled.events):
            if event.use is not None and event.site is not None:
                found[event.actor, event.use.op.name, event.site.group, event.step].append(node)
        lanes = {actor: lane for lane, actor in enumerate(self.actors)}
        order = sorted(found, key=lambda key: (lanes[key[0]], min(self._tops(found[key]))))
        for index, key in enumerate(order):
            self.box_of |= dict.fromkeys(found[key], index)
        return tuple(self._box(lanes[key[0]], key[2], found[key]) for key in order)

    def _tops(self, nodes: list[int]) -> list[int]:
        return [self.levels[node] for node in nodes]

    def _box(self, lane: int, group: int, nodes: list[int]) -> Box:
        events = self.realized.unrolled.events
        first = events[nodes[0]]
        use = first.use
        assert use is not None, "only events of ops are collected"
        mine = [n for n in nodes if events[n].kind is not EventKind.DONE] or nodes
        return Box(
            lane=lane,
            words=_words(use.op.name, self._shown(group), first.step),
            source=use.span.text,
            line=use.span.line,
            phase=self._phase(use, first),
            engine=use.op.engine,
            top=min(self._tops(mine)),
            stop=max(self._tops(mine)) + 1,
            done=max(self._tops(nodes)) + 1,
        )

    def _shown(self, group: int) -> int:
        """Return a group as labels have it: -1, for none, where there is only one."""
        return group if self.compiled.program.tile.groups > 1 else -1

    def _phase(self, use: OpUse, event: Event) -> Phase:
        program = self.compiled.program.program_of(event.actor.role)
        if event.step < 0:
            return Phase.BEFORE if use in program.before else Phase.AFTER
        steps = [event.step - use.offset + other.offset for other in program.loop]
        if min(steps) < 0:
            return Phase.PROLOGUE
        if max(steps) >= self.steps:
            return Phase.EPILOGUE
        return Phase.TAIL if program.peel and max(steps) == self.steps - 1 else Phase.STEADY

    def arrows(self) -> tuple[Arrow, ...]:
        """Return every signal of one box for which another waits."""
        channels = self.compiled.sync.channels
        handed = {
            node: _words(site.op, self._shown(site.group), step)
            for (site, _, step), node in self.realized.unrolled.handed.items()
        }
        found: dict[Arrow, None] = {}
        for waiting in self.realized.waits:
            if waiting.completion not in self.realized.completions:
                continue
            channel = channels[waiting.completion[0]]
            for signal in self.realized.signals[waiting.completion]:
                first, second = self.box_of.get(signal), self.box_of.get(waiting.node)
                if first is not None and second is not None and first != second:
                    rows = self.levels[signal] + 1, self.levels[waiting.node]
                    hands = handed.get(signal, "")
                    found[Arrow(channel.name, channel.kind, first, second, *rows, hands)] = None
        return tuple(found)

    def lives(self) -> Iterator[Life]:
        """Yield the uses of every slot, in order of declaration and level."""
        plan, unrolled = self.compiled.plan, self.realized.unrolled
        cells = Cells(plan, self.compiled.placement.layout)
        found: dict[tuple[str, str, int, int], list[tuple[int, int, int]]] = defaultdict(list)
        for site, tile, step in unrolled.start:
            start, end = executes(plan, self.realized, site, tile, step)
            for touch in plan.touches[site]:
                use = cells.use_number(touch, 0, max(step, 0))
                row = (self.levels[start], self.levels[end] + 1, step)
                found[touch.buffer, touch.value, touch.group, use].append(row)
        names = [buffer.name for buffer in self.compiled.program.buffers]
        for key in sorted(found, key=lambda key: (names.index(key[0]), min(found[key]))):
            yield self._life(key, found[key])

    def _life(self, key: tuple[str, str, int, int], rows: list[tuple[int, int, int]]) -> Life:
        name, value, group, use = key
        placement, buffer = self.compiled.placement, self.compiled.program.buffer(name)
        extent = placement.layout.extents[name]
        copy = max(group, 0) * buffer.depth + use % buffer.depth
        first = placement.first[extent.root] + copy * placement.layout.sizes[extent.root]
        steps = {step for _, _, step in rows if step >= 0}
        return Life(
            buffer=name,
            value=value,
            label=_words(value, self._shown(group), min(steps) if len(steps) == 1 else -1),
            storage=buffer.storage,
            first=first + extent.start,
            stop=first + extent.stop,
            top=min(top for top, _, _ in rows),
            done=max(done for _, done, _ in rows),
            line=buffer.span.line,
        )


def _takes_part(event: Event) -> bool:
    """Whether an event takes a level: those of ops do, turns and the tile channel do not."""
    return event.site is not None


def _words(name: str, group: int, step: int) -> str:
    return name + "".join(f"[{index}]" for index in (group, step) if index >= 0)
