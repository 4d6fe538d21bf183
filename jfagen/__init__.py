"""jfagen: a compiler from schedules to TLX kernels for jagged flash attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .runtime import Plan, attention, plan

__all__ = ["Plan", "__version__", "attention", "plan"]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import what needs torch when it is asked for: the compiler needs neither torch nor a GPU."""
    if name in ("Plan", "attention", "plan"):
        from . import runtime

        return getattr(runtime, name)
    raise AttributeError(f"module `jfagen` has no attribute `{name}`")
