"""The command line: arguments to driver calls to exit codes; no logic.

Exit codes: 0 fine, 1 the schedule is wrong, 2 the call is wrong, 3 stale output.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from .. import __version__
from ..diagnostics import CompileError, render_all
from ..driver import NoSuchSchedule
from .build import build
from .check import check
from .explain import explain
from .fmt import fmt_command

app = typer.Typer(
    name="jfagen",
    help="Compile schedules to TLX kernels for jagged flash attention.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"jfagen {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Compile schedules to TLX kernels for jagged flash attention."""


def _lazy_commands() -> None:
    """Register the commands; those that need the machine or the toolchain import them late."""
    from .compile import compile_command
    from .run import run

    app.command()(build)
    app.command()(check)
    app.command()(run)
    app.command("compile")(compile_command)
    app.command()(explain)
    app.command("fmt")(fmt_command)


_lazy_commands()


def colored(stream: object) -> bool:
    """Return whether a stream takes colours: a terminal, and `NO_COLOR` is not set."""
    return bool(getattr(stream, "isatty", lambda: False)()) and "NO_COLOR" not in os.environ


def main() -> None:
    """Run the command line; every expected failure ends in one message and its exit code."""
    try:
        app()
    except CompileError as error:
        print(render_all(error.diagnostics, color=colored(sys.stderr)), file=sys.stderr)
        sys.exit(1)
    except NoSuchSchedule as error:
        print(f"error: there is no schedule `{error.name}`", file=sys.stderr)
        if error.near is not None:
            print(f"help: did you mean `{error.near}`?", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        # Whoever read has seen enough; nothing may be written to the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        where = f"`{error.filename}`: " if error.filename else ""
        print(f"error: {where}{(error.strerror or str(error)).lower()}", file=sys.stderr)
        sys.exit(2)
