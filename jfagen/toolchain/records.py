"""What a compile found: frozen records, each figure measured from the compiler's own output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Arch(StrEnum):
    """The GPU architectures that kernels are emitted for."""

    SM_90A = "sm_90a"
    SM_100A = "sm_100a"

    @property
    def capability(self) -> int:
        """Return the compute capability times ten, as the compiler's target wants it."""
        return 90 if self is Arch.SM_90A else 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, with what mends it when that is known.

    It has no place in the schedule: it was measured, or said by the compiler.
    """

    id: str
    message: str
    notes: tuple[str, ...] = ()
    help: str | None = None


class ToolchainMissing(Exception):
    """The compiler is not installed, or the one installed has no TLX."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class CompileFailed(Exception):
    """The text gave no cubin: it was refused, or the compiler died on it.

    `ptx` is the PTX when the compiler got as far as that.
    """

    def __init__(self, finding: Finding, ptx: str | None = None) -> None:
        super().__init__(finding.message)
        self.finding = finding
        self.ptx = ptx


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The packages and programs that made the cubin."""

    distribution: str
    triton: str
    ptxas: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the emitted file says the kernel may use; None where it says nothing."""

    smem_bytes: int | None = None
    tmem_columns: int | None = None
    registers: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spills:
    """Registers that ptxas moved to local memory, in bytes a thread."""

    store_bytes: int
    load_bytes: int
    stack_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the kernel takes from an SM when it is launched."""

    smem_bytes: int
    tmem_columns: int
    threads: int
    cluster: tuple[int, int, int]
    registers_per_thread: int
    setmaxnreg: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFigures:
    """One role: where its text is, what it asked for and what the machine code sets.

    `registers_found` is the setmaxnreg limit in force in the role's machine code; None when the
    code sets none, or when no instruction could be traced to the role.
    """

    name: str
    source: str | None
    first_line: int
    last_line: int
    warps: int | None
    copies: int
    registers_requested: int | None
    registers_found: int | None
    instructions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFigures:
    """One hot loop, counted over its whole body: a lap of a thread that takes every branch.

    An outer loop counts only what is outside the hot loops inside it. `copies` loops of the role
    have the same counts; `shortest_path` and `longest_path` are instructions from the header
    round to the header.
    """

    role: str | None
    copies: int
    innermost: bool
    address: int
    first_line: int | None
    last_line: int | None
    instructions: int
    shortest_path: int
    longest_path: int
    counts: Mapping[str, int]
    registers_named: int
    register_limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A kernel taken to machine code: its figures, its artefacts, and every broken limit."""

    kernel: str
    arch: Arch
    sha256: str
    versions: Versions
    seconds: float
    budget: Budget
    resources: Resources
    spills: Spills
    instructions: int
    roles: tuple[RoleFigures, ...]
    loops: tuple[LoopFigures, ...]
    warnings: tuple[str, ...]
    findings: tuple[Finding, ...]
    ptx: str
    cubin: bytes
    sass: str
