"""What the device finds wrong with offsets: a word of the host's memory, which outlives a trap.

What a kernel prints is lost where another call learns of its trap before a synchronisation does.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
from collections.abc import Iterator
from functools import cache

import torch

#: How a kernel says whose offsets are wrong, above the bits of the sequence.
KV_OFFSETS, Q_OFFSETS = 1, 2
NAMES = {KV_OFFSETS: "kv_offsets", Q_OFFSETS: "q_offsets"}
SEQUENCE_BITS = 32


@cache
def word() -> torch.Tensor:
    """Return what a kernel writes before it traps, int64 [1]: 0, or whose offsets and where.

    It is pinned where there is a GPU, so that the GPU reaches it.
    """
    atexit.register(_tell)
    return torch.zeros(1, dtype=torch.int64, pin_memory=torch.cuda.is_available())


def complaint() -> str:
    """Return what was found wrong, in words; empty if nothing was."""
    found = int(word()) if word.cache_info().currsize else 0
    name = NAMES.get(found >> SEQUENCE_BITS, "")
    return f"{name} are wrong at sequence {found & (1 << SEQUENCE_BITS) - 1}" if name else ""


@contextlib.contextmanager
def device_errors() -> Iterator[None]:
    """Say which offsets were wrong where a call inside learns that the device has trapped.

    Raises:
        RuntimeError: what the call raised, or which sequence was wrong.
    """
    try:
        yield
    except RuntimeError as error:
        with contextlib.suppress(RuntimeError):
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
        if said := complaint():
            atexit.unregister(_tell)
            raise RuntimeError(said) from error
        raise


def _tell() -> None:
    """Say it when the process ends: whoever learned of the trap did not know why."""
    if said := complaint():
        print(f"jfagen: {said}", file=sys.stderr)
