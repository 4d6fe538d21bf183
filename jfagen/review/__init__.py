"""What changed between two schedules: in words, in figures and in the lines of the kernels."""

from __future__ import annotations

from .changes import Change, Comparison, Delta, Hunk, Moved, Part, SectionDiff
from .compare import compare
from .facts import Facts, facts_of

__all__ = [
    "Change",
    "Comparison",
    "Delta",
    "Facts",
    "Hunk",
    "Moved",
    "Part",
    "SectionDiff",
    "compare",
    "facts_of",
]
