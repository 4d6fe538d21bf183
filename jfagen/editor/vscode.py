"""The VS Code extension: where the package keeps it, and writing it where an editor looks."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

#: The extension's name, by which a folder is known to hold it.
NAME = "jfagen-schedules"


def vscode_folder() -> Path:
    """Return the folder of the extension in the package."""
    return Path(__file__).parent / "vscode"


def vscode_files() -> list[Path]:
    """Return the files of the extension relative to its folder, without what npm put there."""
    folder = vscode_folder()
    names = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in names if "node_modules" not in name.parts)


def write_vscode(folder: Path) -> list[Path]:
    """Write the extension there and return its files; none is replaced before all are on the disk.

    An older version is replaced file by file, so that what npm installed beside it stays.

    Args:
        folder: to be made, or one that holds the extension.

    Raises:
        FileExistsError: something else lies there.
        FileNotFoundError: the folder above does not exist.
    """
    if (folder.exists() or folder.is_symlink()) and not _is_extension(folder):
        raise FileExistsError(f"`{folder}` exists and does not hold the extension `{NAME}`")
    above = folder.resolve().parent
    if not above.is_dir():
        raise FileNotFoundError(f"`{above}` is no folder")
    with tempfile.TemporaryDirectory(dir=above, prefix=f".{folder.name}.") as temporary:
        staged = Path(temporary) / NAME
        for name in vscode_files():
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(vscode_folder() / name, staged / name)
        if not folder.exists():
            staged.rename(folder)
        else:
            _move_files(staged, folder)
    return [folder / name for name in vscode_files()]


def _is_extension(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("name") == NAME


def _move_files(staged: Path, folder: Path) -> None:
    for name in vscode_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    for name in vscode_files():
        (staged / name).replace(folder / name)
