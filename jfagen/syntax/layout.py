"""What the formatter must know of a text beyond its pieces: where items and statements start."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import StrEnum

from lark import Token, Tree

from .tokens import Kind, Piece, pieces

#: Rules whose text starts on a line of its own.
_ITEM_RULES = frozenset({"item", "block"})
#: Rules that two blanks set apart from what stands before them; in a block they may start a line.
_STATEMENT_RULES = frozenset(
    {"problem_setting", "tile_size", "role_setting", "step", "pair_setting", "tiles_setting"}
)
_PHRASE_RULES = frozenset({"buffer_setting", "hold"})
_SET_RULES = frozenset({"one_of", "tune_set"})


class Row(StrEnum):
    """The kinds of lines that are aligned with their neighbours of the same kind."""

    HEAD = "head"
    ROLE = "role"
    BUFFER = "buffer"
    BLOCK = "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Facts about the pieces of one text; every key is the offset of a piece.

    Attributes:
        pieces: Words, numbers, signs and comments in order.
        items: Where an item starts: a line of its own.
        statements: Where a statement of a block starts: two blanks or a line end before it.
        phrases: Where a part of an item starts: two blanks before it, never a line end.
        blocks: The brace that opens a block -> the one that closes it.
        broken: The opening braces of the blocks that stand on several lines.
        inner: What continues the statement or item before it, comments in between included.
        rows: The start of an item -> its kind and the piece that is aligned, if any.
    """

    pieces: tuple[Piece, ...]
    items: frozenset[int]
    statements: frozenset[int]
    phrases: frozenset[int]
    blocks: dict[int, int]
    broken: frozenset[int]
    inner: frozenset[int]
    rows: dict[int, tuple[Row, int | None]]


def layout_of(text: str, tree: Tree[Token]) -> Layout:
    """Return the layout of a text with its parse tree."""
    found = tuple(pieces(text))
    starts: dict[str, list[int]] = {}
    sets: set[int] = set()
    rows: dict[int, tuple[Row, int | None]] = {}
    for node in tree.iter_subtrees():
        rule, first = str(node.data), node.meta.start_pos
        starts.setdefault(rule, []).append(first)
        if rule in _SET_RULES:
            sets.update(range(first, node.meta.end_pos))
        if (row := _row(rule, node, found)) is not None:
            rows[first] = row
    items = _offsets(starts, _ITEM_RULES)
    statements = _offsets(starts, _STATEMENT_RULES)
    blocks = _blocks(found, sets)
    return Layout(
        pieces=found,
        items=items,
        statements=statements,
        phrases=_offsets(starts, _PHRASE_RULES),
        blocks=blocks,
        broken=_broken(text, blocks, items),
        inner=_inner(found, items | statements, blocks),
        rows=rows,
    )


def _offsets(starts: dict[str, list[int]], rules: frozenset[str]) -> frozenset[int]:
    return frozenset(start for rule in rules for start in starts.get(rule, ()))


def _row(rule: str, node: Tree[Token], found: tuple[Piece, ...]) -> tuple[Row, int | None] | None:
    match rule:
        case "algorithm" | "target":
            return Row.HEAD, found[_index(found, node.meta.start_pos) + 1].start
        case "role":
            return Row.ROLE, _next_sign(found, node, "{")
        case "block":
            return Row.BLOCK, _next_sign(found, node, "{")
        case "buffer":
            alone = sum(isinstance(c, Tree) and c.data == "buffer_name" for c in node.children) == 1
            return Row.BUFFER, _next_sign(found, node, ":") if alone else None
        case _:
            return None


def _index(found: tuple[Piece, ...], start: int) -> int:
    return bisect_left(found, start, key=lambda piece: piece.start)


def _next_sign(found: tuple[Piece, ...], node: Tree[Token], sign: str) -> int:
    rest = found[_index(found, node.meta.start_pos) :]
    return next(p.start for p in rest if p.kind is Kind.SIGN and p.text == sign)


def _blocks(found: tuple[Piece, ...], sets: set[int]) -> dict[int, int]:
    blocks: dict[int, int] = {}
    opened: list[int] = []
    for piece in found:
        if piece.kind is not Kind.SIGN or piece.start in sets:
            continue
        if piece.text == "{":
            opened.append(piece.start)
        elif piece.text == "}":
            blocks[opened.pop()] = piece.start
    return blocks


def _broken(text: str, blocks: dict[int, int], items: frozenset[int]) -> frozenset[int]:
    """Return the blocks in which the author ended a line, or which hold items."""
    several: set[int] = set()
    ordered = sorted(items)
    for start, end in blocks.items():
        inside = text[start + 1 : end]
        if "\n" in inside and inside.strip():
            several.add(start)
        following = bisect_right(ordered, start)
        if following < len(ordered) and ordered[following] < end:
            several.add(start)
    return frozenset(several)


def _inner(
    found: tuple[Piece, ...], starts: frozenset[int], blocks: dict[int, int]
) -> frozenset[int]:
    inner: set[int] = set()
    outside = starts | set(blocks.values())
    comments: list[int] = []
    last: int | None = None
    for piece in found:
        if piece.kind is Kind.COMMENT:
            comments.append(piece.start)
            continue
        if last is not None and piece.start not in outside and last not in blocks:
            inner.update([*comments, piece.start])
        comments, last = [], piece.start
    return frozenset(inner)
