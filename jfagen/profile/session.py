"""One profile: look at the GPU, compile, read counters, and time calls where there are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..bench.statistics import spread
from ..toolchain import Arch, CompileFailed, Finding, ToolchainMissing, compile_text
from . import ncu as tool
from .compiled import compiled_block
from .counted import Launches, counted_blocks
from .jobs import Do, Job, JobFailed, ask
from .peaks import gpu_of
from .records import Access, Block, Gpu, Ncu, Report, Request, Timing
from .subjects import Subject, arch_of, archs_of, subjects_of

#: Told what is being done.
Say = Callable[[str], None]
_FIND_HELP = (
    "it comes with CUDA's toolkit and as NVIDIA Nsight Compute; put it on PATH, or name it "
    "with `--ncu`"
)
_PERMISSION_HELP = (
    "run as root, or let an administrator load the driver with "
    "NVreg_RestrictProfilingToAdminUsers=0 (https://developer.nvidia.com/ERR_NVGPUCTRPERM)"
)
_NO_GPU_HELP = "counters need a GPU that the kernels are for and a CUDA build of torch"


@dataclass(slots=True)
class _Found:
    """What is known so far."""

    blocks: list[Block] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    findings: list[tuple[str, Finding]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)


def profile(request: Request, say: Say) -> Report:
    """Return everything that can be known here; never raises for what is missing."""
    say("looking at the GPU")
    gpu, reason = _gpu(request)
    archs, ncu = _targets(request, gpu, reason)
    found = _Found()
    for arch in archs:
        subjects, missing = subjects_of(request.shapes, request.direction, request.dtype, arch)
        found.missing |= missing
        for subject in subjects:
            if gpu is not None and arch is arch_of(gpu.capability):
                ncu = _measure(request, subject, gpu, ncu, found, say)
            say(f"compiling {subject.name}")
            _compile(request, subject, found)
    return Report(
        request=request,
        gpu=gpu,
        ncu=ncu,
        blocks=tuple(found.blocks),
        timings=tuple(found.timings),
        missing=found.missing,
        findings=tuple(found.findings),
        failed=found.failed,
    )


def _gpu(request: Request) -> tuple[Gpu | None, str]:
    try:
        facts = ask(Job(do=Do.FACTS), timeout_seconds=request.timeout_seconds)
    except JobFailed as error:
        return None, f"the look at the GPU failed: {error}"
    return (None, facts["reason"]) if "reason" in facts else (gpu_of(facts), "")


def _targets(request: Request, gpu: Gpu | None, reason: str) -> tuple[tuple[Arch, ...], Ncu]:
    """Return what to compile for, and whether counters can be expected."""
    known = archs_of(request.direction)
    own = None if gpu is None else arch_of(gpu.capability)
    asked = known if request.arch is None else (request.arch,)
    if gpu is None:
        return asked, Ncu(access=Access.NO_GPU, reason=reason, help=_NO_GPU_HELP)
    major, minor = gpu.capability
    if own not in known:
        reason = f"there is no kernel of the {request.direction} for {gpu.name}, sm_{major}{minor}"
        return asked, Ncu(access=Access.NO_KERNEL, reason=reason, help=_NO_GPU_HELP)
    assert own is not None
    if request.arch not in (None, own):
        reason = f"{gpu.name} does not run {request.arch}"
        return asked, Ncu(access=Access.NO_KERNEL, reason=reason, help=f"leave out `--arch {own}`")
    path = tool.find_ncu(request.ncu)
    if path is None:
        reason = "Nsight Compute's `ncu` is neither on PATH nor in CUDA's usual places"
        return (own,), Ncu(access=Access.NOT_FOUND, reason=reason, help=_FIND_HELP)
    return (own,), Ncu(access=Access.READ, path=str(path), version=tool.version(path))


def _measure(
    request: Request, subject: Subject, gpu: Gpu, ncu: Ncu, found: _Found, say: Say
) -> Ncu:
    """Read counters of every shape, or time it; return what became of the counters."""
    launches: dict[str, Launches] = {}
    flops: dict[str, int] = {}
    for shape in subject.shapes:
        if ncu.access is Access.READ:
            say(f"{shape.name}: reading counters")
            job = _job(request, Do.CALL, shape.name)
            try:
                profiled = tool.count(
                    Path(ncu.path or ""),
                    job,
                    subject.launched,
                    timeout_seconds=request.timeout_seconds,
                )
            except JobFailed as error:
                found.failed[shape.name] = str(error)
                continue
            except (tool.NotPermitted, tool.NcuFailed) as error:
                ncu = _without(ncu, error)
            else:
                launches[shape.name] = {one.kernel: one for one in profiled.launches}
                flops[shape.name] = profiled.answer["flops"]
                found.unknown |= profiled.unknown
                continue
        say(f"{shape.name}: timing calls")
        _time(request, shape.name, found)
    found.blocks += counted_blocks(subject, launches, flops, gpu)
    return replace(ncu, unknown=tuple(sorted(found.unknown)))


def _job(request: Request, do: Do, name: str) -> Job:
    return Job(
        do=do,
        name=name,
        seed=request.seed,
        direction=request.direction,
        dtype=request.dtype,
    )


def _time(request: Request, name: str, found: _Found) -> None:
    try:
        said = ask(_job(request, Do.TIME, name), timeout_seconds=request.timeout_seconds)
    except JobFailed as error:
        found.failed[name] = str(error)
        return
    found.timings.append(_timing(name, said))


def _timing(name: str, said: dict[str, Any]) -> Timing:
    return Timing(
        shape=name,
        times=spread(said["laps_ms"]),
        flops=said["flops"],
        least_bytes=said["least_bytes"],
    )


def _without(ncu: Ncu, error: Exception) -> Ncu:
    """Return why there are no counters although `ncu` is here."""
    refused = isinstance(error, tool.NotPermitted)
    return replace(
        ncu,
        access=Access.NOT_PERMITTED if refused else Access.FAILED,
        reason=f"the driver keeps the counters from this user: {error}" if refused else str(error),
        help=_PERMISSION_HELP if refused else f"try `{ncu.path}` on another program",
    )


def _compile(request: Request, subject: Subject, found: _Found) -> None:
    name = subject.name.rsplit("/", 1)[-1]
    try:
        compiled = compile_text(subject.text, name=name, timeout_seconds=request.timeout_seconds)
    except (ToolchainMissing, CompileFailed) as error:
        found.findings.append((subject.name, error.finding))
        return
    found.findings += [(subject.name, finding) for finding in compiled.findings]
    found.blocks.append(compiled_block(subject, compiled))
