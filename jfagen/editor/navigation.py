"""Where a name is introduced and used, what it may be renamed to, and the outline of a schedule."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .. import algorithm
from ..diagnostics import Edit, Span
from ..syntax.grammar import ITEM_KEYWORDS
from ..syntax.names import Kind, Occurrence, same
from .document import Document

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: What the user names: anything else is the algorithm's or the language's.
_OWN = frozenset({Kind.KERNEL, Kind.ROLE, Kind.BUFFER, Kind.REGION, Kind.SYMBOL})


class Unnameable(Exception):
    """A name cannot be changed, or not to what was asked for: the message says why."""


@dataclass(frozen=True, slots=True)
class LibraryPlace:
    """A line of the algorithm library, counted from 0."""

    file: Path
    line: int


def definition_at(document: Document, offset: int) -> Span | LibraryPlace | None:
    """Return where the name at `offset` is introduced: in the schedule, or in the library."""
    name = document.name_at(offset)
    if name is None:
        return None
    if name.kind in (Kind.OP, Kind.ALGORITHM, Kind.WALK):
        return _in_library(name, document)
    declared = [one for one in document.names if one.declares and same(one, name)]
    if declared:
        return declared[0].span
    return _head_dim(document) if name.kind is Kind.SYMBOL and name.text == "d" else None


def _head_dim(document: Document) -> Span | None:
    """Return where the problem says what `d` is."""
    problem = document.reading.schedule.problem if document.reading.schedule else None
    return problem.head_dim.span if problem and problem.head_dim else None


def _in_library(name: Occurrence, document: Document) -> LibraryPlace | None:
    if document.algorithm is None:
        return None
    for file, text in _library():
        if f'"{document.algorithm.name}"' not in text:
            continue
        written = "loop" if name.kind is Kind.WALK else "name"
        found = re.search(rf'\b{written}="{re.escape(name.text)}"', text)
        found = found or _made_by_helper(name.text, text)
        return LibraryPlace(file, text.count("\n", 0, found.start())) if found else None
    return None


def _made_by_helper(op: str, text: str) -> re.Match[str] | None:
    """Return the call that makes an op, of a function that builds its name from an argument."""
    for built in re.finditer(r'\bname=(?:f"(\w+)\{name\}"|name),', text):
        before = built[1] or ""
        *_, helper = re.findall(r"^def (\w+)", text[: built.start()], re.MULTILINE)
        argument = re.escape(op.removeprefix(before))
        found = re.search(rf'\b{helper}\("{argument}"', text) if op.startswith(before) else None
        if found is not None:
            return found
    return None


@cache
def _library() -> tuple[tuple[Path, str], ...]:
    folder = Path(algorithm.__file__).parent
    return tuple((path, path.read_text("utf-8")) for path in sorted(folder.glob("*.py")))


def uses_at(document: Document, offset: int) -> tuple[Occurrence, ...]:
    """Return every place of the name at `offset`, in the order of the text."""
    name = document.name_at(offset)
    if name is None:
        return ()
    return tuple(one for one in document.names if same(one, name))


def renamable_at(document: Document, offset: int) -> Occurrence:
    """Return the name at `offset` if the schedule chose it.

    Raises:
        Unnameable: it is the algorithm's or the language's, nothing is there, or the text cannot
            be read to its end: then not every use of a name is known.
    """
    if document.reading.diagnostics:
        raise Unnameable("the text has a mistake that hides what it says: mend that first")
    name = document.name_at(offset)
    if name is None:
        raise Unnameable("there is no name here")
    if name.kind not in _OWN:
        raise Unnameable(f"`{name.text}` is a name of the algorithm's, not of the schedule's")
    if name.kind is Kind.SYMBOL and document.algorithm and name.text in _dims(document):
        raise Unnameable(f"`{name.text}` is a dimension of the algorithm's")
    if name.kind is Kind.BUFFER and _is_value(document, name.text):
        raise Unnameable(f"`{name.text}` is named by its value: say `holds {name.text}` first")
    return name


def _dims(document: Document) -> set[str]:
    known = document.algorithm
    return {"d", *known.extents} if known else set()


def _is_value(document: Document, name: str) -> bool:
    """Return whether a buffer holds the value of its own name because it says nothing else."""
    known, schedule = document.algorithm, document.reading.schedule
    silent = [buffer for buffer in (schedule.buffers if schedule else ()) if not buffer.holds]
    declared = {one.name.text for buffer in silent for one in buffer.names}
    return name in declared and known is not None and name in {one.name for one in known.values}


def renamed(document: Document, offset: int, new: str) -> tuple[Edit, ...]:
    """Return the edits that give the name at `offset` another one.

    Raises:
        Unnameable: the old name is not the schedule's, or the new one cannot be taken.
    """
    name = renamable_at(document, offset)
    if not _NAME.fullmatch(new):
        raise Unnameable("names are ASCII letters, digits and `_`, and start with no digit")
    if new in ITEM_KEYWORDS:
        raise Unnameable(f"`{new}` starts an item, and is never a name")
    taken = [one for one in document.names if one.text == new and one.kind is name.kind]
    if taken and new != name.text:
        raise Unnameable(f"there is a {name.kind} `{new}` already")
    alike = (one for one in document.names if one.kind is name.kind and one.text == name.text)
    return tuple(Edit(one.span, new) for one in alike)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the outline: a declared name, and the item that declares it."""

    name: Occurrence
    item: Span


def outline(document: Document) -> tuple[Entry, ...]:
    """Return roles, buffers and regions in the order of the text, each with its item."""
    schedule = document.reading.schedule
    if schedule is None:
        return ()
    items = (*schedule.roles, *schedule.buffers, *schedule.regions)
    shown = (Kind.ROLE, Kind.BUFFER, Kind.REGION)
    return tuple(
        Entry(name, item.span)
        for name in document.names
        if name.declares and name.kind in shown
        for item in items
        if item.span.start <= name.span.start < item.span.end
    )
