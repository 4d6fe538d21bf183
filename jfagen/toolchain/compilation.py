"""Take an emitted text to a cubin and measure it."""

from __future__ import annotations

import hashlib
import tempfile
import time
from pathlib import Path

from . import checks, ptx
from .emitted import Emitted, read_emitted
from .figures import count
from .process import Built, build
from .records import Arch, Compiled, CompileFailed, Finding, Resources
from .roles import measure
from .sass import parse_listing
from .tools import Toolchain, find_toolchain

TIMEOUT_SECONDS = 300.0


def compile_text(
    text: str,
    *,
    arch: Arch | str | None = None,
    name: str = "kernel",
    timeout_seconds: float = TIMEOUT_SECONDS,
    toolchain: Toolchain | None = None,
) -> Compiled:
    """Compile an emitted text and measure it; limits it breaks are in `findings`.

    Args:
        text: the emitted Python file.
        arch: the architecture; the text's own `TARGET` when left out.
        name: the file's name without its ending, as the line information will call it.
        timeout_seconds: how long the compiler may take.
        toolchain: the installation to use; the one this Python imports when left out.

    Raises:
        ToolchainMissing: there is no compiler with TLX.
        CompileFailed: the compiler refused the text, died on it or took too long.
    """
    emitted = read_emitted(text)
    chosen = _arch(emitted, arch)
    toolchain = toolchain or find_toolchain()
    versions = toolchain.versions(chosen)
    file_name = f"{name}.py"
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jfagen-") as folder:
        Path(folder, file_name).write_text(text, encoding="utf-8")
        try:
            built = build(Path(folder), file_name, emitted.kernel, chosen, timeout_seconds)
        except CompileFailed as failure:
            raise checks.explained(failure, emitted) from None
        seconds = time.monotonic() - begin
        cubin, sass = built.cubin.read_bytes(), toolchain.disassemble(built.cubin)
    listing = parse_listing(sass, emitted.kernel, file_name)
    log = ptx.read_log(built.ptxas_log, emitted.kernel)
    resources = _resources(built, log.registers)
    roles, loops = measure(listing, emitted)
    return Compiled(
        kernel=emitted.kernel,
        arch=chosen,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        versions=versions,
        seconds=round(seconds, 2),
        budget=emitted.budget,
        resources=resources,
        spills=log.spills,
        instructions=count(listing.instructions).total(),
        roles=roles,
        loops=loops,
        warnings=log.warnings,
        findings=_findings(chosen, emitted, resources, built),
        ptx=built.ptx,
        cubin=cubin,
        sass=sass,
    )


def _arch(emitted: Emitted, asked: Arch | str | None) -> Arch:
    if asked is None and emitted.target is None:
        raise CompileFailed(
            Finding(
                id="no-target",
                message="the file does not define `TARGET`",
                help="say which with `--arch`",
            )
        )
    chosen = Arch(asked) if asked is not None else emitted.target
    if emitted.target is not None and chosen is not emitted.target:
        raise CompileFailed(
            Finding(
                id="other-target",
                message=f"the kernel was emitted for `{emitted.target}`, not for `{chosen}`",
                help="name the other target in the schedule and build it again",
            )
        )
    assert chosen is not None
    return chosen


def _findings(
    arch: Arch, emitted: Emitted, resources: Resources, built: Built
) -> tuple[Finding, ...]:
    launch = ptx.launch_registers(built.ptx)
    log = built.ptxas_log
    return checks.findings(arch, emitted.budget, resources, launch, emitted.roles, log)


def _resources(built: Built, registers: int) -> Resources:
    return Resources(
        smem_bytes=built.smem_bytes,
        tmem_columns=built.tmem_columns,
        threads=ptx.threads(built.ptx),
        cluster=built.cluster,
        registers_per_thread=registers,
        setmaxnreg=ptx.setmaxnreg_values(built.ptx),
    )
