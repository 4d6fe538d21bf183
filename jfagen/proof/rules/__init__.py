"""One file per rule: an id, what it proves, and a check that returns what it refuses."""

from __future__ import annotations

from types import ModuleType

from . import capacity, complete, live, parity, race

#: The rules that are checked, in the order in which their findings are most useful.
RULES: tuple[ModuleType, ...] = (complete, capacity, live, parity, race)
