"""The generated kernels that lie here, and which of them a GPU can run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .paths import data_dir

_TARGET = re.compile(r'^TARGET = "(sm_\d+[af]?)"', re.M)
_ARCH = re.compile(r"sm_(\d+)(\d)([af]?)")


#: Compute capability -> the schedule of the forward, below `schedules/` without suffix.
FORWARDS = {(10, 0): "fwd", (9, 0): "hopper/fwd"}
#: The same of the backward; where it is missing, there is no kernel for it yet.
BACKWARDS = {(10, 0): "bwd", (9, 0): "hopper/bwd"}


def kernel_name(schedule: str, *, jagged: bool, head_dim: int, dtype: str) -> str:
    """Return the file of one instance below `generated/`, without suffix.

    The first instance of a schedule (one q, head dimension 128, `bf16`) has the schedule's name.
    """
    parts = [
        "_jagged" if jagged else "",
        "" if head_dim == 128 else f"_d{head_dim}",
        "" if dtype == "bf16" else f"_{dtype}",
    ]
    return schedule + "".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedKernel:
    """An emitted file: its path below `generated/` without the suffix, and what it is for."""

    name: str
    target: str

    def fits(self, capability: tuple[int, int]) -> bool:
        """Tell whether a GPU of this compute capability runs it."""
        return fits(self.target, capability)


def fits(target: str, capability: tuple[int, int]) -> bool:
    """Tell whether a GPU of a compute capability runs code for a target such as `sm_100a`.

    An `a` means that architecture alone, an `f` its family (CUDA Programming Guide, "Compute
    Capabilities"); without a letter, any later minor version of it too.
    """
    found = _ARCH.fullmatch(target)
    if found is None:
        return False
    major, minor, kind = int(found[1]), int(found[2]), found[3]
    if kind == "a":
        return capability == (major, minor)
    return capability[0] == major and capability[1] >= minor


def generated_kernels(folder: Path | None = None) -> tuple[GeneratedKernel, ...]:
    """Return the kernels in a folder, the bundled one if None, by name."""
    folder = data_dir("generated") if folder is None else folder
    found = []
    for path in sorted(folder.rglob("*.py")):
        if target := _TARGET.search(path.read_text(encoding="utf-8")):
            name = path.relative_to(folder).with_suffix("").as_posix()
            found.append(GeneratedKernel(name=name, target=target[1]))
    return tuple(found)
