"""How deep brackets may stand in each other: what walks a tree recursively has a limit."""

from __future__ import annotations

import re

from ..diagnostics import Reporter, SourceFile

#: More open brackets than this are no schedule.
MAX_NESTING = 50

_BRACKETS = re.compile(r"#[^\n]*|(?P<open>[(\[{])|(?P<close>[)\]}])")


def check_nesting(source: SourceFile, reporter: Reporter) -> None:
    """Report the first bracket of a text that parses that stands inside too many others."""
    depth = 0
    for match in _BRACKETS.finditer(source.text):
        depth += {"open": 1, "close": -1}.get(match.lastgroup or "", 0)
        if depth > MAX_NESTING:
            message = f"brackets are nested at most {MAX_NESTING} deep"
            reporter.report("syntax", message, source.span(match.start(), match.end()))
            return
