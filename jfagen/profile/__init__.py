"""Where a kernel's time goes: counters of Nsight Compute, each with the part of the schedule meant.

Importing this needs neither torch nor a GPU; what runs on one is a process of its own.
"""

from __future__ import annotations

from .records import Access, Report, Request
from .report import as_json
from .session import profile

__all__ = ["Access", "Report", "Request", "as_json", "profile"]
