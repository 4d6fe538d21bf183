"""Write what a compile made, all files or none."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .records import Compiled
from .report import as_json


def write_artefacts(compiled: Compiled, folder: Path, name: str) -> tuple[Path, ...]:
    """Write NAME.ptx, NAME.cubin, NAME.sass and NAME.json and return their paths.

    The files are complete before the first of them gets its name.
    """
    contents = {
        f"{name}.ptx": compiled.ptx.encode(),
        f"{name}.cubin": compiled.cubin,
        f"{name}.sass": compiled.sass.encode(),
        f"{name}.json": (as_json(compiled) + "\n").encode(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".jfagen-", dir=folder) as hidden:
        for file_name, content in contents.items():
            Path(hidden, file_name).write_bytes(content)
        for file_name in contents:
            Path(hidden, file_name).replace(folder / file_name)
    return tuple(folder / file_name for file_name in contents)
