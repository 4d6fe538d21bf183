"""What can be written at a place: the grammar says which kind, the schedule which names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..algorithm import ALGORITHMS, Algorithm, Engine, Op, Space
from ..diagnostics import Span
from ..semantics.check_problem import BUILT, MOST_GROUPS
from ..semantics.context import ROLE_WARPS
from ..semantics.staging import MOST_HELD, SLICE_COLUMNS
from ..syntax.expect import Expected, expected_at
from ..syntax.names import Kind
from ..syntax.tokens import Piece
from ..target import FEWEST_REGISTERS, REGISTER_STEP, TARGETS
from .document import Document
from .words import MEANINGS, NOT_BUILT, SNIPPETS

#: Numbers that are offered where more are legal.
_DEPTHS, _SLICES = range(1, 5), (1, 2, 4, 8)
_MOST_REGISTERS = max(target.registers_per_thread for target in TARGETS.values())
_REGISTERS = range(FEWEST_REGISTERS, _MOST_REGISTERS + 1, REGISTER_STEP)


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that can be written.

    Attributes:
        text: what is written, and what is typed to find it.
        kind: what it names; None for a word of the language or a number.
        detail: what it is.
        snippet: what is written instead where the editor has snippets; empty if the same.
    """

    text: str
    kind: Kind | None = None
    detail: str = ""
    snippet: str = ""


def choices_at(document: Document, offset: int, known: Document | None = None) -> list[Choice]:
    """Return what can be written in place of what is typed at `offset`, the likely first.

    Args:
        document: the text as it is.
        offset: of the cursor.
        known: the text as it last could be read, for its names; `document` if None.
    """
    start = typed_at(document, offset).start
    if _in_comment(document, start):
        return []
    expected = expected_at(document.source.text, start)
    if expected is None:
        return []
    place = _Place(document, known or document, expected)
    found = [choice for name in expected.names for choice in place.named(name)]
    for text in expected.words:
        if text not in NOT_BUILT and not place.is_refused(text):
            found.append(Choice(text, None, MEANINGS.get(text, ""), SNIPPETS.get(text, "")))
    return list({choice.text: choice for choice in found}.values())


def needs_more(document: Document, offset: int) -> bool:
    """Return whether what stands before what is typed cannot end there, as `depth` cannot."""
    expected = expected_at(document.source.text, typed_at(document, offset).start)
    return expected is not None and "}" not in expected.signs


def typed_at(document: Document, offset: int) -> Span:
    """Return the word or number that the cursor is behind or in; empty if in front of it."""
    before: Piece | None = None
    for piece in document.pieces:
        if piece.start >= offset:
            break
        if piece.end >= offset and (piece.text[0].isalnum() or piece.text[0] == "_"):
            return document.source.span(piece.start, piece.end)
        # `attention.` is a word and a dot for as long as nothing follows.
        if piece.text == "." and piece.end == offset and before and before.end == piece.start:
            return document.source.span(before.start, piece.end)
        before = piece
    return document.source.span(offset, offset)


