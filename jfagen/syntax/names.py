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
        kind: what the grammar takes it for.
        means: the same, but a buffer where a value names the one that holds it.
        declares: whether the schedule introduces the name here.
    """

    kind: Kind
    means: Kind
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
    by_value = frozenset(name for rule in tree.find_data("buffer") for name in _by_value(rule))
    found = [one for rule in tree.iter_subtrees() for one in _of_rule(rule, source, by_value)]
    return tuple(sorted(found, key=lambda one: one.span.start))


def _by_value(buffer: Tree[Token]) -> Iterator[str]:
    """Yield the names of a declaration that says no `holds`: they are those of the values."""
    if not any(buffer.find_data(_HOLDING)):
        for name in buffer.find_data("buffer_name"):
            yield str(name.children[0])


def _of_rule(
    rule: Tree[Token], source: SourceFile, by_value: frozenset[str]
) -> Iterator[Occurrence]:
    for token in rule.children:
        if not isinstance(token, Token) or token.type not in _KINDS:
            continue
        start, end = token.start_pos, token.end_pos
        assert start is not None and end is not None, "every token has a place"
        kind = _KINDS[token.type]
        if kind is Kind.VALUE and rule.data == "loop":
            kind = Kind.WALK
        declares = (rule.data in _DECLARING and kind is not Kind.WALK) or rule.data == _HOLDING
        means = Kind.BUFFER if kind is Kind.VALUE and token in by_value else kind
        yield Occurrence(kind, means, str(token), source.span(start, end), declares)


def same(one: Occurrence, other: Occurrence) -> bool:
    """Return whether two names mean the same."""
    return (one.text, one.means) == (other.text, other.means)
