"""What `run` and `check` are given: kernel texts, lengths, sizes; what cannot be ends the call."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ..machine.problem import Problem

#: The largest seed that random generators take.
MOST_SEED = 2**63 - 1
#: How many seeds one call runs.
MOST_SEEDS = 10**6
#: Key rows of all sequences together, and the bytes of tensors and of the reference's scores.
MOST_KEY_ROWS = 2**22
MOST_BYTES = 2**31

_FLOAT64_BYTES = 8


class NoKernelText(ValueError):
    """The file cannot be a kernel: its bytes are no text, or its text is no Python."""


def wrong_call(message: str) -> typer.Exit:
    """Print an error of the call, and return what ends it."""
    typer.echo(f"error: {message}", err=True)
    return typer.Exit(2)


def kernel_text(file: str | Path) -> str:
    """Return the text of a kernel file.

    Raises:
        NoKernelText: it is no text, or no Python; the message names the line.
        OSError: it cannot be read.
    """
    try:
        text = Path(file).read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoKernelText(f"`{file}` is no text: byte {error.start} is not UTF-8") from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        ast.parse(text)
    except SyntaxError as error:
        place = f"line {error.lineno}: " if error.lineno else ""
        raise NoKernelText(f"`{file}` is no Python: {place}{error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise NoKernelText(f"`{file}` is no Python: {str(error) or 'nested too deep'}") from None
    return text


def parse_lengths(text: str) -> tuple[int, ...]:
    """Return the key rows of each sequence, or end the call: ASCII digits with commas."""
    parts = [part.strip() for part in text.split(",")]
    if any(re.fullmatch("-[0-9]+", part) for part in parts):
        raise wrong_call(f"lengths `{text}` hold a negative number")
    if not all(re.fullmatch("[0-9]+", part) for part in parts):
        raise wrong_call(f"lengths `{text}` are no whole numbers with commas")
    for part in parts:
        if len(part.lstrip("0")) > len(str(MOST_KEY_ROWS)):
            raise _too_many_rows(part)
    return tuple(int(part) for part in parts)


def check_seeds(seed: int, seeds: int = 1) -> None:
    """End the call if a seed is larger than generators take, or if there are too many."""
    if seeds > MOST_SEEDS:
        raise wrong_call(f"{seeds} seeds, at most {MOST_SEEDS} are run by one call")
    last = seed + max(seeds, 1) - 1
    if last > MOST_SEED:
        raise wrong_call(f"the seed {last} is more than {MOST_SEED}")


def check_size(problem: Problem) -> None:
    """End the call if a problem is too large to be simulated and compared in float64."""
    rows = sum(problem.lengths)
    if rows > MOST_KEY_ROWS:
        raise _too_many_rows(str(rows))
    packed = problem.query_lengths is not None
    results = problem.query_rows * (1 if packed else len(problem.lengths))
    vectors = problem.heads * problem.head_dim * (problem.query_rows + 2 * rows + 2 * results)
    scores = 3 * problem.heads * problem.query_rows * max(problem.lengths)
    size = _FLOAT64_BYTES * (vectors + scores)
    if size > MOST_BYTES:
        raise wrong_call(
            f"a problem of {problem.heads} heads, {problem.query_rows} query rows and {rows} key"
            f" rows takes {size} bytes, at most {MOST_BYTES} are simulated"
        )


def _too_many_rows(number: str) -> typer.Exit:
    return wrong_call(f"{number} key rows, at most {MOST_KEY_ROWS} in all are simulated")
