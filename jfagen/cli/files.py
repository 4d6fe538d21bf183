"""Generated files: where they go, what is there, and writing all of them or none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ..emit import text_digest, written_digest

#: Of a new file: everybody may read it.
_MODE = 0o644


class State(StrEnum):
    """What lies at the place of a generated file."""

    MISSING = "missing"
    CURRENT = "current"
    STALE = "stale"
    EDITED = "edited by hand"
    FOREIGN = "not a generated file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One file to be written.

    Attributes:
        path: where it goes.
        text: what it holds.
    """

    path: Path
    text: str

    @property
    def state(self) -> State:
        """Return what lies there now."""
        if not self.path.exists():
            return State.MISSING
        old = self.path.read_text(encoding="utf-8", errors="replace")
        if old == self.text:
            return State.CURRENT
        claimed = written_digest(old)
        if claimed is None:
            return State.FOREIGN
        return State.STALE if claimed == text_digest(old) else State.EDITED


def output_path(schedule: str, directory: Path, suffix: str = "") -> Path:
    """Return where the kernel of a schedule goes; folders below `schedules/` are kept.

    Args:
        schedule: its path.
        directory: where kernels go.
        suffix: of the instance; empty for the first one.
    """
    relative = Path(schedule)
    if relative.parts[0] == "schedules":
        relative = relative.relative_to("schedules")
    return directory / relative.with_name(f"{relative.stem}{suffix}.py")


def unwritable(path: Path) -> str | None:
    """Return why a file cannot be written there, None if nothing speaks against it."""
    if path.is_dir():
        return "it is a folder"
    if path.exists() and not path.is_file():
        return "it is no regular file"
    return None if path.resolve().parent.is_dir() else "its folder does not exist"


def write_all(outputs: list[Output]) -> list[Output]:
    """Write every file that differs; none is replaced before all are on the disk."""
    changed = [output for output in outputs if output.state is not State.CURRENT]
    replace_all((output.path, output.text.encode()) for output in changed)
    return changed


def replace_all(contents: Iterable[tuple[Path, bytes]]) -> None:
    """Write files, their folders too; none is replaced before all are on the disk.

    A file that is there keeps its mode.
    """
    pending: list[tuple[Path, Path]] = []
    try:
        for given, content in contents:
            path = given.resolve()  # a link stays one
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            pending.append((Path(name), path))
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(name).chmod(path.stat().st_mode if path.exists() else _MODE)
        for temporary, path in pending:
            temporary.replace(path)
    finally:
        for temporary, _ in pending:
            temporary.unlink(missing_ok=True)
