"""Emission: views decide, templates spell."""

from __future__ import annotations

from .collisions import clashes
from .kernel import Emitted, emit, text_digest, written_digest
from .storage_lines import extent_words
from .tables import (
    aligned,
    barrier_table,
    end_words,
    memory_map,
    number_words,
    phase_words,
    place_words,
)

__all__ = [
    "Emitted",
    "aligned",
    "barrier_table",
    "clashes",
    "emit",
    "end_words",
    "extent_words",
    "memory_map",
    "number_words",
    "phase_words",
    "place_words",
    "text_digest",
    "written_digest",
]
