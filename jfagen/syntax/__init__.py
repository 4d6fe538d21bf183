"""The language: text -> surface nodes, and the formatter."""

from .format import format_schedule
from .parser import parse

__all__ = ["format_schedule", "parse"]
