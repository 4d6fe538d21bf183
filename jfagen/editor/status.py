"""One line on a whole schedule: what is proved so far, and what the kernel takes."""

from __future__ import annotations

from collections import Counter

from .session import Session


def status_line(session: Session) -> str:
    """Return what is known of the session's text at this moment."""
    count = len(session.diagnostics)
    if count:
        return f"refused: {count} finding{'s' * (count > 1)}"
    compiled, schedule = session.compiled, session.document.reading.schedule
    if compiled is None or schedule is None:
        return "checked; proving"
    words = Counter(verdict.word for verdict in compiled.proof.verdicts.values())
    rules = ", ".join(f"{number} rule{'s' * (number > 1)} {word}" for word, number in words.items())
    resources, target = compiled.resources, compiled.program.target
    figures = [f"SMEM {resources.smem_bytes:,} of {target.smem_bytes:,} bytes"]
    if target.tmem_columns:
        figures.append(f"TMEM {resources.tmem_columns} of {target.tmem_columns} columns")
    figures.append(f"{resources.barriers} barriers")
    kernels = compiled.instance.kernels
    if kernels > 1:
        figures.append(f"{len(session.kernels)} of {kernels} kernels")
    return " | ".join([rules, *figures])
