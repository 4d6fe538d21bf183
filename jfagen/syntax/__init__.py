"""The language: text -> surface nodes, and the formatter."""

from .format import format_schedule
from .parser import Reading, parse, read

__all__ = ["Reading", "format_schedule", "parse", "read"]
