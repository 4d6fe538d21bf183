"""Findings with places: the data, the collecting reporter and the renderings."""

from .model import CompileError, Diagnostic, Label, Note, Reporter, Severity
from .render import as_dict, render, render_all, render_line
from .source import SourceFile, Span
from .words import did_you_mean, listed, near_match, quoted

__all__ = [
    "CompileError",
    "Diagnostic",
    "Label",
    "Note",
    "Reporter",
    "Severity",
    "SourceFile",
    "Span",
    "as_dict",
    "did_you_mean",
    "listed",
    "near_match",
    "quoted",
    "render",
    "render_all",
    "render_line",
]
