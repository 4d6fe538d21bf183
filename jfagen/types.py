"""The closed sets that the whole compiler shares: element types and memories."""

from __future__ import annotations

from enum import StrEnum


class DType(StrEnum):
    """An element type, spelled as in a schedule."""

    BF16 = "bf16"
    FP16 = "fp16"
    F32 = "f32"

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return 4 if self is DType.F32 else 2


class Storage(StrEnum):
    """Where a buffer lives."""

    SMEM = "smem"
    TMEM = "tmem"
    REG = "reg"
