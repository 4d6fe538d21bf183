"""The last calls of every role, kept while a kernel runs, and as a text that a person follows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from .barriers import Barriers, Slot
from .memory import View
from .report import Event, Place, Race, Report
from .scheduler import Operation, Role
from .values import Value

if TYPE_CHECKING:
    from .machine import Machine

_KEPT = 64
_SHOWN_LAST = 4
_HOLDS_KEPT = 20
_WAITS = frozenset(
    {
        *("barrier_wait", "named_barrier_wait", "async_descriptor_store_wait", "cluster_barrier"),
        *("clc_producer", "clc_consumer", "async_dot_wait"),
    }
)
#: The calls that take part in a failure; those that only name a part of a buffer do not.
SHOWN = _WAITS | {
    *("barrier_arrive", "barrier_expect_bytes", "named_barrier_arrive", "fence"),
    *("fence_async_shared", "local_load", "local_store", "async_dot", "tcgen05_commit"),
    *("async_descriptor_load", "async_descriptor_store", "async_load"),
    *("remote_shmem_store", "async_remote_shmem_store", "async_remote_shmem_copy"),
}


class Timeline:
    """The last events of each role of a launch."""

    def __init__(self) -> None:
        self._last: dict[str, deque[tuple[int, Event]]] = {}
        self._holds: deque[tuple[int, Event]] = deque(maxlen=_HOLDS_KEPT)
        self._count = 0

    def add(self, label: str, event: Event) -> None:
        """Keep one event of the role with a label."""
        self._count += 1
        self._last.setdefault(label, deque(maxlen=_KEPT)).append((self._count, event))

    def put_off(self, actor: Role | Operation, number: int) -> None:
        """Keep that a step of a role or an operation is put off."""
        self._count += 1
        if isinstance(actor, Operation):
            place, what = actor.place, f"put off: the completion of {actor.what}"
        else:
            start = Place(role=actor.name, cta=actor.cta.number, line=actor.line)
            place = actor.calling_at or start
            what = f"put off: the role after {actor.calling or 'its start'}"
        event = Event(number=number, place=place, what=what, put_off=True)
        self._holds.append((self._count, event))

    def events(self) -> tuple[Event, ...]:
        """Return what is kept, in the order in which it happened."""
        kept = sorted(chain(self._holds, *self._last.values()), key=lambda entry: entry[0])
        return tuple(event for _, event in kept)


def logged(
    machine: Machine, name: str, call: Callable[..., Value], *args: Value, **options: Value
) -> Value:
    """Call a function of device code and keep it in the timeline."""
    timeline, role = machine.timeline, machine.role
    if timeline is None:
        return call(*args, **options)
    words = [*args, *options.values()]
    what = f"{name}({', '.join(text for word in words if (text := _text(word)))})"
    event = Event(
        number=machine.scheduler.choices_made,
        place=machine.place(),
        what=what,
        waits=name in _WAITS,
    )
    timeline.add(role.label, event)
    role.calling, role.calling_at = what, event.place
    result = call(*args, **options)
    event.passed = machine.scheduler.choices_made
    return result


def _text(value: Value) -> str:
    """Return how a buffer, a barrier or a number reads, and nothing for all else."""
    if isinstance(value, View):
        return value.label
    if isinstance(value, Slot):
        return f"{value.name}[{value.index}]"
    if isinstance(value, Barriers):
        return value.name
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, list | tuple) and any(isinstance(part, Slot) for part in value):
        return f"[{', '.join(_text(part) for part in value)}]"
    return ""


def timeline_text(events: Sequence[Event], reports: Sequence[Report] = ()) -> str:
    """Return the last events of each role as a table, what was put off and what races with them."""
    racing = _racing(events, reports)
    left: dict[tuple[str, int], int] = {}
    shown = []
    for event in reversed(events):
        who = (event.place.role, event.place.cta)
        left[who] = left.get(who, _SHOWN_LAST) - (not event.put_off)
        if left[who] >= 0 or event.put_off or id(event) in racing:
            shown.append((*_row(event)[:4], _row(event)[4] + racing.get(id(event), "")))
    rows = [("choice", "role", "line", "schedule", "op"), *reversed(shown)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  "
        + "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=False))
        + f"  {row[4]}"
        for row in rows
    )


def _racing(events: Sequence[Event], reports: Sequence[Report]) -> dict[int, str]:
    """Return the words for the last event of each side of a race."""
    words: dict[int, str] = {}
    for race in (report for report in reports if isinstance(report, Race)):
        for side, access in (("first", race.first), ("second", race.second)):
            here = [e for e in events if e.place == access.place and not e.put_off]
            if same := [e for e in here if access.buffer in e.what] or here:
                words[id(same[-1])] = f" <- {side} access of the race"
    return words


def _row(event: Event) -> tuple[str, str, str, str, str]:
    end = ""
    if event.waits and event.passed is None:
        end = " -- still waits"
    elif event.waits and event.passed is not None and event.passed > event.number:
        end = f" -- goes on at {event.passed}"
    place = event.place
    who = f"{place.role} of CTA {place.cta}"
    return str(event.number), who, str(place.line), place.schedule, event.what + end
