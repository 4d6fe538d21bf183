"""Facts of the PTX text and of the log that ptxas writes while it makes the cubin."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .records import CompileFailed, Finding, Spills

_SETMAXNREG = re.compile(r"^\s*setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32\s+(\d+)\s*;", re.M)
_MAXNREG = re.compile(r"^\s*\.maxnreg\s+(\d+)", re.M)
_REQNTID = re.compile(r"^\s*\.(?:reqntid|maxntid)\s+(\d+)(?:,\s*(\d+))?(?:,\s*(\d+))?", re.M)
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_WARNING = re.compile(r"warning\s*:\s*(.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxasLog:
    """What `ptxas -v` said about the kernel."""

    spills: Spills
    registers: int
    warnings: tuple[str, ...]


def setmaxnreg_values(ptx: str) -> tuple[int, ...]:
    """Return every register limit that the code sets, each once, in the order of the text."""
    return tuple(dict.fromkeys(int(value) for value in _SETMAXNREG.findall(ptx)))


def launch_registers(ptx: str) -> int | None:
    """Return the registers a thread has before any setmaxnreg, when the PTX fixes them."""
    found = _MAXNREG.search(ptx)
    return int(found.group(1)) if found else None


def threads(ptx: str) -> int:
    """Return the threads of one CTA."""
    found = _REQNTID.search(ptx)
    if found is None:
        raise _unreadable("the PTX does not say how many threads a CTA has")
    total = 1
    for size in found.groups():
        total *= int(size or 1)
    return total


def read_log(log: str, kernel: str) -> PtxasLog:
    """Return the kernel's figures from the log of the ptxas run that made the cubin."""
    start = log.find(f"Function properties for {kernel}")
    spilled, used = _SPILLS.search(log, max(start, 0)), _USED.search(log, max(start, 0))
    if start < 0 or spilled is None or used is None:
        raise _unreadable(f"ptxas printed no figures for `{kernel}`")
    stack, stores, loads = (int(value) for value in spilled.groups())
    return PtxasLog(
        spills=Spills(store_bytes=stores, load_bytes=loads, stack_bytes=stack),
        registers=int(used.group(1)),
        warnings=tuple(match.strip() for match in _WARNING.findall(log)),
    )


def _unreadable(message: str) -> CompileFailed:
    return CompileFailed(Finding(id="unreadable-output", message=message))
