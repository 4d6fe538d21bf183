"""Look at this install: distributions and their files, programs, torch, GPUs, kernels."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import __version__
from ..kernels import generated_kernels
from ..nvidia_smi import read_gpus
from .facts import Facts, Gpu, Install, Program, Requirement, Torch
from .probe import MARK

#: Where the `triton` package keeps NVIDIA's programs.
_BINARIES = Path("backends") / "nvidia" / "bin"
#: For Hopper, for Blackwell, and two that read what they made.
PROGRAMS = ("ptxas", "ptxas-blackwell", "cuobjdump", "nvdisasm")
_PROBE_SECONDS = 120.0
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[[^]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")


def gather() -> Facts:
    """Return the facts of the Python that runs this."""
    probed = probe()
    return Facts(
        python=sys.version_info[:3],
        jfagen=__version__,
        requirements=requirements(),
        install=install(tlx_error=str(probed["tlx_error"])),
        programs=[program(name) for name in PROGRAMS],
        torch=torch_facts(probed["torch"]),
        readings=read_gpus(),
        kernels=generated_kernels(),
    )


def probe() -> dict[str, Any]:
    """Return what another process says of torch and TLX; its end is their error."""
    call = [sys.executable, "-m", f"{__package__}.probe"]
    try:
        done = subprocess.run(call, capture_output=True, text=True, timeout=_PROBE_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        return _broken(f"the probe did not end: {type(error).__name__}")
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return found
    return _broken(f"the import ended the process with {done.returncode}")


def _broken(reason: str) -> dict[str, Any]:
    return {"torch": {"version": None, "error": reason}, "tlx_error": reason}


def torch_facts(found: dict[str, Any]) -> Torch:
    """Return what the probe said of torch."""
    gpus = tuple(
        Gpu(name=name, capability=(major, minor), sms=sms)
        for name, major, minor, sms in found.get("gpus", [])
    )
    return Torch(
        version=found["version"],
        cuda=found.get("cuda"),
        gpus=gpus,
        error=found.get("error", ""),
    )


def requirements(name: str = "jfagen") -> list[Requirement] | None:
    """Return what a distribution requires without its extras; None if it is not installed."""
    try:
        declared = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = []
    for text in declared:
        match = _REQUIREMENT.fullmatch(text.strip())
        if match is None or "extra" in (match[3] or ""):
            continue
        bounds = [bound.strip() for bound in match[2].split(",")]
        found.append(
            Requirement(
                name=match[1],
                floor=next((b[2:].strip() for b in bounds if b.startswith(">=")), ""),
                below=next((b[1:].strip() for b in bounds if re.match("<[^=]", b)), ""),
                installed=_version(match[1]),
            )
        )
    return found


def install(tlx_error: str) -> Install:
    """Return what both distributions of `triton` are, and which files of fbtriton are its own."""
    ours, theirs = _files("fbtriton"), _files("triton")
    shared = {str(file) for file in ours} & {str(file) for file in theirs}
    gone, overwritten = compare_files(file for file in ours if file.parts[0] == "triton")
    return Install(
        fbtriton=_version("fbtriton"),
        triton=_version("triton"),
        shared=len(shared),
        overwritten=overwritten,
        gone=gone,
        tlx_error=tlx_error,
    )


def compare_files(
    files: Iterable[importlib.metadata.PackagePath],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the recorded files that are gone, and those that are not what was recorded.

    Sizes of all files are compared, digests of Python files only, which are small.
    """
    gone, overwritten = [], []
    for file in files:
        path = Path(str(file.locate()))
        if not path.is_file():
            gone.append(str(file))
        elif file.hash is None:
            continue
        elif file.size not in (None, path.stat().st_size) or not _digest_fits(file, path):
            overwritten.append(str(file))
    return tuple(gone), tuple(overwritten)


def _digest_fits(file: importlib.metadata.PackagePath, path: Path) -> bool:
    if path.suffix != ".py" or file.hash is None or file.hash.mode != "sha256":
        return True
    digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest())
    return digest.decode().rstrip("=") == file.hash.value


def program(name: str) -> Program:
    """Return the version of one of the programs in the `triton` package, or what is wrong."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return Program(name=name, error="there is no `triton` package")
    path = Path(spec.origin).parent / _BINARIES / name
    if not path.is_file():
        return Program(name=name, error=f"there is no {path}")
    try:
        done = subprocess.run(
            [str(path), "--version"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Program(name=name, error=f"{path} does not run: {type(error).__name__}")
    found = re.search(r"\bV(\d+\.\d+\.\d+)", done.stdout)
    return Program(name=name, version=found[1] if found else "unknown")


def _files(name: str) -> list[importlib.metadata.PackagePath]:
    try:
        return list(importlib.metadata.files(name) or [])
    except importlib.metadata.PackageNotFoundError:
        return []


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
