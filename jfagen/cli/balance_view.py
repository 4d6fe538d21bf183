"""A prediction on the terminal: a table of the deals, and a heat map with a cell for every SM."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich import box
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from .streams import colored

if TYPE_CHECKING:
    from ..balance.draw import Draw
    from ..balance.prediction import Figures, Prediction

#: Cells of one line of the heat map: half of the SMs of an H100 or H200.
_CELLS = 66
#: Shades of loads, smallest to largest, for terminals with and without these characters.
_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", ".:-=+*#%@"
#: Colours of the smallest and of the largest load: red, green, blue.
_COLD, _HOT = (70, 110, 200), (230, 60, 40)
_LABEL_COLUMNS = 14


def show(prediction: Prediction, draw: Draw | None) -> None:
    """Print the table and the heat map to standard output."""
    console = Console(
        color_system="auto" if colored(sys.stdout) else None, highlight=False, soft_wrap=True
    )
    shades = _ASCII if console.options.ascii_only else _BLOCKS
    console.print(_headline(prediction, draw), markup=False)
    console.print()
    console.print(_table(prediction))
    console.print()
    console.print(_heat_map(prediction, console.width, shades))


def _headline(prediction: Prediction, draw: Draw | None) -> str:
    """Return what the figures are predicted from."""
    problem, cost = prediction.problem, prediction.cost
    lengths, queries = problem.lengths, problem.queries
    lines = [
        f"predicted, not measured: {prediction.tiles:,} tiles on {prediction.sms} SMs",
        f"  lengths  {len(lengths):,} sequences of {min(lengths):,} to {max(lengths):,} key rows,"
        f" {sum(lengths):,} in all",
        f"  queries  {'as many as keys' if queries is None else f'{queries:,} of each sequence'},"
        f" {problem.heads:,} heads",
        f"  tile     {problem.rows:,} query rows, {problem.keys:,} key rows a step",
        f"  cost     {cost.fixed:g} + steps; {cost.empty:g} without keys: parameters, in steps",
        f"  bound    {prediction.bound:,.1f} steps: the mean load, or the costliest tile"
        f" ({prediction.largest_tile:,.1f}) if that is more",
    ]
    if draw is not None:
        drawn = f"density {draw.density:g}, at most {draw.max_length:,}"
        lines.insert(2, f"           drawn by numpy's default_rng({draw.seed}): {drawn}")
    return "\n".join(lines)


def _table(prediction: Prediction) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        title="predicted load of an SM, in steps",
        title_justify="left",
        show_edge=False,
    )
    table.add_column("deal")
    for name in ("makespan", "mean", "smallest", "x bound", "idle", "gain over given"):
        table.add_column(name, justify="right")
    for one in prediction.deals:
        table.add_row(*_row(one))
    return table


def _row(one: Figures) -> tuple[str, ...]:
    return (
        one.way.value,
        f"{one.makespan:,.1f}",
        f"{one.mean:,.1f}",
        f"{one.smallest:,.1f}",
        f"{one.against_bound:.3f}",
        f"{one.idle:.1%}",
        f"{one.gain:+.1%}",
    )


def _heat_map(prediction: Prediction, columns: int, shades: str) -> Text:
    """Return lines of cells; every deal has the same scale."""
    cells = max(1, min(_CELLS, columns - _LABEL_COLUMNS))
    low, high = prediction.scale
    text = Text("predicted load, a cell an SM:  ")
    for load, words in ((low, " to "), (high, " steps, the largest makespan")):
        text.append_text(_cell(load, prediction.scale, shades)).append(f" {load:,.1f}{words}")
    for one in prediction.deals:
        loads = one.loads.tolist()
        for first in range(0, len(loads), cells):
            text.append(f"\n {'' if first else one.way.value:6} {first:4}  ")
            for load in loads[first : first + cells]:
                text.append_text(_cell(load, prediction.scale, shades))
    return text


def _cell(load: float, scale: tuple[float, float], shades: str) -> Text:
    """Return one SM: the scale's shades have equal widths; no load at all is a blank."""
    low, high = scale
    share = (load - low) / (high - low) if high > low else 1.0
    shade = shades[min(int(share * len(shades)), len(shades) - 1)] if load else " "
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(_COLD, _HOT, strict=True))
    return Text(shade, Style(color=Color.from_rgb(red, green, blue)))
