"""`jfagen doctor`: is the install whole, and how to mend it where it is not."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ..doctor import Level, Line, gather, judge
from .streams import colored

_WRONG = 1
_SCHEMA, _SCHEMA_VERSION = "jfagen-doctor", 1
_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.WRONG: "red"}


class Format(StrEnum):
    """How the lines are printed."""

    TEXT = "text"
    JSON = "json"


def doctor(
    format: Annotated[Format, typer.Option(help="How the lines are printed.")] = Format.TEXT,
) -> None:
    """Look at the install: toolchain, torch, GPU, kernels; say how to mend what is wrong."""
    lines = judge(gather())
    if format is Format.JSON:
        typer.echo(as_json(lines))
    else:
        plain = not colored(sys.stdout)
        console = Console(highlight=False, soft_wrap=True, color_system=None if plain else "auto")
        for text in as_text(lines):
            console.print(text)
    if any(line.level is Level.WRONG for line in lines):
        raise typer.Exit(_WRONG)


def as_text(lines: Sequence[Line]) -> list[Text]:
    """Return the lines in columns, each help below its line, and a sum at the end."""
    width = max(len(line.subject) for line in lines)
    texts = []
    for line in lines:
        text = Text(f"{line.level.ljust(8)} {line.subject.ljust(width)}  {line.message}")
        text.stylize(_COLOURS[line.level], 0, len(line.level))
        texts.append(text)
        if line.help:
            texts.append(Text(f"{' ' * 9}{' ' * width}  help: {line.help}"))
    return [*texts, Text(_sum(lines))]


def as_json(lines: Sequence[Line]) -> str:
    """Return the lines as indented JSON."""
    return json.dumps(
        {
            "schema": _SCHEMA,
            "schema_version": _SCHEMA_VERSION,
            "ok": all(line.level is not Level.WRONG for line in lines),
            "lines": [asdict(line) for line in lines],
        },
        indent=1,
    )


def _sum(lines: Sequence[Line]) -> str:
    wrong = sum(line.level is Level.WRONG for line in lines)
    warnings = sum(line.level is Level.WARNING for line in lines)
    if wrong:
        return f"{wrong} wrong, {warnings} to be aware of"
    return f"nothing wrong, {warnings} to be aware of" if warnings else "nothing wrong"
