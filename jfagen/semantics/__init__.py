"""From the syntax tree to a checked program."""

from __future__ import annotations

from .check import check
from .program import Program

__all__ = ["Program", "check"]
