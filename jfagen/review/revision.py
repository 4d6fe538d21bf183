"""A schedule as it was at a revision of git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ..diagnostics import SourceFile

_TIMEOUT_SECONDS = 30
_OF_A_HOOK = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


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
    folder = next(parent for parent in file.parents if parent.is_dir())
    name = file.relative_to(folder).as_posix()
    command = ["git", "-C", str(folder), "show", f"{revision}:./{name}"]
    # In a hook they say which repository it is, and `./` then means its root.
    environment = {key: value for key, value in os.environ.items() if key not in _OF_A_HOOK}
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False, env=environment
        )
    except FileNotFoundError:
        raise NoSuchRevision("there is no git") from None
    except subprocess.TimeoutExpired:
        raise NoSuchRevision(f"git did not answer in {_TIMEOUT_SECONDS} seconds") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["git failed"]
        raise NoSuchRevision(f"{said[0].removeprefix('fatal: ')}")
    return SourceFile.from_bytes(done.stdout, shown)
