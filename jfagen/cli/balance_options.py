"""What `jfagen balance` is asked: its options, in the groups that `--help` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

LENGTHS, PROBLEM = "Lengths: given, or drawn", "Problem and tiles"
COST, OUTPUT = "Cost of a tile: parameters of the prediction, in steps", "Output"


def _option(panel: str, metavar: str, help: str, *, min: float | None = None) -> Any:  # noqa: ANN401
    return typer.Option(metavar=metavar, help=help, rich_help_panel=panel, min=min)


Lengths = Annotated[
    str | None,
    _option(
        LENGTHS,
        "FILE",
        "Key rows of each sequence: a file with one whole number a line or a JSON list (`#` begins"
        " a comment), `-` for standard input, or numbers with commas.",
    ),
]
Density = Annotated[
    float | None,
    _option(
        LENGTHS,
        "S",
        "Draw the lengths: uniform in (2S-1) L to L if S is 0.5 or more, in 0 to 2 S L below, both"
        " ends included, by numpy's default_rng.",
    ),
]
MaxLength = Annotated[int, _option(LENGTHS, "L", "Key rows of the longest that is drawn.", min=1)]
Batch = Annotated[int, _option(LENGTHS, "B", "Sequences that are drawn.", min=1)]
Seed = Annotated[int, _option(LENGTHS, "N", "Seed of default_rng.", min=0)]

Queries = Annotated[
    int, _option(PROBLEM, "M", "Query rows, the same for every sequence (broadcast-Q).", min=1)
]
SelfAttention = Annotated[
    bool,
    typer.Option("--self", help="As many query as key rows instead.", rich_help_panel=PROBLEM),
]
Heads = Annotated[int, _option(PROBLEM, "H", "Heads.", min=1)]
Sms = Annotated[int, _option(PROBLEM, "N", "SMs; a persistent kernel has a CTA on each.", min=1)]
Rows = Annotated[int, _option(PROBLEM, "M", "Query rows of a tile, all groups together.", min=1)]
Keys = Annotated[int, _option(PROBLEM, "N", "Key rows of a step.", min=1)]

Fixed = Annotated[
    float, _option(COST, "X", "Prologue and epilogue; a tile costs this plus its steps.")
]
Empty = Annotated[float, _option(COST, "X", "A tile without keys.")]

Png = Annotated[Path | None, _option(OUTPUT, "FILE", "Write a picture: deals by SMs.")]
Json = Annotated[
    Path | None,
    _option(OUTPUT, "FILE", "Write all numbers; `-` prints them in place of the table."),
]