def _in_comment(document: Document, offset: int) -> bool:
    text = document.source.text
    return "#" in text[text.rfind("\n", 0, offset) + 1 : offset]


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a text, and what the grammar takes there."""

    document: Document
    known: Document
    expected: Expected

    @property
    def before(self) -> str:
        """The terminal right before the place."""
        return self.expected.behind[-1][0] if self.expected.behind else ""

    @property
    def algorithm(self) -> Algorithm | None:
        return self.document.algorithm or self.known.algorithm

    def declared(self, kind: Kind) -> list[str]:
        """Return the names of one kind that the schedule introduces."""
        return list(
            dict.fromkeys(n.text for n in self.known.names if n.kind is kind and n.declares)
        )

    def is_refused(self, word: str) -> bool:
        """Whether a word parses here, but no kernel is built with it."""
        field = self.expected.last("HEAD_DIM", "DTYPE", "Q", "KV")
        offered = field and self.before in (field, "LBRACE", "COMMA")
        return bool(offered and word != "in" and word not in BUILT[str(field).lower()])

    def named(self, terminal: str) -> Iterator[Choice]:
        """Yield the names that can stand for a terminal."""
        match terminal:
            case "NUMBER":
                yield from (Choice(str(number)) for number in self.numbers())
            case "ALGORITHM_NAME":
                yield from (Choice(name, Kind.ALGORITHM) for name in ALGORITHMS)
            case "ROLE_NAME" if self.before != "ROLE":
                yield from (Choice(name, Kind.ROLE) for name in self.declared(Kind.ROLE))
            case "OP_NAME":
                yield from self.ops()
            case "BUFFER_NAME":
                yield from self.buffers()
            case "VALUE_NAME":
                yield from self.values()
            case "SYMBOL_NAME" | "GROUP_NAME":
                yield from self.symbols()

    def numbers(self) -> Sequence[int]:
        """Return the numbers that are legal here, or the small ones of very many."""
        word = self.before
        inside = self.expected.last("OP_NAME", "ROLE_NAME", "COLON", "HEAD_DIM")
        if word in ("LBRACE", "COMMA") and inside == "HEAD_DIM":
            word = "HEAD_DIM"
        if word in ("LSQB", "COMMA") and inside == "COLON":
            return SLICE_COLUMNS
        legal: dict[str, Sequence[int]] = {
            "HEAD_DIM": tuple(map(int, BUILT["head_dim"])),
            "WARPS": ROLE_WARPS,
            "REGISTERS": _REGISTERS,
            "DEPTH": _DEPTHS,
            "SLICES": _SLICES,
            "HOLD": range(MOST_HELD + 1),
            "OF": SLICE_COLUMNS,
            "X": range(1, MOST_GROUPS + 1),
            "LSQB": range(MOST_GROUPS),
            "SYMBOL_NAME": self._rows(),
            "MINUS": range(1, 3),
            "PLUS": range(1, 3),
            "SLASH": range(1, MOST_GROUPS + 1),
        }
        return legal.get(word, ())

    def _rows(self) -> tuple[int, ...]:
        symbol = self.expected.text_of("SYMBOL_NAME")
        extent = self.algorithm.extents.get(symbol or "") if self.algorithm else None
        return (
            tuple(sorted({n for sizes in extent.sizes.values() for n in sizes})) if extent else ()
        )

    def ops(self) -> Iterator[Choice]:
        """Yield the ops that can run here, those that no role has first."""
        algorithm = self.algorithm
        if algorithm is None:
            return
        in_loop = any(terminal == "LOOP" for terminal, _ in self.expected.behind)
        space = Space.STEP if in_loop else Space.TILE
        placed = {one.text for one in self.known.names if one.kind is Kind.OP}
        names_only = self.expected.last("PAIR", "LIVES", "RELAY") is not None
        fitting = [op for op in algorithm.ops if op.space is space or names_only]
        for op in sorted(fitting, key=lambda op: op.name in placed):
            yield Choice(op.name, Kind.OP, op_words(op), "" if names_only else self._indexed(op))

    def _indexed(self, op: Op) -> str:
        """Return an op with its indices."""
        symbols = [n for n in self.known.names if n.kind is Kind.SYMBOL and n.declares]
        schedule = self.known.reading.schedule
        sizes = schedule.tile.sizes if schedule and schedule.tile else ()
        group = next((one.groups.symbol.text for one in sizes if one.groups), None)
        loop = self.expected.text_of("SYMBOL_NAME") or (symbols[-1].text if symbols else "i")
        indices = [group] if op.grouped and group else []
        indices += [loop] if op.space is Space.STEP else []
        return op.name + "".join(f"[{index}]" for index in indices)

    def buffers(self) -> Iterator[Choice]:
        """Yield declared buffers, or where one is declared the values that no buffer holds."""
        declares = self.expected.last("REGION", "APART", "TOGETHER", "THROUGH", "PAIR") is None
        declared = self.declared(Kind.BUFFER)
        if not declares:
            yield from (Choice(name, Kind.BUFFER) for name in declared)
        elif self.algorithm is not None:
            held = {*declared, *self.declared(Kind.VALUE)}
            for value in sorted(self.algorithm.values, key=lambda one: one.name in held):
                shape = f"[{', '.join(value.dims)}]"
                yield Choice(value.name, Kind.VALUE, f"a value of the algorithm, {shape}")

    def values(self) -> Iterator[Choice]:
        """Yield what a loop walks over, or values of the algorithm."""
        if self.algorithm is None:
            return
        if self.before == "OVER":
            yield Choice(self.algorithm.loop, Kind.WALK, "what the steps of a tile walk over")
            return
        for value in self.algorithm.values:
            yield Choice(value.name, Kind.VALUE, f"[{', '.join(value.dims)}]")

    def symbols(self) -> Iterator[Choice]:
        """Yield symbols of dimensions, of groups and of the loop."""
        declared = self.declared(Kind.SYMBOL)
        extents = list(self.algorithm.extents) if self.algorithm else []
        where = self.expected.last("OP_NAME", "TILE", "COLON", "LOOP", "ROLE_NAME", "REGION_NAME")
        if self.before in ("LOOP", "AS"):
            return
        if where == "TILE":
            names = extents
        elif where == "COLON":
            names = [*extents, "d"]
        else:
            names = [name for name in declared if name not in extents]
        yield from (Choice(name, Kind.SYMBOL) for name in names)


def op_words(op: Op) -> str:
    """Return what executes an op, and how often it runs."""
    each = " for each group" if op.grouped else ""
    engine = "warps" if op.engine is Engine.WARPS else str(op.engine)
    return f"{engine}, once a {op.space}{each}"
