"""Spell a profile as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ..bench.statistics import tflops
from .records import Block, Gpu, Report, Row, Timing

SCHEMA = "jfagen-profile"
#: Rises with every change that a reader of older files would trip over.
SCHEMA_VERSION = 1


def as_json(report: Report) -> str:
    """Return everything that was found, as indented JSON; units are in the keys."""
    request = report.request
    return json.dumps(
        {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "direction": request.direction,
            "dtype": request.dtype,
            "seed": request.seed,
            "shapes": [shape.name for shape in request.shapes],
            "gpu": None if report.gpu is None else asdict(report.gpu),
            "counters": asdict(report.ncu),
            "kernels": [_block(block) for block in report.blocks],
            "calls": [_timing(timing, report.gpu) for timing in report.timings],
            "missing": dict(report.missing),
            "failed": dict(report.failed),
            "findings": [{"file": file, **asdict(one)} for file, one in report.findings],
        },
        indent=1,
    )


def shares(timing: Timing, gpu: Gpu | None) -> dict[str, float | None]:
    """Return a call's TFLOP/s and GB/s at the median, and their shares of the peaks in per cent."""
    seconds = timing.times.median / 1e3
    flops = timing.flops / seconds
    moved = None if timing.least_bytes is None else timing.least_bytes / seconds
    return {
        "tflops": tflops(timing.flops, timing.times.median),
        "tflops_percent": _share(flops, None if gpu is None else gpu.flops_per_second),
        "gbytes_per_second": None if moved is None else moved / 1e9,
        "gbytes_percent": _share(moved, None if gpu is None else gpu.bytes_per_second),
    }


def _share(value: float | None, peak: float | None) -> float | None:
    return None if value is None or peak is None else 100 * value / peak


def _block(block: Block) -> dict[str, Any]:
    return {
        "kernel": block.kernel,
        "file": block.file,
        "schedule": block.schedule,
        "arch": block.arch,
        "how": block.how,
        "scheduled": block.scheduled,
        "figures": [_row(row) for row in block.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    whole = row.values.keys() == {""}
    return {
        "key": row.key,
        "words": row.words,
        "value": row.values[""] if whole else None,
        "by_shape": {} if whole else dict(row.values),
        "metrics": dict(row.metrics),
        "points_to": [asdict(place) for place in row.points],
    }


def _timing(timing: Timing, gpu: Gpu | None) -> dict[str, Any]:
    return {"shape": timing.shape, "ms": asdict(timing.times), **shares(timing, gpu)}
