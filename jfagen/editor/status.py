"""One line on a whole schedule: what is proved so far, and what the kernel takes."""

from __future__ import annotations

from collections import Counter

from ..explain import memory_figures
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
    figures = [f"{name} {words}" for name, words in memory_figures(compiled).items()]
    figures.append(f"{compiled.resources.barriers} barriers")
    kernels = compiled.instance.kernels
    if kernels > 1:
        figures.append(f"{len(session.kernels)} of {kernels} kernels")
    return " | ".join([rules, *figures])
