"""Figures of a compiled kernel that a comparison shows, measured from its cubin."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..toolchain import Compiled


def measured_figures(compiled: Compiled) -> dict[str, int]:
    """Return figure -> value; every name says its unit.

    Loops of a role are told apart by their place in it; those of several copies count once.
    """
    figures = {
        "spills stored, bytes a thread": compiled.spills.store_bytes,
        "spills loaded, bytes a thread": compiled.spills.load_bytes,
        "SMEM as compiled, bytes": compiled.resources.smem_bytes,
        "TMEM as compiled, columns": compiled.resources.tmem_columns,
        "instructions": compiled.instructions,
    }
    seen: Counter[str] = Counter()
    for loop in sorted(compiled.loops, key=lambda loop: loop.address):
        if loop.role is None or not loop.innermost:
            continue
        seen[loop.role] += 1
        figures[f"{loop.role}, loop {seen[loop.role]}: instructions a lap"] = loop.instructions
    return figures
