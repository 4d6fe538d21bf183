"""Text -> surface nodes, or every syntax error that can be told apart."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lark import Token, Tree, UnexpectedToken

from ..diagnostics import CompileError, Diagnostic, Reporter, SourceFile
from .ast import Schedule
from .build import build
from .errors import report_bad_text, report_unexpected
from .grammar import ITEM_KEYWORDS, open_braces, parse_tree

#: More errors than this in one file are noise: the rest shows when these are mended.
MAX_ERRORS = 20

_ITEM_LINE = re.compile(rf"^[ \t]*({'|'.join(ITEM_KEYWORDS)})\b", re.MULTILINE)
_CHARACTER = re.compile(r"[^\n]")


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read of a text.

    Attributes:
        tree: of the items that are right; None if not even the rest can be read.
        schedule: the same as nodes.
        diagnostics: every error found.
    """

    tree: Tree[Token] | None
    schedule: Schedule | None
    diagnostics: tuple[Diagnostic, ...]


def parse(source: SourceFile) -> Schedule:
    """Return the schedule in `source`; raise `CompileError` with every error found."""
    reading = read(source)
    if reading.diagnostics:
        raise CompileError(reading.diagnostics)
    assert reading.schedule is not None, "an error that lark raised was not reported"
    return reading.schedule


def read(source: SourceFile) -> Reading:
    """Return what could be read of `source`, and every error found.

    After an error the item around it is blanked and the rest is read again, so that one run shows
    the errors of several items. Offsets stay as they are in the file.
    """
    reporter = Reporter()
    report_bad_text(source, reporter)
    text: str | None = None if reporter.has_errors() else source.text
    for _ in range(MAX_ERRORS):
        if text is None:
            break
        try:
            tree = parse_tree(text)
        except UnexpectedToken as error:
            report_unexpected(source, error, reporter)
            stack = error.interactive_parser.parser_state.value_stack
            text = without_item(text, error.token, stack)
        else:
            return Reading(tree, build(tree, source, reporter), reporter.diagnostics)
    return Reading(None, None, reporter.diagnostics)


def without_item(text: str, wrong: Token, stack: Iterable[object]) -> str | None:
    """Return the text with the item around a wrong token blanked, or None where that cannot help.

    An item runs to the next line that starts with an item's keyword. Without such a line the item
    may hold the last brace of the file, and there is nothing after it to read. `stack` holds what
    the parser had read and not finished.
    """
    if wrong.type == "$END":
        return None
    place = wrong.start_pos or 0
    braces = open_braces(stack)
    if not braces:
        return None
    kernel, *inner = (brace.start_pos or 0 for brace in braces)
    starts = [match.start(1) for match in _ITEM_LINE.finditer(text, kernel + 1)]
    start = max([kernel + 1, *(start for start in starts if start < place)])
    after = [other for other in starts if other > max([start, *inner])]
    if not after:
        return None
    return text[:start] + _CHARACTER.sub(" ", text[start : after[0]]) + text[after[0] :]
