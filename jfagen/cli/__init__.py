"""The command line: arguments to driver calls to exit codes; no logic.

Exit codes: 0 fine, 1 the schedule is wrong, 2 the call is wrong, 3 stale output.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import __version__
from ..diagnostics import CompileError, render_all
from ..driver import NoSuchSchedule
from .balance import balance
from .build import build
from .check import check
from .diff import diff
from .explain import explain
from .fmt import fmt_command
from .lsp import lsp
from .streams import colored, ended_by_pipe, flush, say

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
    from .bench import bench
    from .compile import compile_command
    from .doctor import doctor
    from .profile import profile_command
    from .report import report
    from .run import run

    app.command()(build)
    app.command()(check)
    app.command()(run)
    app.command("compile")(compile_command)
    app.command()(explain)
    app.command()(diff)
    app.command()(report)
    app.command("fmt")(fmt_command)
    app.command()(bench)
    app.command("profile")(profile_command)
    app.command()(doctor)
    app.command()(balance)
    app.command()(lsp)


_lazy_commands()


def main() -> None:
    """Run the command line; every expected failure ends in one message and its exit code."""
    code = _exit_code()
    flush()
    sys.exit(code)


def _exit_code() -> int | str | None:
    try:
        app()
    except SystemExit as end:
        # Whoever read has seen enough: that is no failure.
        return 0 if ended_by_pipe(end) else end.code
    except CompileError as error:
        say(render_all(error.diagnostics, color=colored(sys.stderr)))
        return 1
    except NoSuchSchedule as error:
        say(f"error: there is no schedule `{error.name}`")
        if error.near is not None:
            say(f"help: did you mean `{error.near}`?")
        return 2
    except OSError as error:
        where = f"`{error.filename}`: " if error.filename else ""
        say(f"error: {where}{(error.strerror or str(error)).lower()}")
        return 2
    return 0
