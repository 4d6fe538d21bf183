"""Every name of a schedule with what it names: for hover, definition, references and rename."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from lark import Token, Tree

from ..diagnostics import SourceFile, Span


class Kind(StrEnum):
    """What a name names."""

    KERNEL = "kernel"
    ALGORITHM = "algorithm"
    ROLE = "role"
    BUFFER = "buffer"
    VALUE = "value"
    REGION = "region"
    OP = "op"
    SYMBOL = "symbol"
    WALK = "loop"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One name at one place.

    Attributes:
        declares: whether the schedule introduces the name here.
    """

    kind: Kind
    text: str
    span: Span
    declares: bool


#: Terminal of the grammar -> what it names.
_KINDS = {
    "KERNEL_NAME": Kind.KERNEL,
    "ALGORITHM_NAME": Kind.ALGORITHM,
    "ROLE_NAME": Kind.ROLE,
    "BUFFER_NAME": Kind.BUFFER,
    "VALUE_NAME": Kind.VALUE,
    "REGION_NAME": Kind.REGION,
    "OP_NAME": Kind.OP,
    "SYMBOL_NAME": Kind.SYMBOL,
    "GROUP_NAME": Kind.SYMBOL,
}
#: Rules whose own names are introduced there; of a loop that is its symbol.
_DECLARING = frozenset({"start", "role", "buffer_name", "region", "tile_size", "groups", "loop"})
#: A value that lives in a buffer of another name: its declaration is where it is held.
_HOLDING = "holds"


def names_in(tree: Tree[Token] | None, source: SourceFile) -> tuple[Occurrence, ...]:
    """Return every name of a parse tree, in the order of the text."""
    if tree is None:
        return ()
    found = [one for rule in tree.iter_subtrees() for one in _of_rule(rule, source)]
    return tuple(sorted(found, key=lambda one: one.span.start))


def _of_rule(rule: Tree[Token], source: SourceFile) -> Iterator[Occurrence]:
    for token in rule.children:
        if not isinstance(token, Token) or token.type not in _KINDS:
            continue
        start, end = token.start_pos, token.end_pos
        assert start is not None and end is not None, "every token has a place"
        kind = _KINDS[token.type]
        if kind is Kind.VALUE and rule.data == "loop":
            kind = Kind.WALK
        declares = (rule.data in _DECLARING and kind is not Kind.WALK) or rule.data == _HOLDING
        yield Occurrence(kind, str(token), source.span(start, end), declares)


def same(one: Occurrence, other: Occurrence) -> bool:
    """Return whether two names mean the same: a buffer without `holds` is named by its value."""
    return one.text == other.text and _entity(one.kind) == _entity(other.kind)


def _entity(kind: Kind) -> Kind:
    return Kind.BUFFER if kind is Kind.VALUE else kind
