"""One page on a compiled schedule: who does what in which order, where it lies, what orders it."""

from __future__ import annotations

from .page import page
from .pictures import Picture, pictures

__all__ = ["Picture", "page", "pictures"]
