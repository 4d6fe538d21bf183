"""Formatter (written next)."""

from __future__ import annotations

from ..diagnostics import SourceFile


def format_schedule(source: SourceFile) -> str:
    """Return the text in its canonical form."""
    return source.text
