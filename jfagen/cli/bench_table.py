"""Spell a bench: its head, the table of its results, and the lists of shapes and providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from ..bench.records import Measurement, Status
from ..bench.report import Head, Report, cautions, means, ratios
from ..bench.shapes import SHAPES, Mode
from ..nvidia_smi import Reading

_MIB, _GIB = 2**20, 2**30
_MODES = {Mode.BROADCAST: "broadcast", Mode.SELF: "self and dense"}
_COLOURS = {Status.WRONG: "red", Status.FAILED: "red", Status.NO_MEMORY: "yellow"}


def head_lines(head: Head) -> list[str]:
    """Return what stands above the table."""
    major, minor = head.capability
    seeds = ", ".join(str(seed) for seed in head.seeds)
    lines = [
        f"device    {head.device}, sm_{major}{minor}, {head.sms} SMs, "
        f"L2 {head.l2_bytes / _MIB:.0f} MiB, {head.memory_bytes / _GIB:.0f} GiB",
        f"before    {reading_words(head.before)}",
        f"versions  {', '.join(f'{name} {text}' for name, text in head.versions.items())}",
        f"asked     {head.direction}, {head.dtype}, lengths of seed {seeds}, {head.rounds} rounds",
    ]
    lines += [f"note      {name}: {note}" for name, notes in head.notes.items() for note in notes]
    lines += [f"missing   {name}: {reason}" for name, reason in head.missing.items()]
    return [*lines, ""]


def reading_words(reading: Reading | None) -> str:
    """Return clocks, power and temperature in one line."""
    if reading is None:
        return "nvidia-smi does not answer: clocks and power are not known"
    return (
        f"SM {_unit(reading.sm_mhz)} of {_unit(reading.sm_max_mhz)} MHz, "
        f"{_unit(reading.power_w)} of {_unit(reading.power_limit_w)} W, "
        f"{_unit(reading.temperature_c)} C, driver {reading.driver}"
    )


def result_table(report: Report) -> Table:
    """Return the table: a block of rows for each case."""
    baseline = report.head.baseline
    speeds = ratios(report.rows, baseline)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="", show_edge=False)
    table.add_column("shape", no_wrap=True)
    table.add_column("provider", no_wrap=True)
    for name in ("ms", "p10..p90", "TFLOP/s", f"x {baseline}", "error (bound)"):
        table.add_column(name, justify="right", no_wrap=True)
    seeds = len(report.head.seeds) > 1
    before: tuple[str, int] | None = None
    for row in report.rows:
        key = row.case.shape.name, row.case.seed
        label = (f"{key[0]} seed {key[1]}" if seeds else key[0]) if key != before else ""
        if before not in (None, key):
            table.add_section()
        speed = speeds.get((*key, row.provider))
        table.add_row(label, row.provider, *_cells(row, speed))
        before = key
    return table


def reason_lines(rows: Sequence[Measurement]) -> list[str]:
    """Return why providers were not measured, after an empty line: each reason with its shapes."""
    groups: dict[tuple[str, Status, str], list[str]] = {}
    for row in rows:
        if row.status is not Status.MEASURED:
            shapes = groups.setdefault((row.provider, row.status, row.reason), [])
            shapes.append(row.case.shape.name)
    lines = [
        f"{provider} {status}: {reason} ({_some(list(dict.fromkeys(shapes)))})"
        for (provider, status, reason), shapes in groups.items()
    ]
    return ["", *lines] if lines else []


def closing_lines(report: Report) -> list[str]:
    """Return the geometric means, cautions, and clocks and power at the end."""
    baseline = report.head.baseline
    found = means(report.rows, baseline)
    lines = [f"geometric mean of the speed over {baseline}'s, above 1 is faster:"]
    width = max((len(mean.provider) for mean in found), default=0)
    for mean in found:
        if mean.provider != baseline:
            cases = f"{mean.cases} case{'s' if mean.cases > 1 else ''}"
            words = f"{mean.ratio:.3f} over {cases}"
            lines.append(f"  {mean.provider.ljust(width)}  {_MODES[mean.mode].ljust(14)}  {words}")
    if len(lines) == 1:
        lines = [f"no geometric means: nothing was measured beside {baseline}"]
    lines += [f"caution   {caution}" for caution in cautions(report)]
    return ["", *lines, f"after     {reading_words(report.after)}"]


def list_lines(providers: Mapping[str, str | None], gpu: str | None) -> list[str]:
    """Return the shapes and the providers, each with what it lacks here.

    Args:
        providers: by name what is missing, None if nothing.
        gpu: why there is no GPU, None if there is one.
    """
    lines = ["shape           mode          B   H    D    M      L     s"]
    for shape in SHAPES:
        queries = "-" if shape.queries is None else str(shape.queries)
        lines.append(
            f"{shape.name:<15} {shape.mode:<10} {shape.batch:>4} {shape.heads:>3} "
            f"{shape.head_dim:>4} {queries:>4} {shape.longest:>6} {shape.density:>5}"
        )
    lines += ["", "provider"]
    lines += [f"{name:<15} {missing or 'available'}" for name, missing in providers.items()]
    return [*lines, "", f"GPU             {gpu or 'available'}"]


def _cells(row: Measurement, speed: float | None) -> tuple[Text | str, ...]:
    times, rate = row.times, row.tflops
    if times is None or rate is None:
        word = Text(str(row.status), style=_COLOURS.get(row.status, ""))
        return word, "", "", "", _error(row)
    return (
        f"{times.median:.4f}",
        f"{times.p10:.4f}..{times.p90:.4f}",
        f"{rate:.1f}",
        "" if speed is None else f"{speed:.3f}",
        _error(row),
    )


def _error(row: Measurement) -> str:
    if row.error is None or row.tolerance is None:
        return ""
    return f"{row.error:.4f} ({row.tolerance:.4f})"


def _unit(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}"


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} shapes"
