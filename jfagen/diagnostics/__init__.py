"""Findings with places: the data, the collecting reporter and the renderings."""

from .fixes import (
    Counted,
    Edit,
    Fix,
    below,
    carried_out,
    choice,
    count,
    drop,
    inside,
    meant,
    moved,
    phrase,
    put,
    removal,
    without,
    write,
)
from .model import CompileError, Diagnostic, Label, Note, Reporter, Severity
from .render import as_dict, render, render_all, render_line
from .source import SourceFile, Span
from .words import listed, near_match, quoted

__all__ = [
    "CompileError",
    "Counted",
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
    "below",
    "carried_out",
    "choice",
    "count",
    "drop",
    "inside",
    "listed",
    "meant",
    "moved",
    "near_match",
    "phrase",
    "put",
    "quoted",
    "removal",
    "render",
    "render_all",
    "render_line",
    "without",
    "write",
]
