"""Read a kernel's text back: its trace, the round trip to the plan, rules on the text itself."""

from __future__ import annotations

from .finding import Finding
from .recorder import ReadbackError
from .verify import TEXT_RULES, prove_text, verify_text

__all__ = [
    "TEXT_RULES",
    "Finding",
    "ReadbackError",
    "prove_text",
    "verify_text",
]
