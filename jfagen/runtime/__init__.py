"""What model engineers call: attention over jagged sequences, and plans that layers share."""

from __future__ import annotations

from .attention import attention
from .plan import Plan, plan

__all__ = ["Plan", "attention", "plan"]
