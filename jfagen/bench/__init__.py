"""Measured times of attention on a GPU: ours and others', in one process and one run.

Importing this needs neither torch nor a GPU; what measures imports them late.
"""

from __future__ import annotations

from .records import Dtype, Measurement, Status
from .shapes import SHAPES, Direction, Mode, Shape, draw_lengths

__all__ = [
    "SHAPES",
    "Direction",
    "Dtype",
    "Measurement",
    "Mode",
    "Shape",
    "Status",
    "draw_lengths",
]
