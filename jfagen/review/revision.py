"""A schedule as it was at a revision of git."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ..diagnostics import SourceFile

_TIMEOUT_SECONDS = 30


class NoSuchRevision(Exception):
    """Git has no such file at that revision, or there is no git; `message` says which."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def source_at(path: Path, revision: str, shown: str) -> SourceFile:
    """Return a file as it was.

    Args:
        path: of the file today, or of a link to it; the file may be gone.
        revision: whatever `git rev-parse` takes.
        shown: how messages name it.

    Raises:
        NoSuchRevision: there is none to return.
    """
    if revision.startswith("-"):
        raise NoSuchRevision(f"`{revision}` is no revision")
    file = path.resolve()
    command = ["git", "-C", str(file.parent), "show", f"{revision}:./{file.name}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)
    except FileNotFoundError:
        raise NoSuchRevision(f"there is no git, or no folder `{path.parent}`") from None
    except subprocess.TimeoutExpired:
        raise NoSuchRevision(f"git did not answer in {_TIMEOUT_SECONDS} seconds") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["git failed"]
        raise NoSuchRevision(f"{said[0].removeprefix('fatal: ')}")
    return SourceFile.from_bytes(done.stdout, shown)
