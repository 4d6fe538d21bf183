"""The grammar as a parser: text -> parse tree, through the only import of `lark`'s parser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from lark import Lark, Token, Tree
from lark.common import LexerConf
from lark.lexer import Lexer, LexerState, PatternStr
from lark.parsers.lalr_analysis import Shift
from lark.parsers.lalr_parser_state import ParserState

from .tables import parser_of
from .tokens import Kind, pieces

#: What the terminals that stand for names and numbers are called in messages.
NAMED_TERMINALS = {
    "NUMBER": "a number",
    "KERNEL_NAME": "a name for the kernel",
    "ALGORITHM_NAME": "an algorithm such as `attention.forward`",
    "ROLE_NAME": "a role",
    "BUFFER_NAME": "a buffer",
    "REGION_NAME": "a name for the region",
    "OP_NAME": "an op",
    "VALUE_NAME": "a value",
    "SYMBOL_NAME": "a symbol",
    "GROUP_NAME": "a group index",
}

#: The words that start an item of a kernel, never names; a role's name starts one too.
ITEM_KEYWORDS = (
    *("algorithm", "target", "problem", "tile", "role", "smem", "tmem", "reg"),
    *("region", "apart", "together", "loop", "pair", "tiles"),
)

#: The type of a token that fits nowhere in the grammar.
JUNK = "JUNK"


class WordLexer(Lexer):
    """Tokens by context: a word is a keyword where the grammar has it, else a name.

    At any place at most one kind of name may follow. The words that start an item are keywords
    everywhere, so that an error shows on the line where it is.
    """

    __future_interface__ = 2  # asks lark for the parser's state beside the text

    def __init__(self, conf: LexerConf) -> None:
        self.literals = {
            terminal.pattern.value: terminal.name
            for terminal in conf.terminals
            if isinstance(terminal.pattern, PatternStr)
        }

    def lex(self, lexer_state: LexerState, parser_state: ParserState[Any]) -> Iterator[Token]:
        """Yield the tokens of the text; each type is decided in the state that receives it."""
        text: str = lexer_state.text.text
        for piece in pieces(text):
            if piece.kind is Kind.COMMENT:
                continue
            yield Token(
                self._type(piece.kind, piece.text, parser_state),
                piece.text,
                start_pos=piece.start,
                end_pos=piece.end,
            )

    def _type(self, kind: Kind, text: str, parser_state: ParserState[Any]) -> str:
        if kind is Kind.NUMBER:
            return "NUMBER"
        if kind is Kind.JUNK:
            return JUNK
        literal = self.literals.get(text, JUNK)
        if kind is Kind.SIGN or text in ITEM_KEYWORDS:
            return literal
        if "." in text:
            return "ALGORITHM_NAME"
        expected = parser_state.parse_conf.states[parser_state.position]
        candidates = [literal] if literal in expected else []
        candidates += [name for name in expected if name.endswith("_NAME")]
        if len(candidates) > 1:
            candidates = [name for name in candidates if can_follow(parser_state, name)]
        return candidates[0] if candidates else literal


def can_follow(parser_state: ParserState[Any], terminal: str) -> bool:
    """Whether a terminal may really stand next: merged LALR states expect more than that."""
    states = parser_state.parse_conf.states
    stack = list(parser_state.state_stack)
    while (step := states[stack[-1]].get(terminal)) is not None:
        action, rule = step
        if action is Shift:
            return True
        del stack[len(stack) - len(rule.expansion) :]
        stack.append(states[stack[-1]][rule.origin.name][1])
        if terminal == "$END" and stack[-1] == parser_state.parse_conf.end_state:
            return True
    return False


@cache
def grammar() -> Lark:
    """Return the parser of `schedule.lark`."""
    text = files(__package__).joinpath("schedule.lark").read_text("utf-8")
    return parser_of(text, WordLexer, Path(cache_from_source(__file__)).parent)


@cache
def literals() -> dict[str, str]:
    """Return the text of every keyword and sign of the grammar, by terminal."""
    return {
        terminal.name: terminal.pattern.value
        for terminal in grammar().terminals
        if isinstance(terminal.pattern, PatternStr)
    }


def parse_tree(text: str) -> Tree[Token]:
    """Return the parse tree of a text, or raise lark's `UnexpectedToken`."""
    return grammar().parse(text)


def open_braces(stack: Iterable[object]) -> list[Token]:
    """Return the braces that are open in a parser's value stack, outermost first."""
    braces: list[Token] = []
    for entry in stack:
        if isinstance(entry, Token) and entry.type == "LBRACE":
            braces.append(entry)
        elif isinstance(entry, Token) and entry.type == "RBRACE":
            braces.pop()
    return braces
