"""Run the compiler in a process of its own, so that a failed assertion ends that and not us."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import child
from .records import Arch, CompileFailed, Finding

_WORKER = Path(__file__).with_name("worker.py")
_REPORT = "jfagen-report "
_CACHE = "cache"
#: Environment variables that change what the compiler makes, by their first letters.
_COMPILER_VARIABLES = (
    "TRITON_",
    "MLIR_",
    "LLVM_",
    "NVPTX_",
    "PTXAS_",
    "DISABLE_",
    "USE_",
    "ENABLE_",
)
_LAST_LINES = 8
_LINE_HEAD, _LINE_TAIL = 150, 80
_TELLING = ("error:", "assert", "Assertion", "LLVM ERROR", "fatal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What the worker made: the two artefacts, the compiler's metadata and ptxas's words."""

    ptx: str
    cubin: Path
    smem_bytes: int
    tmem_columns: int
    cluster: tuple[int, int, int]
    ptxas_log: str


def build(folder: Path, file_name: str, kernel: str, arch: Arch, timeout_seconds: float) -> Built:
    """Compile the kernel of `folder/file_name`, or raise `CompileFailed`."""
    command = [sys.executable, "-P", str(_WORKER), file_name, kernel, str(arch.capability)]
    ended = child.run(
        command, timeout_seconds=timeout_seconds, folder=folder, environment=_environment(folder)
    )
    if ended.code is None:
        raise CompileFailed(
            Finding(
                id="compiler-timeout",
                message=f"the compiler did not finish in {timeout_seconds:g} seconds",
                help="allow more with `--timeout`",
            )
        )
    report = _report(ended.out)
    if ended.code < 0:
        raise _died(ended.code, ended.err)
    if report is None or ended.code > 0:
        raise _refused(report or {}, ended.err, folder / file_name)
    return _built(folder, report)


def _environment(folder: Path) -> dict[str, str]:
    """Return our environment without what changes code; what is written stays in `folder`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_COMPILER_VARIABLES)
    }
    return kept | {
        "TRITON_CACHE_DIR": str(folder / _CACHE),
        "TMPDIR": str(folder),
        "TRITON_DUMP_PTXAS_LOG": "1",
        # A module that probes for a GPU when it is imported must answer alike on every machine.
        "CUDA_VISIBLE_DEVICES": "",
    }


def _report(output: str) -> dict[str, Any] | None:
    for line in reversed(output.splitlines()):
        if line.startswith(_REPORT):
            report: dict[str, Any] = json.loads(line.removeprefix(_REPORT))
            return report
    return None


def _died(returncode: int, errors: str) -> CompileFailed:
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return CompileFailed(
        Finding(
            id="compiler-died",
            message=f"the compiler process was ended by {name}",
            notes=_last_lines(errors),
            help="the lines above are the compiler's own last words; the kernel gave no cubin",
        )
    )


def _refused(report: dict[str, Any], errors: str, file: Path) -> CompileFailed:
    line = report.get("line")
    place = f" at {file.name}:{line}" if line else ""
    said = str(report.get("error", ""))
    # The compiler caches each stage, so its PTX is there even when ptxas refuses it.
    stages = sorted((file.parent / _CACHE).glob("*/*.ptx"))
    return CompileFailed(
        Finding(
            id="compiler-refused",
            message=f"the compiler refused the kernel{place}",
            notes=_last_lines(errors + "\n" + said),
        ),
        ptx=stages[0].read_text(encoding="utf-8") if stages else None,
    )


def _last_lines(text: str) -> tuple[str, ...]:
    """Return the compiler's last lines, and before them the earlier ones that name an error."""
    rows = [row.rstrip() for row in text.splitlines() if row.strip()]
    # The command names files that are gone by now.
    lines = [_shortened(row) for row in rows if not row.startswith("Repro command")]
    telling = [line for line in lines[:-_LAST_LINES] if any(word in line for word in _TELLING)]
    return tuple(telling[-_LAST_LINES:] + lines[-_LAST_LINES:])


def _shortened(line: str) -> str:
    if len(line) <= _LINE_HEAD + _LINE_TAIL:
        return line
    return f"{line[:_LINE_HEAD]} [...] {line[-_LINE_TAIL:]}"


def _built(folder: Path, report: dict[str, Any]) -> Built:
    first, second, third = report["cluster"]
    return Built(
        ptx=(folder / "kernel.ptx").read_text(encoding="utf-8"),
        cubin=folder / "kernel.cubin",
        smem_bytes=report["smem_bytes"],
        tmem_columns=report["tmem_columns"],
        cluster=(first, second, third),
        ptxas_log=report["ptxas_log"],
    )
