"""The rules on the text of a kernel, one file each."""

from __future__ import annotations

from types import ModuleType

from . import fence, intra_role, live, parity, race, tiles

#: Rules on the order that the text gives its actions; `live` first, the others stand on it.
ORDER_RULES: tuple[ModuleType, ...] = (live, parity, race, intra_role, fence)
#: Rules that only the text can show: the plan has no fences and no walk over tiles.
TEXT_ONLY: tuple[ModuleType, ...] = (intra_role, fence, tiles)

__all__ = ["ORDER_RULES", "TEXT_ONLY", "live", "tiles"]
