"""What to change in a text so that it becomes another one: few edits, for the cursor's sake."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from ..diagnostics import Edit, SourceFile


def changes(source: SourceFile, new: str) -> Iterator[Edit]:
    """Yield edits that make `new` of a text; lines that stay the same are not touched."""
    old_lines, new_lines = (text.splitlines(keepends=True) for text in (source.text, new))
    at = 0
    for tag, start, end, first, last in SequenceMatcher(
        None, old_lines, new_lines, autojunk=False
    ).get_opcodes():
        before, after = old_lines[start:end], new_lines[first:last]
        if tag != "replace" or len(before) != len(after):
            before, after = ["".join(before)], ["".join(after)]
        for line, wanted in zip(before, after, strict=True):
            if line != wanted:
                yield _narrow(source, at, line, wanted)
            at += len(line)


def _narrow(source: SourceFile, at: int, old: str, new: str) -> Edit:
    """Return the edit of `old`, which stands at `at`, without what both begin and end with."""
    head = _alike(old, new)
    old, new = old[head:], new[head:]
    tail = _alike(old[::-1], new[::-1])
    span = source.span(at + head, at + head + len(old) - tail)
    return Edit(span, new[: len(new) - tail])


def _alike(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
