"""Shared by tests of the profile: a program that writes what ncu writes, and what it writes."""

from __future__ import annotations

import json
import sys

from jfagen.profile.counters import metric_names
from jfagen.profile.jobs import MARK, Do, Job

JOB = Job(do=Do.CALL, name="bq-512-1k-s50")
KERNEL = "jfa_fwd_hopper"
FACTS = {
    "name": "NVIDIA H200", "capability": [9, 0], "sms": 132, "uuid": "",
    "memory_bytes_per_second": 4.8e12, "versions": {"torch": "2.11"},
}  # fmt: skip
ANSWER = {"flops": 4 * 10**11, "least_bytes": 48 * 10**8, "laps_ms": []}
#: The columns before the metrics, as `ncu` 2025.3.1 writes them with `--page raw`.
HEAD = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "CC"]  # fmt: skip


def quoted(cells):
    return ",".join(f'"{cell}"' for cell in cells)


def wide(values, kernels=(KERNEL,)):
    """A raw page: names, then units, then a row for every launch."""
    facts = {"device__attribute_clock_rate": "1,980,000", "device__attribute_mode": "No-CC"}
    values = facts | values
    rows = [
        [str(number), "7", "python3.12", "127.0.0.1", kernel, "1", "7", "(416, 1, 1)",
         "(132, 1, 1)", "0", "9.0", *values.values()]
        for number, kernel in enumerate(kernels)
    ]  # fmt: skip
    table = [[*HEAD, *values], [""] * len(HEAD) + ["unit"] * len(values), *rows]
    lines = [
        "==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, "
        "profiling results may be inconsistent.",
        "==PROF== Connected to process 7 (/usr/bin/python3.12)",
        "==PROF== Disconnected from process 7",
        *map(quoted, table),
    ]
    return "\n".join(lines) + "\n"


def all_values(**changed):
    values = dict.fromkeys(metric_names(), "50.0") | {"gpu__time_duration.sum": "2,000,000"}
    return values | {name.replace("_DOT_", "."): value for name, value in changed.items()}


def fake(folder, log, *, strange="", code=0, answers=True):
    """A program that writes a log like ncu's; it refuses calls that name the strange metric."""
    (folder / "log").write_text(log)
    path = folder / "ncu"
    said = f"{MARK}{json.dumps(ANSWER)}" if answers else ""
    path.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys\n"
        "if '--version' in sys.argv: print('Version 2025.3.1.0 (build 1)'); sys.exit()\n"
        "target = pathlib.Path(sys.argv[sys.argv.index('--log-file') + 1])\n"
        f"pathlib.Path({str(folder / 'calls')!r}).open('a').write(repr(sys.argv) + '\\n')\n"
        f"if {strange!r} and {strange!r} in ' '.join(sys.argv):\n"
        f"    target.write_text('==ERROR== Failed to find metric regex:^{strange}(\\\\..*)?$\\n')\n"
        "    sys.exit(1)\n"
        f"target.write_text(pathlib.Path({str(folder / 'log')!r}).read_text())\n"
        f"print({said!r})\n"
        f"sys.exit({code})\n"
    )
    path.chmod(0o755)
    return path
