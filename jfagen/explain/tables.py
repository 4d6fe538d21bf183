"""The memory maps and the barrier table as topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..emit import barrier_table, memory_map
from ..types import Storage

if TYPE_CHECKING:
    from ..driver import Compiled


def titled(title: str, lines: list[str]) -> str:
    """Return a topic: its title, its lines moved in."""
    return "\n".join([title, *(f"  {line}" if line else "" for line in lines)])


def tmem_topic(compiled: Compiled) -> str:
    """Return which columns every buffer takes."""
    placement = compiled.placement
    title = f"tensor memory: {placement.columns} columns used, {placement.allocated} allocated"
    return titled(title, memory_map(compiled.program, placement, Storage.TMEM))


def smem_topic(compiled: Compiled) -> str:
    """Return which bytes every buffer takes, counted from the first buffer."""
    placement = compiled.placement
    title = f"shared memory: {placement.smem_bytes:,} bytes of buffers, in order of declaration"
    return titled(title, memory_map(compiled.program, placement, Storage.SMEM))


def barrier_topic(compiled: Compiled) -> str:
    """Return the barrier table with the dependences that each channel carries."""
    lines = barrier_table(compiled.plan, compiled.sync)
    lines += ["", "each carries the dependences that nothing else orders:"]
    for channel in compiled.sync.channels:
        lines.append(f"  {channel.name}: {'; '.join(channel.reasons)}")
    return titled(f"barriers: {compiled.sync.barriers}, none redundant", lines)
