"""Find the compiler and NVIDIA's programs inside the installed `triton` package, unimported."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .records import Arch, Finding, ToolchainMissing, Versions

INSTALL_ORDER = "`pip install torch==2.13.0` first, then `pip install fbtriton==3.7.4`"
_BINARIES = Path("backends") / "nvidia" / "bin"
_PTXAS = {Arch.SM_90A: "ptxas", Arch.SM_100A: "ptxas-blackwell"}
_DISTRIBUTIONS = ("fbtriton", "triton")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """An installed `triton` package that has TLX and the programs that read its cubins."""

    package: Path

    def program(self, name: str) -> Path:
        """Return the path of one of NVIDIA's programs, `nvdisasm` for one."""
        path = self.package / _BINARIES / name
        if not path.is_file():
            raise ToolchainMissing(
                Finding(
                    id="program-missing",
                    message=f"the installed `triton` package has no `{name}`",
                    notes=(f"looked for {path}",),
                    help=f"install again, in this order: {INSTALL_ORDER}",
                )
            )
        return path

    def versions(self, arch: Arch) -> Versions:
        """Return the versions of the package and of the ptxas that `arch` uses."""
        name, version = _distribution()
        text = _run(self.program(_PTXAS[arch]), "--version")
        found = re.search(r"\bV(\d+\.\d+\.\d+)", text)
        return Versions(
            distribution=name, triton=version, ptxas=found.group(1) if found else "unknown"
        )

    def disassemble(self, cubin: Path) -> str:
        """Return the cubin's machine code as text, with the source lines inlined code came by."""
        return _run(self.program("nvdisasm"), "-c", "-gi", str(cubin))


def find_toolchain(package: Path | None = None) -> Toolchain:
    """Return the toolchain in `package`, or in the `triton` that this Python would import."""
    if importlib.util.find_spec("torch") is None:
        raise _missing("there is no `torch` package, which emitted files import")
    package = package or _triton_package()
    if package is None:
        raise _missing("there is no `triton` package to compile with")
    if not (package / "language" / "extra" / "tlx" / "__init__.py").is_file():
        raise _missing(f"the `triton` package in {package} has no TLX: it is not `fbtriton`")
    return Toolchain(package=package)


def _missing(message: str) -> ToolchainMissing:
    return ToolchainMissing(
        Finding(
            id="toolchain-missing",
            message=message,
            help=f"in this order, since the last one installed wins: {INSTALL_ORDER}",
        )
    )


def _triton_package() -> Path | None:
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def _distribution() -> tuple[str, str]:
    for name in _DISTRIBUTIONS:
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "triton", "unknown"


def _run(program: Path, *arguments: str) -> str:
    result = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    return result.stdout
