"""The bar chart of a run: TFLOP/s by shape and provider."""

from __future__ import annotations

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .records import Measurement
from .report import Report

#: Colours that stay apart in grey and for the colour-blind (Okabe and Ito).
_COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#009E73", "#E69F00", "#CC79A7")
_GROUP_WIDTH = 0.84
_INCH_A_GROUP = 1.5


def chart(report: Report) -> bytes:
    """Return a PNG: bars at the medians, whiskers from percentile 10 to 90.

    A shape with several seeds has a group for each of them. What was not measured has no bar.
    """
    cases = list(dict.fromkeys((row.case.shape.name, row.case.seed) for row in report.rows))
    names = [
        name
        for name in dict.fromkeys(row.provider for row in report.rows)
        if any(row.provider == name and row.times is not None for row in report.rows)
    ]
    figure = Figure(figsize=(max(6.0, _INCH_A_GROUP * len(cases) + 1.5), 5.0), dpi=120)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    width = _GROUP_WIDTH / max(len(names), 1)
    for index, name in enumerate(names):
        rows = [row for row in report.rows if row.provider == name and row.times is not None]
        places = [
            cases.index((row.case.shape.name, row.case.seed))
            + (index - (len(names) - 1) / 2) * width
            for row in rows
        ]
        heights = [row.tflops or 0.0 for row in rows]
        colour = _COLOURS[index % len(_COLOURS)]
        whiskers = [list(side) for side in zip(*map(_whiskers, rows), strict=True)]
        bars = axes.bar(places, heights, width * 0.92, label=name, color=colour, yerr=whiskers)
        axes.bar_label(bars, fmt="%.0f", fontsize=6, padding=1)
    seeds = len(report.head.seeds) > 1
    axes.set_xticks(
        range(len(cases)), [f"{shape}\nseed {seed}" if seeds else shape for shape, seed in cases]
    )
    axes.tick_params(axis="x", labelsize=7, rotation=20)
    axes.set_ylabel("TFLOP/s")
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)
    axes.set_title(f"{report.head.direction}, {report.head.dtype}, {report.head.device}")
    if names:
        axes.legend(ncols=len(names), fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    figure.tight_layout()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _whiskers(row: Measurement) -> tuple[float, float]:
    """Return how far TFLOP/s reach below and above the median, at percentiles 90 and 10 of ms."""
    times, height = row.times, row.tflops
    assert times is not None and height is not None
    return height - height * times.median / times.p90, height * times.median / times.p10 - height
