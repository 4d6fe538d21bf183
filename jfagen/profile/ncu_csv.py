"""Read what `ncu --csv --page raw` writes: one row a launch, or one row a launch and metric.

The first form has the metrics as columns and their units as first row (Nsight Compute CLI manual,
"Output Pages"); the second is that of other pages and of older versions. Lines of `ncu` and of the
program stand between them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

_KERNEL, _METRIC, _VALUE, _ID = "Kernel Name", "Metric Name", "Metric Value", "ID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One profiled launch; None where `ncu` has no value for a metric."""

    kernel: str
    values: Mapping[str, float | None]


def parse(text: str) -> tuple[Launch, ...]:
    """Return the launches in order; none if the text has no table."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith('"ID"')]
    found: list[Launch] = []
    for start, stop in pairwise([*starts, len(lines)]):
        table = [line for line in lines[start:stop] if line.startswith('"')]
        header, *rows = csv.reader(table)
        whole = [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]
        found += _long(whole) if _METRIC in header else _wide(header, whole)
    return tuple(found)


def number(text: str) -> float | None:
    """Return a number such as `1,234.5`; None for `n/a`, words and nothing."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _wide(header: list[str], rows: list[dict[str, str]]) -> Iterator[Launch]:
    """Yield a launch for each row; the row of units has no id."""
    metrics = [name for name in header if "__" in name]
    for row in rows:
        if row[_ID]:
            values = {name: number(row[name]) for name in metrics}
            yield Launch(kernel=row[_KERNEL], values=values)


def _long(rows: list[dict[str, str]]) -> Iterator[Launch]:
    launches: dict[str, tuple[str, dict[str, float | None]]] = {}
    for row in rows:
        _, values = launches.setdefault(row[_ID], (row[_KERNEL], {}))
        if row[_METRIC]:
            values[row[_METRIC]] = number(row[_VALUE])
    for kernel, values in launches.values():
        yield Launch(kernel=kernel, values=values)
