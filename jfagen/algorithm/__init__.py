"""The algorithm library: the mathematics as tables of ops; names of ops and values live here."""

from __future__ import annotations

from .attention_forward import ATTENTION_FORWARD
from .model import Access, Algorithm, Element, Engine, Mode, Op, Point, Probe, Space, Value

#: Every algorithm that a schedule may name, by name.
ALGORITHMS: dict[str, Algorithm] = {ATTENTION_FORWARD.name: ATTENTION_FORWARD}

__all__ = [
    "ALGORITHMS",
    "Access",
    "Algorithm",
    "Element",
    "Engine",
    "Mode",
    "Op",
    "Point",
    "Probe",
    "Space",
    "Value",
]
