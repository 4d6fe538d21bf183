"""Spell a prediction as JSON; the shape of the text has a version."""

from __future__ import annotations

import json

from .draw import Draw
from .prediction import Figures, Prediction

#: Goes up when a key changes its meaning or goes away.
SCHEMA = 1


def as_json(prediction: Prediction, draw: Draw | None = None) -> str:
    """Return all numbers of a prediction; loads, costs and bounds are in steps, shares 0 to 1."""
    problem, cost = prediction.problem, prediction.cost
    content = {
        "schema": SCHEMA,
        "kind": "predicted",
        "unit": "steps",
        "problem": {
            "lengths": list(problem.lengths),
            "drawn": _drawn(draw),
            "queries": "self" if problem.queries is None else problem.queries,
            "heads": problem.heads,
            "rows": problem.rows,
            "keys": problem.keys,
        },
        "cost": {"step": 1.0, "fixed": cost.fixed, "empty": cost.empty},
        "sms": prediction.sms,
        "tiles": prediction.tiles,
        "largest_tile": prediction.largest_tile,
        "bound": prediction.bound,
        "deals": [_deal(one) for one in prediction.deals],
    }
    return json.dumps(content, indent=2) + "\n"


def _drawn(draw: Draw | None) -> dict[str, object] | None:
    if draw is None:
        return None
    return {
        "generator": "numpy.random.default_rng",
        "density": draw.density,
        "max_length": draw.max_length,
        "batch": draw.batch,
        "seed": draw.seed,
    }


def _deal(one: Figures) -> dict[str, object]:
    return {
        "deal": one.way.value,
        "makespan": one.makespan,
        "mean": one.mean,
        "smallest": one.smallest,
        "makespan_over_bound": one.against_bound,
        "idle_share": one.idle,
        "gain_over_given": one.gain,
        "loads": one.loads.tolist(),
    }
