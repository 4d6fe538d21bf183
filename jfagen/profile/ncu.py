"""Nsight Compute's command line: where it is, how it is called, and what its errors mean.

Options and messages as in the Nsight Compute CLI manual; caches are emptied before every pass,
which is its default, and clocks are left as they are (`--clock-control none`), which is not.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import child
from . import ncu_csv
from .counters import metric_names
from .jobs import Job, JobFailed, answer

#: Where CUDA and Nsight Compute put it when it is not on PATH.
USUAL_PLACES = (
    "/usr/local/cuda/bin/ncu",
    "/usr/local/cuda-*/bin/ncu",
    "/opt/nvidia/nsight-compute/*/ncu",
)
_PERMISSION = "ERR_NVGPUCTRPERM"
_UNKNOWN = re.compile(r"Failed to find metric (?:regex:)?\^?(\w+)")
_SAID = re.compile(r"^==ERROR== (.*)$", re.M)
#: `ncu` may name one unknown metric at a time.
_MOST_TRIES = 6
_VERSION_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """What `ncu` found of one job.

    Attributes:
        launches: of the kernels asked for, in order.
        answer: what the profiled process said.
        unknown: metrics that this `ncu` or chip does not know, without suffix.
    """

    launches: tuple[ncu_csv.Launch, ...]
    answer: dict[str, Any]
    unknown: frozenset[str]


class NotPermitted(Exception):
    """The driver does not let this user read the counters."""


class NcuFailed(Exception):
    """There are no counters; the message says what `ncu` said."""


def find_ncu(asked: Path | None = None, places: Sequence[str] = USUAL_PLACES) -> Path | None:
    """Return the program: the one asked for, on PATH, or the newest in CUDA's usual places."""
    if asked is not None:
        return asked if _runs(asked) else None
    if (found := shutil.which("ncu")) is not None:
        return Path(found)
    for pattern in places:
        matches = [path for path in Path("/").glob(pattern.lstrip("/")) if _runs(path)]
        if matches:
            return max(matches, key=lambda path: _numbers(str(path)))
    return None


def version(ncu: Path) -> str:
    """Return its version, `unknown` if it does not say one."""
    try:
        said = child.run([str(ncu), "--version"], timeout_seconds=_VERSION_SECONDS).out
    except OSError:
        return "unknown"
    found = re.search(r"Version (\S+)", said)
    return found[1] if found else "unknown"


def count(ncu: Path, job: Job, kernels: Sequence[str], *, timeout_seconds: float) -> Profiled:
    """Return the counters of one launch of each kernel.

    Metrics that `ncu` does not know are left out in another try.

    Raises:
        NotPermitted: the driver keeps counters from this user.
        NcuFailed: there are none for another reason.
        JobFailed: the profiled process itself failed.
    """
    unknown: frozenset[str] = frozenset()
    for _ in range(_MOST_TRIES):
        with tempfile.TemporaryDirectory(prefix="jfagen-") as folder:
            log = Path(folder, "ncu.log")
            call = command(ncu, job, kernels, metric_names(unknown), log)
            try:
                ended = child.run(call, timeout_seconds=timeout_seconds)
            except OSError as error:
                raise NcuFailed(f"`{ncu}` cannot be started: {error.strerror}") from error
            said = log.read_text(errors="replace") if log.is_file() else ""
        everything = "\n".join([said, ended.out, ended.err])
        if _PERMISSION in everything:
            raise NotPermitted(_PERMISSION)
        if launches := ncu_csv.parse(said):
            return Profiled(
                launches=launches, answer=answer(ended, timeout_seconds), unknown=unknown
            )
        if not (news := frozenset(_UNKNOWN.findall(everything)) - unknown):
            raise _failed(everything, ended, timeout_seconds)
        unknown |= news
    raise NcuFailed(f"it does not know {', '.join(sorted(unknown))}, and more")


def command(
    ncu: Path, job: Job, kernels: Sequence[str], metrics: Sequence[str], log: Path
) -> list[str]:
    """Return the call that profiles one launch of each kernel of a job."""
    return [
        str(ncu),
        *("--csv", "--page", "raw", "--print-units", "base"),
        *("--log-file", str(log)),
        *("--target-processes", "application-only"),
        *("--clock-control", "none"),
        *("--kernel-name-base", "function"),
        *("--kernel-name", f"regex:^({'|'.join(kernels)})$"),
        *("--launch-count", str(len(kernels))),
        *("--metrics", ",".join(metrics)),
        *job.command,
    ]


def _failed(everything: str, ended: child.Ended, timeout_seconds: float) -> Exception:
    """Return why there is no table: the program profiled, or `ncu` itself."""
    if ended.code is None:
        return NcuFailed(f"it did not end in {timeout_seconds:g} seconds")
    try:
        answer(ended, timeout_seconds)
    except JobFailed as error:
        said = _SAID.findall(everything)
        own = [line for line in said if "application returned an error" not in line]
        return NcuFailed(own[0]) if own else error
    said = _SAID.findall(everything) or [f"it ended with {ended.code} and wrote no counters"]
    return NcuFailed(said[0])


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _numbers(text: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", text)]
