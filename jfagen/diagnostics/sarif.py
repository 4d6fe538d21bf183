"""Findings as a SARIF 2.1.0 log, for what shows findings beside the lines of a change."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from .fixes import Fix
from .model import Diagnostic, Found
from .source import Span

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_VERSION = "2.1.0"
#: What paths below the working folder are relative to: whoever reads the log puts its root there.
_ROOT = "%SRCROOT%"


@dataclass(frozen=True, slots=True)
class RuleWords:
    """What is said of a rule: a sentence, and a page."""

    short: str
    full: str


def sarif_log(
    found: Sequence[Found],
    *,
    root: Path,
    version: str,
    words_of: Callable[[str], RuleWords | None],
) -> dict[str, Any]:
    """Return the log of one run.

    Args:
        found: the findings, in the order in which they are told.
        root: the folder that paths are relative to.
        version: that of jfagen.
        words_of: id of a finding -> what is said of its rule; None if nothing is.
    """
    rules = sorted({one.diagnostic.id for one in found})
    seen: Counter[str] = Counter()
    return {
        "$schema": _SCHEMA,
        "version": _VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "jfagen",
                        "version": version,
                        "rules": [_rule(id, words_of(id)) for id in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {_ROOT: {"uri": root.resolve().as_uri().rstrip("/") + "/"}},
                "results": [_result(one, rules.index(one.diagnostic.id), seen) for one in found],
            }
        ],
    }


def _rule(id: str, words: RuleWords | None) -> dict[str, Any]:
    full = (
        words.full
        if words
        else f"Each message of {id} says what is wrong, and its help, if any, what to write."
    )
    return {
        "id": id,
        "shortDescription": _text(words.short if words else id.replace("-", " ")),
        "fullDescription": _text(full),
        "help": _text(full),
    }


def _result(found: Found, rule: int, seen: Counter[str]) -> dict[str, Any]:
    diagnostic, path = found.diagnostic, found.path
    label = diagnostic.label
    location = _location(label.span, path, label.message)
    placed = [(note.label.span, note.message) for note in diagnostic.notes if note.label]
    related = [
        {"id": number, **_location(span, path, said)}
        for number, (span, said) in enumerate(placed, start=1)
    ]
    fixes = [_fix(fix, path) for fix in diagnostic.helps if isinstance(fix, Fix)]
    return {
        "ruleId": diagnostic.id,
        "ruleIndex": rule,
        "level": str(diagnostic.severity),
        "message": _text(_message(diagnostic)),
        "locations": [location],
        **({"relatedLocations": related} if related else {}),
        **({"fixes": fixes} if fixes else {}),
        "partialFingerprints": {"sourceLine/v1": _fingerprint(found, seen)},
    }


def _message(diagnostic: Diagnostic) -> str:
    """Return the message with the notes that have no place and the helps, a line each."""
    notes = [f"note: {note.message}" for note in diagnostic.notes if not note.label]
    return "\n".join([diagnostic.message, *notes, *(f"help: {one}" for one in diagnostic.helps)])


def _fix(fix: Fix, path: str) -> dict[str, Any]:
    replacements = [
        {
            "deletedRegion": _region(edit.span),
            **({"insertedContent": _text(edit.text)} if edit.text else {}),
        }
        for edit in fix.edits
    ]
    change = {"artifactLocation": _artifact(path), "replacements": replacements}
    return {"description": _text(fix), "artifactChanges": [change]}


def _fingerprint(found: Found, seen: Counter[str]) -> str:
    """Return what tells a finding from others wherever its line moves: id, file, the line's text.

    Of several that are alike, `seen` counts how many came before.
    """
    span = found.diagnostic.label.span
    line = span.source.line_text(span.line).strip()
    same = "\0".join([found.diagnostic.id, found.path, line, span.text])
    digest = hashlib.sha256(same.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    seen[digest] += 1
    return f"{digest}:{seen[digest]}"


def _location(span: Span, path: str, message: str) -> dict[str, Any]:
    return {
        "physicalLocation": {"artifactLocation": _artifact(path), "region": _region(span)},
        **({"message": _text(message)} if message else {}),
    }


def _artifact(path: str) -> dict[str, str]:
    escaped = quote(os.fsencode(path), safe="/")
    if PurePath(path).is_absolute():
        return {"uri": f"file://{escaped}"}
    return {"uri": escaped, "uriBaseId": _ROOT}


def _region(span: Span) -> dict[str, int]:
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(span.end)
    return {
        "startLine": line,
        "startColumn": column,
        "endLine": end_line,
        "endColumn": end_column,
    }


def _text(text: str) -> dict[str, str]:
    return {"text": str(text)}
