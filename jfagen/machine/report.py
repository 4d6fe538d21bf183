"""What a run ends in: results, or a report that names roles, barriers and lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from .values import Value

if TYPE_CHECKING:
    from .order_log import OrderLog


class Kind(StrEnum):
    """The four ends of a run."""

    RESULTS = "results"
    DEADLOCK = "deadlock"
    RACE = "race"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Who did something and where: role, CTA, line of the kernel text, line of the schedule."""

    role: str
    cta: int
    line: int
    schedule: str = ""

    def text(self) -> str:
        """Return `role `mma` of CTA 0, line 12 (fwd.sched:3)`."""
        return f"role `{self.role}` of CTA {self.cta}, {self._line()}"

    def where(self) -> str:
        """Return `role `mma`, line 12 (fwd.sched:3)`: the same for all CTAs."""
        return f"role `{self.role}`, {self._line()}"

    def _line(self) -> str:
        schedule = f" ({self.schedule})" if self.schedule else ""
        return f"line {self.line}{schedule}"


@dataclass(slots=True, kw_only=True)
class Event:
    """One call of a role, the completion of what it put under way, or that one is put off.

    `number` counts the scheduler's choices before it, `passed` those before a wait went on: None
    while it waits.
    """

    number: int
    place: Place
    what: str
    waits: bool = False
    put_off: bool = False
    passed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """One role that waits for ever."""

    place: Place
    barrier: str
    slot: int
    phase: int
    completed: int
    detail: str = ""

    def text(self) -> str:
        """Return one line: who waits for which phase of what."""
        what = f"`{self.barrier}[{self.slot}]`" if self.barrier else "nothing"
        return (
            f"{self.place.text()}: waits for phase {self.phase} of {what},"
            f" which has completed {self.completed} phases{self.detail}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock:
    """No role can go on and nothing is in flight."""

    blocked: tuple[Blocked, ...]

    def text(self) -> str:
        """Return the report, one blocked role a line."""
        lines = "\n".join(f"  {entry.text()}" for entry in self.blocked)
        return f"deadlock: {len(self.blocked)} roles wait for ever\n{lines}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One access to a buffer; `extent` is in elements or bytes as it says."""

    place: Place
    action: str
    buffer: str
    extent: str

    def text(self) -> str:
        """Return one line."""
        return f"{self.action} of `{self.buffer}` ({self.extent}) by {self.place.text()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Two accesses to the same memory that nothing orders, one of them a write."""

    first: Access
    second: Access

    def text(self) -> str:
        """Return the report, one access a line."""
        return (
            "race: nothing orders these accesses to the same memory\n"
            f"  {self.first.text()}\n  {self.second.text()}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The kernel did something that it must not, or that the machine does not know."""

    rule: str
    message: str
    place: Place | None = None

    def text(self) -> str:
        """Return one line."""
        where = f" [{self.place.text()}]" if self.place else ""
        return f"fault ({self.rule}): {self.message}{where}"


Report = Deadlock | Race | Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one simulated run.

    `outputs` are what the host function returned, as numpy arrays (bfloat16 widened to float32),
    empty unless `kind` is results. `trace` is a hash of all scheduling choices. `tiles` lists the
    CTA ids that each running CTA worked on, in order.

    Kept if they were asked for: `choices` lists for each launch the holds that turn the default
    order into this one, `events` the last calls of each role, `order` what was ordered.
    """

    kind: Kind
    outputs: tuple[Value, ...] = ()
    reports: tuple[Report, ...] = ()
    trace: str = ""
    steps: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = field(default=())
    choices: tuple[tuple[str, ...], ...] = ()
    events: tuple[Event, ...] = ()
    order: tuple[OrderLog, ...] = ()

    @property
    def ok(self) -> bool:
        """Tell whether the run ended in results."""
        return self.kind is Kind.RESULTS

    def text(self) -> str:
        """Return the reports and notes, or `results`."""
        parts = [report.text() for report in self.reports] or ["results"]
        return "\n".join((*parts, *(f"note: {note}" for note in self.notes)))


class MachineStop(Exception):
    """Ends the run with a report; raised inside a role, caught by the scheduler."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.text())
        self.report = report


class MachineFault(Exception):
    """A fault whose place is not known yet; the role that runs adds it."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
