"""Findings with places: the data, the collecting reporter and the renderings."""

from .fixes import Edit, Fix, carried_out, drop, meant, removal, write
from .model import CompileError, Diagnostic, Label, Note, Reporter, Severity
from .render import as_dict, render, render_all, render_line
from .source import SourceFile, Span
from .words import did_you_mean, listed, near_match, quoted

__all__ = [
    "CompileError",
    "Diagnostic",
    "Edit",
    "Fix",
    "Label",
    "Note",
    "Reporter",
    "Severity",
    "SourceFile",
    "Span",
    "as_dict",
    "carried_out",
    "did_you_mean",
    "drop",
    "listed",
    "meant",
    "near_match",
    "quoted",
    "removal",
    "render",
    "render_all",
    "render_line",
    "write",
]
