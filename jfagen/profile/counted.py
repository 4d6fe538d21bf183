"""Turn launches that `ncu` profiled into rows: the first metric with a value, in the row's unit."""

from __future__ import annotations

from collections.abc import Mapping

from .counters import COUNTERS, Counter
from .ncu_csv import Launch
from .parts import Place
from .records import Block, Gpu, How, Row
from .subjects import Subject

#: Launches of one shape, by kernel.
Launches = Mapping[str, Launch]


def counted_blocks(
    subject: Subject, found: Mapping[str, Launches], flops: Mapping[str, int], gpu: Gpu
) -> tuple[Block, ...]:
    """Return a block for every kernel of a file that was profiled.

    Args:
        subject: the file.
        found: shape -> its launches.
        flops: shape -> floating-point operations of one call.
        gpu: where it ran.
    """
    blocks = []
    for kernel in subject.launched:
        launches = {shape: of[kernel] for shape, of in found.items() if kernel in of}
        if not launches:
            continue
        scheduled = kernel == subject.kernel
        rows = [_row(one, launches, subject, scheduled=scheduled) for one in COUNTERS]
        if scheduled:
            rows[1:1] = rate_rows(rows[0].values, flops, gpu)
        blocks.append(
            Block(
                kernel=kernel,
                file=subject.name,
                schedule=subject.schedule,
                arch=subject.arch,
                how=How.COUNTED,
                scheduled=scheduled,
                rows=tuple(rows),
            )
        )
    return tuple(blocks)


def rate_rows(
    milliseconds: Mapping[str, float | None], flops: Mapping[str, int], gpu: Gpu
) -> list[Row]:
    """Return TFLOP/s by shape, and their share of the GPU's peak if that is known."""
    rates = {
        shape: flops[shape] / time * 1e3 for shape, time in milliseconds.items() if time is not None
    }
    rows = [
        Row(
            key="tflops",
            words="TFLOP/s of attention",
            values={shape: rate / 1e12 for shape, rate in rates.items()},
            points=(),
        )
    ]
    if (peak := gpu.flops_per_second) is not None:
        shares = {shape: 100 * rate / peak for shape, rate in rates.items()}
        rows.append(
            Row(key="tflops_percent", words="the same, % of peak", values=shares, points=())
        )
    return rows


def _row(
    counter: Counter, launches: Mapping[str, Launch], subject: Subject, *, scheduled: bool
) -> Row:
    values: dict[str, float | None] = {}
    metrics: dict[str, str] = {}
    for shape, launch in launches.items():
        known = [name for name in counter.metrics if launch.values.get(name) is not None]
        value = launch.values[known[0]] if known else None
        values[shape] = None if value is None else value * counter.factor
        if known:
            metrics[shape] = known[0]
    points: tuple[Place, ...] = subject.parts[counter.part] if scheduled else ()
    return Row(
        key=counter.key,
        words=counter.words,
        values=values,
        points=points,
        digits=counter.digits,
        metrics=metrics,
    )
