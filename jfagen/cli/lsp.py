"""`jfagen lsp`: the language server for schedules, and what VS Code needs to start it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .inputs import wrong_call


def lsp(
    vscode: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the extension for VS Code there, and end."),
    ] = None,
) -> None:
    """Serve an editor on standard input and output: findings as you type, hover, completion."""
    if vscode is not None:
        _write_extension(vscode)
        return
    try:
        from ..editor.server import SERVER
    except ImportError as error:
        why = f"the language server needs `{error.name}`\nhelp: `pip install pygls`"
        raise wrong_call(why) from None
    raise typer.Exit(SERVER.serve())


def _write_extension(folder: Path) -> None:
    from ..editor.vscode import write_vscode

    try:
        written = write_vscode(folder)
    except OSError as error:
        why = f"cannot write `{folder}`: {error.strerror}" if error.strerror else str(error)
        raise wrong_call(why) from None
    for path in written:
        typer.echo(path.as_posix())
    typer.echo(f"`{folder / 'README.md'}` says how to install it", err=True)
