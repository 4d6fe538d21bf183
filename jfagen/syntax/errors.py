"""What the parser could not read -> findings that say what was expected, found, and meant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from lark import Token, UnexpectedToken

from ..diagnostics import (
    Label,
    Note,
    Reporter,
    SourceFile,
    Span,
    did_you_mean,
    listed,
    near_match,
    quoted,
)
from .grammar import ITEM_KEYWORDS, JUNK, NAMED_TERMINALS, can_follow, literals, open_braces
from .tokens import MAX_DIGITS, Kind, Piece, pieces

#: Words that may follow a buffer's type: there an unknown word reads as the next item's role.
_BUFFER_WORDS = ("depth", "slices", "holds", "lives")

_ITEM_HELP = f"an item starts with {quoted(ITEM_KEYWORDS)}, or with a role and its `{{`"

_BARE_CR = re.compile(r"\r(?!\n)")

#: What may always be left out: not named where something else may stand.
_OPTIONAL = ("LSQB", "LPAR", "PLUS", "MINUS", "IN", "TUNE")

#: What is named after everything else that may stand at a place.
_LAST = {"RBRACE": "`}`", "$END": "the end of the file"}

#: What people write from habit, and what the language has instead.
_HABITS = {
    "=": "write the value behind the word, as in `depth 3`",
    ":": "write the value behind the word, as in `depth 3`",
    ";": "a line end or blanks separate, nothing else is needed",
    ",": "a line end or blanks separate, nothing else is needed",
    "/": "a comment starts with `#`",
    '"': "names stand without quotes",
    "'": "names stand without quotes",
    "<": "indices and dimensions stand in `[` `]`",
    "(": "indices and dimensions stand in `[` `]`",
    "*": "groups are written as `m 128 x 2 as g`",
    ".": "numbers are whole",
}


def report_bad_text(source: SourceFile, reporter: Reporter) -> None:
    """Report the first byte that is not UTF-8 text, or that the file holds no kernel at all."""
    if bad := re.search("[\ud800-\udfff\0]", source.text):
        code = ord(bad.group())
        what = "a NUL byte" if code == 0 else f"the byte 0x{code & 0xFF:02x}, which is not UTF-8"
        span = source.span(bad.start(), bad.end())
        reporter.report("not-text", f"the file holds {what}", span)
    elif (bare := _BARE_CR.search(source.text)) and _lacks_line_ends(source.text):
        span = source.span(bare.start(), bare.end())
        reporter.report(
            "not-text",
            "the lines end with CR alone, the old line end of the Macintosh",
            span,
            helps=["convert the line ends to LF or CR LF, with `dos2unix -c mac` for example"],
        )
    elif _only_comments(source.text):
        end = len(source.text.rstrip())
        reporter.report(
            "no-kernel",
            "the file holds no kernel",
            source.span(end, end),
            helps=["a schedule is `kernel NAME { ... }`"],
        )


def _only_comments(text: str) -> bool:
    return all(piece.kind is Kind.COMMENT for piece in pieces(text))


def _lacks_line_ends(text: str) -> bool:
    """Whether CR must have been meant as the line end: without it there is one line or nothing."""
    return "\n" not in text.strip() or _only_comments(text)


def report_unexpected(source: SourceFile, error: UnexpectedToken, reporter: Reporter) -> None:
    """Report the token at which lark stopped."""
    stop = _Stop(source=source, error=error)
    if stop.token.type == JUNK and not stop.is_word:
        _report_junk(stop, reporter)
    elif (meant := stop.misread_word) is not None:
        _report_unknown_word(source, meant, (*ITEM_KEYWORDS, *_BUFFER_WORDS), _ITEM_HELP, reporter)
    elif stop.is_word and stop.wants_keyword:
        _report_wrong_word(stop, reporter)
    else:
        _report_expected(stop, reporter)


@dataclass(frozen=True, kw_only=True)
class _Stop:
    """Where and in which state the parser stopped."""

    source: SourceFile
    error: UnexpectedToken

    @property
    def token(self) -> Token:
        token: Token = self.error.token
        return token

    @property
    def at_end(self) -> bool:
        return self.token.type == "$END"

    @property
    def is_word(self) -> bool:
        return re.match(r"[A-Za-z_]", self.token) is not None

    @cached_property
    def stack(self) -> list[object]:
        """What was read and is not finished: tokens and trees."""
        return list(self.error.interactive_parser.parser_state.value_stack)

    @cached_property
    def before(self) -> Piece | None:
        """The last piece before the token, comments left out."""
        place = len(self.source.text) if self.at_end else self.token.start_pos
        found = None
        for piece in pieces(self.source.text):
            if place is not None and piece.start >= place:
                break
            found = found if piece.kind is Kind.COMMENT else piece
        return found

    @cached_property
    def accepted(self) -> list[str]:
        """The terminals that might stand here: names, then the rest as in the grammar."""
        state = self.error.interactive_parser.parser_state
        expected = state.parse_conf.states[state.position]
        order = [*NAMED_TERMINALS, *literals(), "$END"]
        return [name for name in order if name in expected and can_follow(state, name)]

    @property
    def words(self) -> list[str]:
        """The keywords that might stand here."""
        texts = [literals()[name] for name in self.accepted if name in literals()]
        return [text for text in texts if text[0].isalpha()]

    @property
    def wants_keyword(self) -> bool:
        """Whether only words of the language may stand here, so that any other is unknown."""
        names = any(name in NAMED_TERMINALS and name != "NUMBER" for name in self.accepted)
        return bool(self.words) and not names

    @property
    def unclosed_brace(self) -> Token | None:
        """The innermost open brace, if what follows shows that its end was forgotten."""
        braces = open_braces(self.stack)
        forgotten = self.at_end or self.token == "{" or self.token in ITEM_KEYWORDS
        return braces[-1] if braces and forgotten and "RBRACE" in self.accepted else None

    @property
    def misread_word(self) -> Token | None:
        """A word before the token that was read as a role or op, but was meant as a keyword."""
        tokens = [t for t in self.stack if isinstance(t, Token)]
        roles = [token for token in tokens if token.type == "ROLE_NAME"]
        last = self.stack[-1] if self.stack else None
        if isinstance(last, Token) and last.type == "OP_NAME" and self.token == "{":
            return last if near_match(last, ["turn"]) else None
        if not roles or self._is_declared(roles[-1]):
            return None
        if roles[-1] is last and self.token.type != "$END":
            return roles[-1]
        return roles[-1] if near_match(roles[-1], ITEM_KEYWORDS) else None

    def _is_declared(self, role: str) -> bool:
        return re.search(rf"\brole\s+{role}\b", self.source.text) is not None


def _span(source: SourceFile, token: Token) -> Span:
    return source.span(token.start_pos or 0, token.end_pos or 0)


def _report_junk(stop: _Stop, reporter: Reporter) -> None:
    """Report a number that is none, or a character that the language does not have."""
    span, text = _span(stop.source, stop.token), str(stop.token)
    if text.isascii() and text.isdigit():
        message = f"a number has at most {MAX_DIGITS} digits, found {len(text)}"
        reporter.report("bad-number", message, span)
    elif text.isascii() and text[0].isdigit():
        parts = re.fullmatch(r"(\d+)x(\d+)", text)
        helps = [f"write `{parts[1]} x {parts[2]}`"] if parts else ["numbers are whole"]
        reporter.report("bad-number", f"`{text}` is not a number", span, helps=helps)
    else:
        code = f"U+{ord(text):04X}"
        shown = f"`{text}`" + ("" if text.isascii() else f" ({code})")
        shown = shown if text.isprintable() else f"`{code}`"
        helps = [_HABITS[text]] if text in _HABITS else []
        if not text.isascii() and text.isalnum():
            helps = ["names and numbers are ASCII letters, digits and `_`"]
        reporter.report("bad-character", f"unexpected character {shown}", span, helps=helps)


def _report_unknown_word(
    source: SourceFile, token: Token, known: tuple[str, ...], listing: str, reporter: Reporter
) -> None:
    if token.type == "OP_NAME":
        known, listing = ("turn",), "only `turn` takes a block among ops"
    helps = did_you_mean(token, known) or (listing,)
    reporter.report("unknown-word", f"unknown word `{token}`", _span(source, token), helps=helps)


def _report_wrong_word(stop: _Stop, reporter: Reporter) -> None:
    """Report a word where only certain words of the language may stand."""
    if stop.token in literals().values() or stop.token in ITEM_KEYWORDS:
        _report_expected(stop, reporter)
        return
    reporter.report(
        "unknown-word",
        f"unknown word `{stop.token}`",
        _span(stop.source, stop.token),
        f"expected {_phrase(stop.accepted)}",
        helps=did_you_mean(stop.token, stop.words),
    )


def _report_expected(stop: _Stop, reporter: Reporter) -> None:
    """Report what should have stood at the token, or at the end of the line before it."""
    span, found = _place(stop)
    notes, helps = [], []
    if stop.accepted == ["$END"]:
        last = stop.before
        end = stop.source.span(last.start, last.end) if last else span
        notes.append(Note(message="the kernel ends here", label=Label(span=end)))
        helps.append("one file holds one kernel")
    elif (brace := stop.unclosed_brace) is not None:
        label = Label(span=_span(stop.source, brace))
        notes.append(Note(message="this `{` is not closed", label=label))
    elif stop.before is not None and stop.before.text == ",":
        helps.append(f"drop the comma, or write {_phrase(stop.accepted)} behind it")
    elif stop.token in _HABITS:
        helps.append(_HABITS[stop.token])
    elif "ROLE" in stop.accepted:
        helps.append(_ITEM_HELP)
    message = f"expected {_phrase(stop.accepted)}, found {found}"
    reporter.report("syntax", message, span, notes=notes, helps=helps)


def _place(stop: _Stop) -> tuple[Span, str]:
    """Return where the caret goes, and what stands there in words."""
    source, last = stop.source, stop.before
    end = last.end if last is not None else 0
    if stop.at_end:
        return source.span(end, end), "the end of the file"
    span = _span(source, stop.token)
    incomplete = not {"RBRACE", "$END"} & set(stop.accepted)
    if last is not None and incomplete and source.position(end)[0] < span.line:
        return source.span(end, end), "the end of the line"
    return span, f"`{stop.token}`"


def _phrase(accepted: list[str]) -> str:
    """Return `a number, a role or `}``: an item's many first words become one."""
    texts = literals()
    items = [name for name in accepted if texts.get(name) in ITEM_KEYWORDS]
    folded = [*items, "ROLE_NAME"] if len(items) == len(ITEM_KEYWORDS) else []
    hidden = {*folded, *_LAST, *(_OPTIONAL if set(accepted) - set(_OPTIONAL) else ())}
    shown = [name for name in accepted if name not in hidden]
    kept = [NAMED_TERMINALS.get(name) or f"`{texts[name]}`" for name in shown]
    last = [phrase for name, phrase in _LAST.items() if name in accepted]
    return listed([*kept, *(["an item"] if folded else []), *last])
