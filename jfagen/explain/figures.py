"""What a kernel takes of the memories of a CTA."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..driver import Compiled


def memory_figures(compiled: Compiled) -> dict[str, str]:
    """Return memory -> what is taken of it, in words; TMEM only where a target has any."""
    resources, target = compiled.resources, compiled.program.target
    figures = {"SMEM": f"{resources.smem_bytes:,} of {target.smem_bytes:,} bytes"}
    if target.tmem_columns:
        figures["TMEM"] = f"{resources.tmem_columns} of {target.tmem_columns} columns"
    return figures
