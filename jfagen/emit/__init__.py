"""Emission: views decide, templates spell."""

from __future__ import annotations

from .collisions import clashes
from .kernel import Emitted, emit, text_digest, written_digest
from .tables import aligned, barrier_table, memory_map

__all__ = [
    "Emitted",
    "aligned",
    "barrier_table",
    "clashes",
    "emit",
    "memory_map",
    "text_digest",
    "written_digest",
]
