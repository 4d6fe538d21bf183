"""`jfagen lsp`: the language server for schedules, on standard input and output."""

from __future__ import annotations

import typer

from .streams import say

_WRONG_CALL = 2


def lsp() -> None:
    """Serve editors: findings as you type, hover, completion, definition, rename, fixes."""
    try:
        from ..editor.server import SERVER
    except ImportError as error:
        say(f"error: the language server needs `{error.name}`\nhelp: `pip install pygls`")
        raise typer.Exit(_WRONG_CALL) from None
    raise typer.Exit(SERVER.serve())
