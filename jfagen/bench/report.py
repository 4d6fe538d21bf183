"""A whole run: everything that was found, as JSON, and the means over its shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..nvidia_smi import Reading
from .records import Dtype, Measurement, Status
from .shapes import Direction, Mode
from .statistics import Spread, geometric_mean, spread

SCHEMA = "jfagen-bench"
#: Rises with every change that a reader of older files would trip over.
SCHEMA_VERSION = 1
#: A provider whose host takes this share of the device's time may be measured by its host.
_HOST_BOUND = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a run was made with; sizes in bytes.

    Attributes:
        missing: why providers are not available, by name.
        notes: what to know of the others, by name.
        before: clocks and power before the first case.
    """

    device: str
    capability: tuple[int, int]
    sms: int
    l2_bytes: int
    memory_bytes: int
    versions: Mapping[str, str]
    direction: Direction
    dtype: Dtype
    seeds: tuple[int, ...]
    rounds: int
    baseline: str
    missing: Mapping[str, str]
    notes: Mapping[str, tuple[str, ...]]
    before: Reading | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A run that is over, or what there is of it.

    Attributes:
        rows: the measurements, case by case.
        readings: clocks and power right after each case, by (shape, seed).
        after: clocks and power at the end.
        broken_off: where and why the run ended before its last case; empty if it did not.
    """

    head: Head
    rows: tuple[Measurement, ...]
    readings: Mapping[tuple[str, int], Reading | None]
    after: Reading | None
    broken_off: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The geometric mean of the speed over the baseline's, over `cases` cases of one mode."""

    provider: str
    mode: Mode
    ratio: float
    cases: int


def ratios(rows: Sequence[Measurement], baseline: str) -> dict[tuple[str, int, str], float]:
    """Return by (shape, seed, provider) how many times as fast as the baseline each one is."""
    times = {(row.case.shape.name, row.case.seed, row.provider): row.times for row in rows}
    found = {}
    for (shape, seed, provider), own in times.items():
        base = times.get((shape, seed, baseline))
        if own is not None and base is not None:
            found[shape, seed, provider] = base.median / own.median
    return found


def means(rows: Sequence[Measurement], baseline: str) -> list[Mean]:
    """Return the means of every provider and mode that was measured beside the baseline."""
    speeds = ratios(rows, baseline)
    found = []
    for provider in dict.fromkeys(row.provider for row in rows):
        for mode in Mode:
            chosen = [
                speeds[key]
                for row in rows
                if row.provider == provider and row.case.shape.mode is mode
                if (key := (row.case.shape.name, row.case.seed, provider)) in speeds
            ]
            if (ratio := geometric_mean(chosen)) is not None:
                found.append(Mean(provider=provider, mode=mode, ratio=ratio, cases=len(chosen)))
    return found


def cautions(report: Report) -> list[str]:
    """Return what makes a figure less than it seems: few input sets, a host that is too slow."""
    found = []
    for row in report.rows:
        where = f"{row.case.shape.name}, {row.provider}"
        if row.times is None or row.host_times is None:
            continue
        if row.sets * row.case.call_bytes < 3 * report.head.l2_bytes:
            found.append(f"{where}: {row.sets} input sets do not fill the L2 three times")
        if row.host_times.median > _HOST_BOUND * row.times.median:
            host = row.host_times.median
            found.append(f"{where}: the host takes {host:.3g} ms to queue a call")
    return list(dict.fromkeys(found))


def is_wrong(report: Report) -> bool:
    """Tell whether a provider was wrong or failed, or the run was broken off."""
    return bool(report.broken_off) or any(
        row.status in (Status.WRONG, Status.FAILED) for row in report.rows
    )


def as_json(report: Report) -> str:
    """Return the run as indented JSON; times in ms, power in W, clocks in MHz."""
    head = asdict(report.head)
    speeds = ratios(report.rows, report.head.baseline)
    return json.dumps(
        {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            **head,
            "after": _reading(report.after),
            "broken_off": report.broken_off,
            "cases": [
                _case(report, shape, seed, speeds)
                for shape, seed in dict.fromkeys(
                    (row.case.shape.name, row.case.seed) for row in report.rows
                )
            ],
            "geometric_means": [asdict(mean) for mean in means(report.rows, report.head.baseline)],
            "cautions": cautions(report),
        },
        indent=1,
    )


def _case(
    report: Report, shape: str, seed: int, speeds: Mapping[tuple[str, int, str], float]
) -> dict[str, Any]:
    rows = [row for row in report.rows if (row.case.shape.name, row.case.seed) == (shape, seed)]
    case = rows[0].case
    return {
        "shape": asdict(case.shape),
        "seed": seed,
        "total_keys": sum(case.lengths),
        "flops": case.flops,
        "reading": _reading(report.readings.get((shape, seed))),
        "results": [_result(row, speeds.get((shape, seed, row.provider))) for row in rows],
    }


def _result(row: Measurement, speed: float | None) -> dict[str, Any]:
    return {
        "provider": row.provider,
        "status": row.status,
        "reason": row.reason,
        "error": _finite(row.error),
        "tolerance": row.tolerance,
        "sets": row.sets,
        "ms": _spread(row.times),
        "host_ms": _spread(row.host_times),
        "tflops": row.tflops,
        "speed_over_baseline": speed,
        "round_medians_ms": [spread([lap.device_ms for lap in one]).median for one in row.rounds],
    }


def _finite(error: float | None) -> float | str | None:
    """Return an error that JSON can hold: NaN and infinities are words."""
    if error is None or abs(error) < float("inf"):
        return error
    return str(error)


def _spread(found: Spread | None) -> dict[str, float] | None:
    return None if found is None else asdict(found)


def _reading(reading: Reading | None) -> dict[str, Any] | None:
    return None if reading is None else asdict(reading)
