"""`jfagen compile`: an emitted kernel through the real compiler, without a GPU."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from ..toolchain import Arch, Compiled, CompileFailed, Finding, ToolchainMissing, compile_text
from ..toolchain.artefacts import write_artefacts
from ..toolchain.compilation import TIMEOUT_SECONDS
from ..toolchain.report import as_json, as_text, failure_as_json, finding_lines
from .inputs import NoKernelText, kernel_text

_WRONG_SCHEDULE, _WRONG_CALL = 1, 2
_NO_KERNEL = "not-an-emitted-kernel"
_CALL_FINDINGS = frozenset({_NO_KERNEL, "no-target", "other-target"})


class Format(StrEnum):
    """How the figures are printed."""

    TEXT = "text"
    JSON = "json"


def compile_command(
    file: Annotated[str, typer.Argument(help="A schedule, or an emitted .py.", metavar="FILE")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write NAME.ptx, .cubin, .sass and .json there, if no limit is broken.",
        ),
    ] = None,
    arch: Annotated[Arch | None, typer.Option(help="The file's own target if left out.")] = None,
    format: Annotated[Format, typer.Option(help="What goes to standard output.")] = Format.TEXT,
    timeout: Annotated[
        float, typer.Option(min=1.0, metavar="SECONDS", help="How long the compiler may take.")
    ] = TIMEOUT_SECONDS,
) -> None:
    """Compile a kernel to PTX and cubin without a GPU, and print what the hardware will see."""
    if file.endswith(".py") and not Path(file).is_file():
        fail([Finding(id="no-such-file", message=f"there is no file `{file}`")], _WRONG_CALL)
    name = Path(file).stem
    try:
        text = _text(file)
        with progress(f"compiling {name}"):
            compiled = compile_text(text, arch=arch, name=name, timeout_seconds=timeout)
    except (ToolchainMissing, CompileFailed) as error:
        if format is Format.JSON:
            typer.echo(failure_as_json(error.finding))
        missing = isinstance(error, ToolchainMissing) or error.finding.id in _CALL_FINDINGS
        fail([error.finding], _WRONG_CALL if missing else _WRONG_SCHEDULE)
    typer.echo(as_json(compiled) if format is Format.JSON else as_text(compiled))
    if compiled.findings:
        fail(compiled.findings, _WRONG_SCHEDULE)
    if output is not None:
        _write(compiled, output, name)


def _text(file: str) -> str:
    """Return the emitted text of the file; a schedule goes through the whole compiler."""
    if file.endswith(".py"):
        try:
            return kernel_text(file)
        except NoKernelText as error:
            raise CompileFailed(Finding(id=_NO_KERNEL, message=str(error))) from None
    emit_text = importlib.import_module("jfagen.driver").emit_text
    return str(emit_text(Path(file)))


@contextlib.contextmanager
def progress(words: str) -> Iterator[None]:
    """Show that something is being done, on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(words):
        yield


def _write(compiled: Compiled, output: Path, name: str) -> None:
    try:
        paths = write_artefacts(compiled, output, name)
    except OSError as error:
        fail(
            [Finding(id="not-written", message=f"cannot write into `{output}`: {error.strerror}")],
            _WRONG_CALL,
        )
    for path in paths:
        typer.echo(f"wrote {path}", err=True)


def fail(findings: Iterable[Finding], code: int) -> NoReturn:
    """Print findings and end the call."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for finding in findings:
        for line in finding_lines(finding):
            text = Text(line)
            text.highlight_regex(r"^error\[[\w-]+\]", "bold red")
            text.highlight_regex(r"^help", "cyan")
            console.print(text)
    raise typer.Exit(code)
