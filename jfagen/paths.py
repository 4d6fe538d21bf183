"""Where templates, schedules and generated kernels lie: in a checkout, or inside a wheel."""

from __future__ import annotations

from pathlib import Path


def data_dir(name: str) -> Path:
    """Return the folder `templates`, `schedules` or `generated`."""
    packaged = Path(__file__).parent / "_data" / name
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / name
