"""Proof: every rule against one compiled schedule; refuse with diagnostics, never adjust."""

from __future__ import annotations

from dataclasses import dataclass

from ..diagnostics import CompileError, Diagnostic
from .rules import RULES
from .subject import Subject


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved.

    Attributes:
        proved: rule id -> what holds.
    """

    proved: dict[str, str]


def prove(subject: Subject) -> Proof:
    """Return the proof; CompileError with every finding if a rule refuses."""
    found: list[Diagnostic] = []
    for rule in RULES:
        found += rule.check(subject)
    if found:
        raise CompileError(found)
    return Proof(proved={rule.ID: rule.PROVES for rule in RULES})
