"""The one door to matplotlib: a heat map of the predicted loads as a PNG."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .prediction import Prediction

#: Size of the picture, in inches, and dots per inch: 1800 x 750 pixels.
SIZE_INCHES = (12.0, 5.0)
DOTS_PER_INCH = 150


def png(prediction: Prediction) -> bytes:
    """Return the picture: a row for each deal, a column for each SM, colour for load in steps."""
    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    low, high = prediction.scale
    loads = np.stack([one.loads for one in prediction.deals])
    image = axes.imshow(
        loads,
        aspect="auto",
        interpolation="nearest",
        cmap="viridis",
        vmin=low,
        vmax=high or 1,
    )
    figure.colorbar(image, ax=axes, label="predicted load (steps)", pad=0.01)
    _label(axes, prediction)
    data = io.BytesIO()
    # Without the name of the library's version the same numbers give the same bytes for longer.
    figure.savefig(data, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return data.getvalue()


def _label(axes: Axes, prediction: Prediction) -> None:
    """Name deals, axes and units, and note each makespan beside its row."""
    names = [
        f"{one.way}\nmakespan {one.makespan:,.1f} steps\n{one.against_bound:.3f} x bound"
        for one in prediction.deals
    ]
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("SM")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
    axes.set_title(
        f"Predicted load per SM: {prediction.tiles:,} tiles on {prediction.sms} SMs;"
        f" no deal is below the bound of {prediction.bound:,.1f} steps"
    )
    for row, one in enumerate(prediction.deals):
        busiest = int(one.loads.argmax())
        axes.plot(busiest, row, marker="v", color="red", markersize=7, markeredgecolor="white")
        if row:
            axes.axhline(row - 0.5, color="white", linewidth=2)
    axes.text(
        1.0,
        -0.12,
        "red: the SM with the largest load",
        transform=axes.transAxes,
        horizontalalignment="right",
        fontsize="small",
    )
