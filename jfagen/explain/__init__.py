"""The plan in words: tables, what orders each dependence, certificates of overlaps, rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .dependences import dependence_topic
from .figures import memory_figures
from .overlaps import overlap_topic, overlaps_topic
from .rules import rule_ids, rule_page
from .tables import barrier_topic, smem_topic, tmem_topic

if TYPE_CHECKING:
    from ..driver import Compiled

#: What `jfagen explain FILE WHAT` can show, by name.
TOPICS: dict[str, Callable[[Compiled], str]] = {
    "tmem": tmem_topic,
    "smem": smem_topic,
    "barriers": barrier_topic,
    "dependences": dependence_topic,
    "overlaps": overlaps_topic,
}

__all__ = ["TOPICS", "memory_figures", "overlap_topic", "rule_ids", "rule_page"]
