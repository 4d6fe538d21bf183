"""Proof: every rule against one compiled schedule; refuse with diagnostics, never adjust."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from ..diagnostics import CompileError, Diagnostic
from .rules import RULES
from .subject import Subject


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule found to hold.

    Attributes:
        word: `proved` for every length, or `enumerated` for a few cases.
        what: what holds.
    """

    word: str
    what: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What holds: rule id -> verdict, in the order of the rules."""

    verdicts: dict[str, Verdict]


def verdict(rule: ModuleType) -> Verdict:
    """Return what a rule that refuses nothing says."""
    return Verdict(getattr(rule, "WORD", "proved"), rule.PROVES)


def prove(subject: Subject) -> Proof:
    """Return the proof; CompileError with every finding if a rule refuses."""
    found: list[Diagnostic] = []
    for rule in RULES:
        found += rule.check(subject)
    if found:
        raise CompileError(found)
    return Proof({rule.ID: verdict(rule) for rule in RULES})
