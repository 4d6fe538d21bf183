"""The real compiler: an emitted text to PTX and cubin without a GPU, and what the cubin holds.

Importing this needs neither torch nor triton; `compile_text` runs them in a process of its own.
"""

from __future__ import annotations

from .compilation import compile_text
from .records import Arch, Compiled, CompileFailed, Finding, ToolchainMissing
from .tools import find_toolchain

__all__ = [
    "Arch",
    "CompileFailed",
    "Compiled",
    "Finding",
    "ToolchainMissing",
    "compile_text",
    "find_toolchain",
]
