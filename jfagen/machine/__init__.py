"""The CPU machine: it executes the text of an emitted kernel and finds deadlocks and races."""

from __future__ import annotations

from .namespaces import TLX_CALLS
from .report import Access, Blocked, Deadlock, Fault, Kind, Outcome, Place, Race, Report
from .scheduler import Policy, PolicyName, parse_policy
from .simulate import simulate

__all__ = [
    "TLX_CALLS",
    "Access",
    "Blocked",
    "Deadlock",
    "Fault",
    "Kind",
    "Outcome",
    "Place",
    "Policy",
    "PolicyName",
    "Race",
    "Report",
    "parse_policy",
    "simulate",
]
