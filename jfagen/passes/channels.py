"""Channels: the barriers of a kernel, who arrives on them, who waits, and how they are counted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..algorithm import Space
from ..planning import Site


class ChannelKind(StrEnum):
    """What a completed phase of a channel means.

    `full`: the data of this use is there. `empty`: the slot of an earlier use is free.
    `after`: the ops in its name are through with memory that the waiter touches next.
    """

    FULL = "full"
    EMPTY = "empty"
    AFTER = "after"


class Arrival(StrEnum):
    """How the arrivals of one phase are made.

    `bytes`: the issuer of a TMA load expects its bytes. `commit`: the tensor core arrives.
    `threads`: every thread of the signalling roles arrives. `roles`: one thread of each role does.
    """

    BYTES = "bytes"
    COMMIT = "commit"
    THREADS = "threads"
    ROLES = "roles"


class When(StrEnum):
    """Which steps of a per-step op take part in a channel."""

    EVERY = "every step"
    FIRST = "first step"
    LAST = "last step"


@dataclass(frozen=True, slots=True)
class End:
    """One place that signals or waits.

    Attributes:
        site: for channels over groups, the site of the first group that takes part.
        position: which of the uses that one step makes; 0 unless a ring holds several values.
        when: which steps take part.
    """

    site: Site
    position: int
    when: When


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One array of mbarriers.

    The n-th signal (counted since the kernel began, over all tiles with steps) completes phase
    `n // slots` of slot `n % slots`; the n-th wait waits for signal `n - lag`.

    Attributes:
        name: of the array in the kernel.
        kind: what a completed phase means.
        per: whether it counts tiles or steps.
        rate: counts per step; more than 1 where several values take turns in a ring.
        buffers: what it guards, in order of declaration.
        groups: the groups that have a barrier of their own; empty if it has no groups.
        slices: barriers per slot, one for each slice.
        slots: depth.
        lag: 0, or how many signals the waiter is ahead; then it equals `slots`.
        signals: who completes a phase.
        waits: who waits.
        arrival: how the arrivals are made.
        arrivals: signalling roles per phase.
        warps: warps of a signalling role, for `threads`.
        bytes: what the TMA loads bring, for each of the buffers; empty without loads.
        reasons: the dependences that it carries, in words.
    """

    name: str
    kind: ChannelKind
    per: Space
    rate: int
    buffers: tuple[str, ...]
    groups: tuple[int, ...]
    slices: int
    slots: int
    lag: int
    signals: tuple[End, ...]
    waits: tuple[End, ...]
    arrival: Arrival
    arrivals: int
    warps: int
    bytes: tuple[int, ...]
    reasons: tuple[str, ...]

    @property
    def barriers(self) -> int:
        """Number of mbarriers in the array."""
        return max(1, len(self.groups)) * self.slots * self.slices

    def sites(self, end: End) -> tuple[Site, ...]:
        """Return the sites of one end, one for every group that takes part."""
        site = end.site
        if not self.groups:
            return (site,)
        return tuple(Site(site.op, group, site.point, site.slice) for group in self.groups)


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """All synchronisation of a kernel.

    Attributes:
        channels: in the order in which the kernel allocates them.
        fences: sites whose stores to SMEM the async proxy reads: fenced before they are handed on.
        rendezvous: sites before which all warps of their role meet.
    """

    channels: tuple[Channel, ...]
    fences: tuple[Site, ...] = ()
    rendezvous: tuple[Site, ...] = ()

    @property
    def barriers(self) -> int:
        """Number of mbarriers in all channels."""
        return sum(channel.barriers for channel in self.channels)
