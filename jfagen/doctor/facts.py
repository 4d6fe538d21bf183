"""What is known of an install: plain facts, without a judgement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..kernels import GeneratedKernel
from ..nvidia_smi import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A package that jfagen declares; `floor` and `below` as it spells them, empty without one.

    Attributes:
        installed: the version that is there, None if none is.
    """

    name: str
    floor: str
    below: str
    installed: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """The two distributions that both install the module `triton`; None where one is missing.

    Attributes:
        shared: files that both list.
        overwritten: files of fbtriton whose content is not its own.
        gone: files of fbtriton that are missing.
        tlx_error: why `triton.language.extra.tlx` cannot be imported; empty if it can.
    """

    fbtriton: str | None
    triton: str | None
    shared: int = 0
    overwritten: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    tlx_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One of NVIDIA's programs in the `triton` package; an error instead of a version."""

    name: str
    version: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU that torch sees."""

    name: str
    capability: tuple[int, int]
    sms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """The torch that is imported; `cuda` is the version it is built for, None without.

    Attributes:
        error: why it cannot be imported, or why it cannot look for GPUs; empty if it can.
    """

    version: str | None
    cuda: str | None = None
    gpus: tuple[Gpu, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that is judged.

    Attributes:
        requirements: None if jfagen itself is not installed as a distribution.
        readings: the GPUs that the driver's `nvidia-smi` shows.
        kernels: the generated files that lie here.
    """

    python: tuple[int, int, int]
    jfagen: str
    requirements: Sequence[Requirement] | None
    install: Install
    programs: Sequence[Program]
    torch: Torch
    readings: Sequence[Reading]
    kernels: Sequence[GeneratedKernel]
