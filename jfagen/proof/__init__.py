"""Proof: the rules, and the order that they look at."""

from __future__ import annotations

from .prove import Proof, Verdict, prove, verdict
from .resources import Resources, count_resources
from .subject import Subject, make_subject

__all__ = [
    "Proof",
    "Resources",
    "Subject",
    "Verdict",
    "count_resources",
    "make_subject",
    "prove",
    "verdict",
]
