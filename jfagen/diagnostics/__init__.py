"""Findings with places: the data, the collecting reporter and the renderings."""

from .as_json import as_dict, findings_document
from .fixes import (
    Counted,
    Edit,
    Fix,
    below,
    carried_out,
    count,
    drop,
    inside,
    meant,
    moved,
    only_choice,
    phrase,
    put,
    removal,
    without,
    write,
)
from .model import CompileError, Diagnostic, Found, Label, Note, Reporter, Severity
from .render import render, render_all, render_line
from .sarif import RuleWords, sarif_log
from .source import SourceFile, Span
from .words import listed, near_match, quoted

__all__ = [
    "CompileError",
    "Counted",
    "Diagnostic",
    "Edit",
    "Fix",
    "Found",
    "Label",
    "Note",
    "Reporter",
    "RuleWords",
    "Severity",
    "SourceFile",
    "Span",
    "as_dict",
    "below",
    "carried_out",
    "count",
    "drop",
    "findings_document",
    "inside",
    "listed",
    "meant",
    "moved",
    "near_match",
    "only_choice",
    "phrase",
    "put",
    "quoted",
    "removal",
    "render",
    "render_all",
    "render_line",
    "sarif_log",
    "without",
    "write",
]
