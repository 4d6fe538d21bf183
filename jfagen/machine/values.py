"""The type of what kernel text hands to the machine."""

from __future__ import annotations

from typing import Any, TypeAlias

# A compile-time number or text, a runtime scalar, a tensor, a buffer: only the run can tell.
Value: TypeAlias = Any
