"""`jfagen explain`: the plan in words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..diagnostics import near_match
from ..driver import NoSuchSchedule, compile_file, find_schedule
from ..explain import TOPICS, overlap_topic, rule_ids, rule_page

_WRONG_CALL = 2


def explain(
    file: Annotated[
        str, typer.Argument(help="A schedule, or the id of a rule.", metavar="FILE|RULE")
    ],
    what: Annotated[
        str | None,
        typer.Argument(
            help="barriers, dependences, tmem, smem, overlaps, or the name of a buffer.",
            metavar="[WHAT]",
        ),
    ] = None,
) -> None:
    """Explain a schedule's plan, or a rule: what is proved, how, and what it assumes."""
    if file in rule_ids() and not Path(file).exists():
        typer.echo(rule_page(file))
        return
    try:
        path = find_schedule(file)
    except NoSuchSchedule:
        near = near_match(file, rule_ids())
        if near is None:
            raise
        typer.echo(f"error: there is no rule and no schedule `{file}`", err=True)
        typer.echo(f"help: did you mean `{near}`?", err=True)
        raise typer.Exit(_WRONG_CALL) from None
    compiled = compile_file(path)
    if what is None:
        typer.echo("\n\n".join(topic(compiled) for topic in TOPICS.values()))
        return
    if what in TOPICS:
        typer.echo(TOPICS[what](compiled))
        return
    if any(buffer.name == what for buffer in compiled.program.buffers):
        typer.echo(overlap_topic(compiled, what))
        return
    if what in rule_ids():
        typer.echo(rule_page(what))
        return
    known = ", ".join([*TOPICS, *rule_ids()])
    typer.echo(f"error: `{what}` is neither a topic, a buffer nor a rule", err=True)
    typer.echo(f"help: one of {known}, or a buffer of {file}", err=True)
    raise typer.Exit(_WRONG_CALL)
