"""Spell a profile: its head, a table for each kernel, and what to know of the figures."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from ..profile.records import Access, Block, How, Report, Row
from ..profile.report import shares

_OUTSIDE = "launched by the host part, outside of the schedule"


def head_lines(report: Report) -> list[str]:
    """Return what stands above the tables: the GPU, what was asked, and what of counters."""
    lines = [*_gpu_lines(report)]
    request, ncu = report.request, report.ncu
    lines.append(
        f"asked     {request.direction}, {request.dtype}, lengths of seed {request.seed}: "
        f"{', '.join(shape.name for shape in request.shapes)}"
    )
    if ncu.access is Access.READ:
        lines.append(f"counters  by ncu {ncu.version} ({ncu.path})")
    else:
        lines += [f"counters  none, {ncu.access}: {ncu.reason}", f"          help: {ncu.help}"]
    if ncu.unknown:
        lines.append(f"note      this ncu or GPU does not know {', '.join(ncu.unknown)}")
    lines += [f"missing   {shape}: {why}" for shape, why in report.missing.items()]
    return lines


def block_title(block: Block) -> str:
    """Return what a table is about and where its figures come from."""
    outside = "" if block.scheduled else f", {_OUTSIDE}"
    origin = f"generated/{block.file}.py of {block.schedule}"
    return f"{block.kernel} for {block.arch} ({origin}){outside}: {block.how}"


def block_table(block: Block) -> Table:
    """Return the figures of a kernel, by shape where they depend on it, and what they point to."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="", show_edge=False)
    table.add_column("figure", no_wrap=True)
    shapes = list(dict.fromkeys(shape for row in block.rows for shape in row.values))
    for shape in shapes:
        table.add_column(shape or "value", justify="right", no_wrap=True)
    if block.scheduled:
        table.add_column("points to", overflow="fold")
    for row in block.rows:
        # As text: a group's index in brackets is no markup.
        points = [Text("\n".join(place.words for place in row.points))] if block.scheduled else []
        table.add_row(row.words, *(_value(row, shape) for shape in shapes), *points)
    return table


def timing_table(report: Report) -> Table:
    """Return whole calls, timed where there are no counters."""
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        header_style="",
        show_edge=False,
        title=f"whole calls of attention: {How.TIMED}",
        title_justify="left",
        title_style="",
    )
    table.add_column("shape", no_wrap=True)
    for name in ("ms", "p10..p90", "TFLOP/s", "% of peak", "GB/s at least", "% of peak"):
        table.add_column(name, justify="right", no_wrap=True)
    for timing in report.timings:
        rates = shares(timing, report.gpu)
        table.add_row(
            timing.shape,
            f"{timing.times.median:.4f}",
            f"{timing.times.p10:.4f}..{timing.times.p90:.4f}",
            *(_number(rate, 1) for rate in rates.values()),
        )
    return table


def closing_lines(report: Report) -> list[str]:
    """Return what to know of the figures that were shown."""
    hows = {block.how for block in report.blocks}
    lines = []
    if silent := _without_value(report):
        lines.append(f"note      `-`: this ncu has no value here for {', '.join(silent)}")
    if How.COUNTED in hows:
        lines += [
            "note      ncu runs each kernel once for every group of counters, alone on the GPU, "
            "with caches emptied before and clocks left as they are",
            "note      local memory holds spills, and arrays that are indexed at run time",
        ]
    if report.timings:
        lines.append(
            "note      a call is everything that it does on the device; one input set, so that L2 "
            "is warm; the least bytes are q, k, v and out, each once"
        )
    if How.COMPILED in hows:
        lines.append("note      instructions of a loop count all branches; they are no cycles")
    return ["", *lines] if lines else []


def _without_value(report: Report) -> list[str]:
    """Return the figures that no metric gave, for one kernel or another."""
    rows = [row for block in report.blocks if block.how is How.COUNTED for row in block.rows]
    return list(dict.fromkeys(row.key for row in rows if None in row.values.values()))


def _gpu_lines(report: Report) -> list[str]:
    if report.gpu is None:
        return []
    gpu = report.gpu
    major, minor = gpu.capability
    return [
        f"GPU       {gpu.name}, sm_{major}{minor}",
        f"peak      {gpu.peak_words}",
        f"versions  {', '.join(f'{name} {text}' for name, text in gpu.versions.items())}",
    ]


def _value(row: Row, shape: str) -> str:
    return _number(row.values.get(shape), row.digits)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
