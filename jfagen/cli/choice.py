"""Names with commas and patterns: what of a table a call names."""

from __future__ import annotations

import fnmatch
from typing import TypeVar

import typer

from ..diagnostics import near_match
from .inputs import wrong_call

Named = TypeVar("Named")


def chosen(what: str, text: str, known: dict[str, Named]) -> tuple[Named, ...]:
    """Return what the comma list names, in the table's order; end the call at a strange name."""
    patterns = [part.strip() for part in text.split(",") if part.strip()]
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            failed = wrong_call(f"there is no {what} `{pattern}`")
            near = near_match(pattern, known)
            advice = f"did you mean `{near}`?" if near else f"the {what}s are {', '.join(known)}"
            typer.echo(f"help: {advice}", err=True)
            raise failed
    if not patterns:
        raise wrong_call(f"no {what} is named")
    return tuple(
        one
        for name, one in known.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    )
