"""What a comparison finds: changes in words, changed figures, changed lines of the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: The section of a kernel's text that is a comment: the maps and the table in its docstring.
TABLES = "tables"


class Part(StrEnum):
    """The part of a schedule that a change belongs to, in the order in which they are told."""

    KERNEL = "kernel"
    ROLES = "roles"
    PIPELINE = "pipeline"
    BUFFERS = "buffers"
    PLACES = "memory"
    BARRIERS = "barriers"
    TILES = "tiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change in words.

    Attributes:
        part: where it belongs.
        name: of the role, buffer, barrier or setting.
        words: what changed, a phrase that stands alone.
    """

    part: Part
    name: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A figure before and after; None where there is none."""

    name: str
    before: int | None
    after: int | None

    @property
    def difference(self) -> int | None:
        """Return by how much it went up."""
        if self.before is None or self.after is None:
            return None
        return self.after - self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines that were replaced.

    Attributes:
        before, after: the lines, without those that only moved.
        at_before, at_after: line numbers of the first ones in the two texts, from 1.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    at_before: int
    at_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A block of lines that stands elsewhere now; its indentation may have changed."""

    lines: tuple[str, ...]
    at_before: int
    at_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionDiff:
    """What changed in one part of a kernel's text.

    Attributes:
        name: a role, or `tables`, `constants`, `functions`, `allocations`, `host`.
        role: whether it is one.
    """

    name: str
    role: bool
    hunks: tuple[Hunk, ...]
    moved: tuple[Moved, ...]

    @property
    def changed(self) -> int:
        """Return how many lines of code are new, or gone without another in their place."""
        if self.name == TABLES:
            return 0
        return sum(max(_code(hunk.before), _code(hunk.after)) for hunk in self.hunks)


def _code(lines: tuple[str, ...]) -> int:
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything that differs between two schedules.

    Attributes:
        before, after: what they are called.
        kernels: how many each makes; of those that differ the first ones are compared.
        changes: in words, by part.
        figures: those that changed, and the measured ones if the kernels were compiled.
        measured: figures of the compiled kernels that changed.
        rules: rule -> how it holds before and after.
        sections: of the kernel's text, those that changed.
        renamed: whether a role or buffer has another name: lines that differ in it alone do not
            count.
        compared: which kernel all this is of; empty for the first one of both.
        also_changed: kernels that change too.
        new_kernels, gone_kernels: those that only one schedule makes.
    """

    before: str
    after: str
    kernels: tuple[int, int]
    changes: tuple[Change, ...]
    figures: tuple[Delta, ...]
    measured: tuple[Delta, ...]
    rules: dict[str, tuple[str, str]]
    sections: tuple[SectionDiff, ...]
    renamed: bool = False
    compared: str = ""
    also_changed: tuple[str, ...] = ()
    new_kernels: tuple[str, ...] = ()
    gone_kernels: tuple[str, ...] = ()

    @property
    def only_comments(self) -> bool:
        """Return whether no more than comments of the kernel changed."""
        lines = (section.changed or section.moved for section in self.sections)
        return not any((*self.changes, *self.figures, *self.measured, *lines))

    @property
    def same(self) -> bool:
        """Return whether nothing changed."""
        found = (self.changes, self.figures, self.measured, self.sections)
        others = (self.also_changed, self.new_kernels, self.gone_kernels)
        return not any((*found, *others))
