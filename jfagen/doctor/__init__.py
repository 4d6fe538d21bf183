"""Is this install whole? Facts are gathered once; what they mean is a function of them."""

from __future__ import annotations

from .facts import Facts, Gpu, Install, Program, Requirement, Torch
from .gather import gather
from .judge import Level, Line, judge

__all__ = [
    "Facts",
    "Gpu",
    "Install",
    "Level",
    "Line",
    "Program",
    "Requirement",
    "Torch",
    "gather",
    "judge",
]
