"""Findings as plain values, for programs that read them: the form is `check.schema.json`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .fixes import Edit, Fix
from .model import Diagnostic, Found, Label
from .source import Span

#: The form of the document: another number where a key goes or means something else.
SCHEMA = "jfagen.check/1"


def findings_document(found: Iterable[Found]) -> dict[str, Any]:
    """Return findings as one object."""
    return {"schema": SCHEMA, "findings": [as_dict(one.diagnostic, one.path) for one in found]}


def as_dict(diagnostic: Diagnostic, path: str | None = None) -> dict[str, Any]:
    """Return plain values: lines and columns from 1, the end exclusive.

    Args:
        diagnostic: the finding.
        path: its file; None for the path under which messages show it.
    """
    label, notes = diagnostic.label, diagnostic.notes
    path = path if path is not None else label.span.source.path
    labels = [label, *(note.label for note in notes if note.label)]
    return {
        "id": diagnostic.id,
        "severity": str(diagnostic.severity),
        "message": diagnostic.message,
        **_label_dict(label, path),
        "lines": list(dict.fromkeys(one.span.line for one in labels)),
        "notes": [
            {"message": note.message, **(_label_dict(note.label, path) if note.label else {})}
            for note in notes
        ],
        "help": list(map(str, diagnostic.helps)),
        "fixes": [
            {"message": str(fix), "edits": [_edit_dict(edit) for edit in fix.edits]}
            for fix in diagnostic.helps
            if isinstance(fix, Fix)
        ],
    }


def _label_dict(label: Label, path: str) -> dict[str, Any]:
    return {"path": path, **_span_dict(label.span), "label": label.message}


def _edit_dict(edit: Edit) -> dict[str, Any]:
    return {**_span_dict(edit.span), "text": edit.text}


def _span_dict(span: Span) -> dict[str, int]:
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(span.end)
    return {"line": line, "column": column, "end_line": end_line, "end_column": end_column}
