"""`jfagen report`: one page on a schedule, and its pictures as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..diagnostics import SourceFile
from ..driver import Compiled, each_instance, find_schedule, shown_path
from .compile import progress
from .files import replace_all, unwritable
from .inputs import wrong_call


def report(
    file: Annotated[str, typer.Argument(help="A schedule.", metavar="FILE")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="PAGE", help="Where the page goes; NAME.html if left out."
        ),
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the pictures there too, as SVG and PNG."),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="One of its kernels; the first if left out."),
    ] = None,
) -> None:
    """Write a page: roles, memory over time, barriers, proof, the schedule beside its kernel."""
    from ..report import page
    from ..report import pictures as pictures_of

    path = find_schedule(file)
    target = output if output is not None else Path(f"{path.stem}.html")
    if str(target) == "-":
        raise wrong_call("a page goes to a file: `-o page.html`")
    if (why := unwritable(target)) is not None:
        raise wrong_call(f"cannot write `{target}`: {why}")
    if pictures is not None and pictures.exists() and not pictures.is_dir():
        raise wrong_call(f"cannot write into `{pictures}`: it is a file")
    with progress(f"reporting {path.stem}"):
        compiled = _compiled(path, kernel)
        contents = [(target, page(compiled).encode())]
        if pictures is not None:
            contents += [(pictures / one.name, one.content) for one in pictures_of(compiled)]
    replace_all(contents)
    for place, content in contents:
        typer.echo(f"{place} ({len(content):,} bytes)")


def _compiled(path: Path, kernel: str | None) -> Compiled:
    """Return the kernel called `kernel`, or the first one."""
    names: list[str] = []
    for compiled in each_instance(SourceFile.from_path(path, shown_path(path))):
        names.append(compiled.program.name)
        if kernel in (None, names[-1]):
            return compiled
    raise wrong_call(f"there is no kernel `{kernel}`; the schedule makes {', '.join(names)}")
