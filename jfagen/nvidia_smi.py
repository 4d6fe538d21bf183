"""What `nvidia-smi` says of a GPU: clocks in MHz, power in W, temperature in degrees Celsius."""

from __future__ import annotations

import csv
import subprocess
from dataclasses import dataclass

_FIELDS = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.max.sm",
    "power.draw",
    "power.limit",
    "temperature.gpu",
)
_TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at a GPU; None where the driver does not say."""

    name: str
    driver: str
    sm_mhz: float | None
    sm_max_mhz: float | None
    power_w: float | None
    power_limit_w: float | None
    temperature_c: float | None


def read_gpus(gpu: str | None = None) -> tuple[Reading, ...]:
    """Return a reading of every GPU, or of one; empty where `nvidia-smi` is missing or fails.

    Args:
        gpu: an index or a UUID (`GPU-...`) as `nvidia-smi -i` takes it.
    """
    chosen = [] if gpu is None else ["-i", gpu]
    call = ["nvidia-smi", *chosen, f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            call, capture_output=True, text=True, check=True, timeout=_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return parse(done.stdout)


def parse(text: str) -> tuple[Reading, ...]:
    """Return the readings in the CSV lines of `nvidia-smi`; lines of another form are left out."""
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return tuple(_reading(row) for row in rows if len(row) == len(_FIELDS))


def _reading(row: list[str]) -> Reading:
    name, driver, *numbers = row
    sm, sm_max, power, limit, temperature = (_number(text) for text in numbers)
    return Reading(
        name=name,
        driver=driver,
        sm_mhz=sm,
        sm_max_mhz=sm_max,
        power_w=power,
        power_limit_w=limit,
        temperature_c=temperature,
    )


def _number(text: str) -> float | None:
    """Return the number before the unit; None for `[N/A]` and the like."""
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return None
