"""Run a program in a process group of its own: it ends with us, and after its time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended; `code` is negative for a signal and None if its time was up."""

    code: int | None
    out: str
    err: str


def run(
    command: Sequence[str],
    *,
    timeout_seconds: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Return how the program ended, with everything that it printed.

    Raises:
        OSError: it cannot be started.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        out, err = _stop(process)
        return Ended(code=None, out=out, err=err)
    except BaseException:
        _stop(process)
        raise
    return Ended(code=process.returncode, out=out, err=err)


def _stop(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End the program and what it has started; return what they had printed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()
