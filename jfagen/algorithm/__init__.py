"""The algorithm library: the mathematics as tables of ops; names of ops and values live here."""

from __future__ import annotations

from .attention_backward import ATTENTION_BACKWARD
from .attention_forward import ATTENTION_FORWARD
from .model import Access, Algorithm, Element, Engine, Extent, Mode, Op, Point, Probe, Space, Value

#: Every algorithm that a schedule may name, by name.
ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm for algorithm in (ATTENTION_FORWARD, ATTENTION_BACKWARD)
}

__all__ = [
    "ALGORITHMS",
    "Access",
    "Algorithm",
    "Element",
    "Engine",
    "Extent",
    "Mode",
    "Op",
    "Point",
    "Probe",
    "Space",
    "Value",
]
