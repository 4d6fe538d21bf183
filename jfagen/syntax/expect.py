"""What may stand at a place of a text that is still being typed: the parser is asked."""

from __future__ import annotations

from dataclasses import dataclass

from lark import Token, UnexpectedToken

from .grammar import NAMED_TERMINALS, can_follow, grammar, literals
from .parser import MAX_ERRORS, without_item


@dataclass(frozen=True, slots=True)
class Expected:
    """What the grammar takes next.

    Attributes:
        names: terminals that stand for names and numbers.
        words: keywords.
        signs: everything else, such as `{`.
        behind: the terminals and texts of the tokens before the place whose rules are not yet
            complete, the nearest last; what was read and is complete is left out.
    """

    names: tuple[str, ...]
    words: tuple[str, ...]
    signs: tuple[str, ...]
    behind: tuple[tuple[str, str], ...]

    def last(self, *terminals: str) -> str | None:
        """Return which of some terminals stands nearest before the place, among open rules."""
        return next((name for name, _ in reversed(self.behind) if name in terminals), None)

    def text_of(self, terminal: str) -> str | None:
        """Return the text of the nearest such token."""
        return next((text for name, text in reversed(self.behind) if name == terminal), None)


def expected_at(text: str, offset: int) -> Expected | None:
    """Return what may stand at `offset`, whatever follows; None where nothing before it is right.

    An item before the place that is wrong is left out, as the parser does when it goes on.
    """
    head: str | None = text[:offset]
    for _ in range(MAX_ERRORS):
        if head is None:
            return None
        parser = grammar().parse_interactive(head)
        try:
            parser.exhaust_lexer()
        except UnexpectedToken as error:
            head = without_item(head, error.token, parser.parser_state.value_stack)
        else:
            state = parser.parser_state
            possible = state.parse_conf.states[state.position]
            accepted = [name for name in possible if can_follow(state, name)]
            texts = literals()
            return Expected(
                names=tuple(name for name in NAMED_TERMINALS if name in accepted),
                words=tuple(texts[n] for n in texts if n in accepted and texts[n][0].isalpha()),
                signs=tuple(texts[n] for n in texts if n in accepted and not texts[n][0].isalpha()),
                behind=tuple(
                    (token.type, str(token))
                    for token in state.value_stack
                    if isinstance(token, Token)
                ),
            )
    return None
