"""Where a picture and its numbers go: refused before anything is computed, written both or none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..balance.wrong import WrongInput

STANDARD_OUTPUT = Path("-")


def check_places(outputs: Mapping[str, Path | None], source: str | None) -> None:
    """Refuse what cannot be written.

    Args:
        outputs: the path that each option names; `--json -` is standard output.
        source: the file that lengths are read from, which stays as it is.

    Raises:
        WrongInput: a path is no place for a file, or is named twice.
    """
    seen = {Path(source).resolve(): "--lengths"} if source and Path(source).is_file() else {}
    for option, path in outputs.items():
        if path is None or (option == "--json" and path == STANDARD_OUTPUT):
            continue
        place = f"{option} `{path}`"
        if path.exists() and not path.is_file():
            what = "a folder" if path.is_dir() else "no plain file"
            raise WrongInput(place, f"is {what}", "name a file that may be replaced")
        if not path.parent.is_dir():
            raise WrongInput(
                place, f"there is no folder `{path.parent}`", "make it first, or name another"
            )
        other = seen.setdefault(path.resolve(), option)
        if other != option:
            raise WrongInput(place, f"is the file of {other} too", "name another file")


def write_all(files: Mapping[str, tuple[Path, bytes]]) -> None:
    """Write every option's file; none is replaced before all are on the disk.

    Raises:
        WrongInput: one cannot be written; then none is.
    """
    pending: list[tuple[Path, Path]] = []
    try:
        for option, (path, data) in files.items():
            target = path.resolve()
            try:
                handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:32]}.")
                pending.append((Path(name), target))
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                Path(name).chmod(0o644)
            except OSError as error:
                raise _unwritable(option, path, error) from None
        for (temporary, target), (option, (path, _)) in zip(pending, files.items(), strict=True):
            try:
                temporary.replace(target)
            except OSError as error:
                raise _unwritable(option, path, error) from None
    finally:
        for temporary, _ in pending:
            temporary.unlink(missing_ok=True)


def _unwritable(option: str, path: Path, error: OSError) -> WrongInput:
    reason = (error.strerror or str(error)).lower()
    return WrongInput(f"{option} `{path}`", reason, "name a file in a folder you may write to")
