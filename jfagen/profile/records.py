"""What a profile is asked and what it found: frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ..bench.records import Dtype
from ..bench.shapes import Direction, Shape
from ..bench.statistics import Spread
from ..toolchain import Arch, Finding
from .parts import Place


class Access(StrEnum):
    """Whether counters were read, and if not, why."""

    READ = "read"
    NO_GPU = "no GPU"
    NO_KERNEL = "no kernel for this GPU"
    NOT_FOUND = "ncu not found"
    NOT_PERMITTED = "not permitted"
    FAILED = "failed"


class How(StrEnum):
    """Where a figure comes from."""

    COUNTED = "measured by ncu"
    TIMED = "measured with CUDA events"
    COMPILED = "measured from the cubin, nothing was run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of the command.

    Attributes:
        seed: that lengths are drawn with.
        ncu: the program asked for; None to look for it.
        arch: the target asked for; None for the GPU's.
        timeout_seconds: of every process that is started.
    """

    shapes: tuple[Shape, ...]
    direction: Direction
    dtype: Dtype
    seed: int
    ncu: Path | None
    arch: Arch | None
    timeout_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The GPU that torch would use; peaks are of dense 16-bit matmuls and of memory, None unknown.

    Attributes:
        peak_words: how the peaks follow.
    """

    name: str
    capability: tuple[int, int]
    sms: int
    flops_per_second: float | None
    bytes_per_second: float | None
    peak_words: str
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one kernel.

    Attributes:
        values: by shape; by the empty name if it does not depend on the shape. None unknown.
        metrics: by shape, what of `ncu` gave the value.
        points: the places in the schedule that move it.
        digits: after the point.
    """

    key: str
    words: str
    values: Mapping[str, float | None]
    points: tuple[Place, ...]
    digits: int = 1
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Figures of one kernel from one source.

    Attributes:
        file: the emitted file, below `generated/` without suffix.
        scheduled: whether the schedule describes the kernel, or only the host launches it.
    """

    kernel: str
    file: str
    schedule: str
    arch: Arch
    how: How
    scheduled: bool
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Calls of attention, timed on the device: everything that a call does there, times in ms.

    Attributes:
        least_bytes: that a call has to touch; None where it is not counted.
    """

    shape: str
    times: Spread
    flops: int
    least_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ncu:
    """What became of the counters.

    Attributes:
        reason: why there are none; empty if there are.
        help: what would give them.
        unknown: metrics that were left out, since `ncu` does not know them.
    """

    access: Access
    path: str | None = None
    version: str | None = None
    reason: str = ""
    help: str = ""
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that was found.

    Attributes:
        gpu: None where there is none.
        missing: shapes without a kernel, and why.
        findings: what the compiler or the kernel's limits object to, by file.
        failed: shapes whose call failed, and why.
    """

    request: Request
    gpu: Gpu | None
    ncu: Ncu
    blocks: tuple[Block, ...]
    timings: tuple[Timing, ...]
    missing: Mapping[str, str]
    findings: tuple[tuple[str, Finding], ...]
    failed: Mapping[str, str]

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing at all could be said."""
        return not self.blocks and not self.timings

    @property
    def is_wrong(self) -> bool:
        """Tell whether a kernel failed or breaks a limit, or `ncu` failed for no known reason."""
        return bool(self.findings or self.failed) or self.ncu.access is Access.FAILED
