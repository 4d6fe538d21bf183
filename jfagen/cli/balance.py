"""`jfagen balance`: the predicted load of every SM when tiles are dealt in different ways."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..balance.wrong import WrongInput
from .balance_options import (
    Batch,
    Density,
    Empty,
    Fixed,
    Heads,
    Json,
    Keys,
    Lengths,
    MaxLength,
    Png,
    Queries,
    Rows,
    Seed,
    SelfAttention,
    Sms,
)
from .balance_outputs import STANDARD_OUTPUT, check_places, write_all
from .balance_view import show
from .inputs import wrong_call

if TYPE_CHECKING:
    from ..balance.draw import Draw
    from ..balance.prediction import Prediction


def balance(
    context: typer.Context,
    lengths: Lengths = None,
    density: Density = None,
    max_length: MaxLength = 1024,
    batch: Batch = 768,
    seed: Seed = 0,
    queries: Queries = 512,
    self_attention: SelfAttention = False,
    heads: Heads = 4,
    sms: Sms = 132,
    rows: Rows = 128,
    keys: Keys = 128,
    fixed: Fixed = 0.7,
    empty: Empty = 0.1,
    png: Png = None,
    json: Json = None,
) -> None:
    """Predict the load of every SM when the tiles of a persistent kernel are dealt.

    given: as the sequences come, round robin.

    sorted: longest keys first, round robin.

    zigzag: longest keys first, every second round from right to left.

    greedy: longest keys first, each to the least loaded SM, as cluster launch control does.

    All figures are predicted from lengths and two parameters; nothing is run or measured.
    """
    from ..balance.draw import Draw
    from ..balance.prediction import predict
    from ..balance.tiles import Cost, Problem

    try:
        check_places({"--png": png, "--json": json}, source=lengths)
        _check_combined(context)
        cost, draw = Cost(fixed=fixed, empty=empty), None
        if density is not None:
            draw = Draw(density=density, max_length=max_length, batch=batch, seed=seed)
        problem = Problem(
            lengths=_lengths(lengths, draw),
            queries=None if self_attention else queries,
            heads=heads,
            rows=rows,
            keys=keys,
        )
        _print(predict(problem, cost, sms), draw, png, json)
    except WrongInput as error:
        failed = wrong_call(str(error))
        typer.echo(f"help: {error.help}", err=True)
        raise failed from None


def _check_combined(context: typer.Context) -> None:
    """Refuse options that exclude each other, and those that only count beside another one."""
    given = {
        name
        for name in context.params
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }
    if {"lengths", "density"} <= given:
        raise _exclude("--lengths", "--density", "lengths are read or drawn")
    if {"queries", "self_attention"} <= given:
        raise _exclude("--queries", "--self", "a sequence has M query rows, or its key rows")
    if not {"lengths", "density"} & given:
        raise WrongInput(
            "--lengths", "there are no lengths", "give --lengths FILE, or draw with --density 0.5"
        )
    for name in ("max_length", "batch", "seed"):
        if name in given and "density" not in given:
            option = f"--{name.replace('_', '-')}"
            raise WrongInput(option, "no lengths are drawn", f"leave out {option} or --lengths")


def _exclude(one: str, other: str, why: str) -> WrongInput:
    return WrongInput(other, f"excludes {one}: {why}", f"leave out {one} or {other}")


def _lengths(asked: str | None, draw: Draw | None) -> tuple[int, ...]:
    """Return the key rows of each sequence, drawn or read."""
    from ..balance.draw import draw_lengths
    from ..balance.lengths import read_lengths

    if draw is not None:
        return draw_lengths(draw)
    return read_lengths(asked or "", getattr(sys.stdin, "buffer", None))


def _print(prediction: Prediction, draw: Draw | None, png: Path | None, json: Path | None) -> None:
    """Write the files, both or none, and then print."""
    from ..balance.as_json import as_json

    text = as_json(prediction, draw) if json is not None else ""
    files: dict[str, tuple[Path, bytes]] = {}
    if png is not None:
        from ..balance import picture

        files["--png"] = png, picture.png(prediction)
    if json is not None and json != STANDARD_OUTPUT:
        files["--json"] = json, text.encode()
    write_all(files)
    if json == STANDARD_OUTPUT:
        typer.echo(text, nl=False)
    else:
        show(prediction, draw)
    for path, _ in files.values():
        typer.echo(f"wrote {path} (predicted)", err=True)
