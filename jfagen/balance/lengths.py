"""Key lengths from a text: one whole number a line, a JSON list, or numbers with commas.

Every refusal names the line, or the place in the list, where the first wrong number stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from .limits import MOST_ROWS
from .wrong import WrongInput

#: Bytes of a file of lengths that are read.
MOST_BYTES = 2**24

OPTION = "--lengths"
STANDARD_INPUT = "standard input"
_COMMENT = re.compile(r"#[^\n]*")
_BETWEEN = re.compile(r"[\s,]*")
_SHOWN = 40
_FORMS = "write one whole number a line, or a JSON list such as [0, 128, 4096]"


def read_lengths(asked: str, standard_input: BinaryIO | None) -> tuple[int, ...]:
    """Return the key rows of each sequence.

    Args:
        asked: `-` for standard input, numbers with commas, or the path of a file. A text of digits,
            commas, signs and blanks is numbers; `./5` is the file `5`.
        standard_input: what `-` reads, as bytes; None if it is closed.

    Raises:
        WrongInput: it cannot be read, is empty, or holds what is no length.
    """
    if asked == "-":
        if standard_input is None:
            raise WrongInput(STANDARD_INPUT, "is closed", "pipe the lengths in, or name a file")
        return _parse_text(standard_input.read(MOST_BYTES + 1), STANDARD_INPUT)
    if re.fullmatch(r"[-+0-9,\s]*", asked) or ("," in asked and not Path(asked).exists()):
        return _parse_list(asked)
    try:
        with Path(asked).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise WrongInput(
            f"`{asked}`", reason, "name a file of lengths, `-`, or numbers with commas: 0,128,4096"
        ) from None
    return _parse_text(data, asked)


def _decode(data: bytes, name: str) -> str:
    if len(data) > MOST_BYTES:
        raise WrongInput(name, f"more than {MOST_BYTES:,} bytes", _FORMS)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WrongInput(
            f"{name}:{line}", f"byte {error.start} is no UTF-8, so this is no text", _FORMS
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _parse_list(asked: str) -> tuple[int, ...]:
    """Return the numbers of the option itself."""
    if not asked.strip():
        raise _empty(OPTION)
    parts = asked.split(",")
    advice = "write whole numbers with commas, such as 0,128,4096, or the path of a file"
    return tuple(
        _length(part.strip(), f"{OPTION}, number {position}", advice)
        for position, part in enumerate(parts, 1)
    )


def _parse_text(data: bytes, name: str) -> tuple[int, ...]:
    """Return the numbers of a file; `#` begins a comment."""
    bare = _COMMENT.sub("", _decode(data, name))
    found = _json_items(bare, name) if bare.lstrip().startswith("[") else _line_items(bare)
    lengths = tuple(_length(item, f"{name}:{line}", _FORMS) for item, line in found)
    if not lengths:
        raise _empty(name)
    return lengths


def _line_items(text: str) -> Iterator[tuple[str, int]]:
    """Yield what each line holds, with the line's number."""
    for number, line in enumerate(text.split("\n"), 1):
        if item := line.strip():
            yield item, number


def _json_items(text: str, name: str) -> Iterable[tuple[str, int]]:
    """Return the source text of each element of a JSON list, with its line."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise WrongInput(
            f"{name}:{error.lineno}", f"no JSON: {error.msg.lower()}", _FORMS
        ) from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else "a number is too long"
        raise WrongInput(name, f"no list of lengths: {reason}", _FORMS) from None
    return _elements(text)


def _elements(text: str) -> Iterator[tuple[str, int]]:
    """Yield the source of each element of a JSON list that is known to be well formed."""
    decoder, place = json.JSONDecoder(), text.index("[") + 1
    line, counted = 1, 0
    while True:
        between = _BETWEEN.match(text, place)
        start = between.end() if between else place
        if text[start] == "]":
            return
        _, place = decoder.raw_decode(text, start)
        line, counted = line + text.count("\n", counted, start), start
        yield text[start:place], line


def _length(item: str, place: str, advice: str) -> int:
    """Return one length, or refuse it."""
    shown = item if len(item) <= _SHOWN else f"{item[:_SHOWN]}\u2026"
    if not item:
        raise WrongInput(place, "there is no number between two commas", advice)
    if re.fullmatch(r"-[0-9]+", item):
        raise WrongInput(place, f"`{shown}` is negative", "a length is 0 or more key rows")
    if not re.fullmatch(r"[0-9]+", item):
        raise WrongInput(place, f"`{shown}` is no whole number", advice)
    digits = item.lstrip("0") or "0"
    if len(digits) > len(str(MOST_ROWS)) or int(digits) > MOST_ROWS:
        raise WrongInput(
            place, f"`{shown}` is more than {MOST_ROWS} key rows", "kernels count rows in 32 bits"
        )
    return int(digits)


def _empty(place: str) -> WrongInput:
    return WrongInput(place, "holds no length", f"there must be one sequence or more: {_FORMS}")
