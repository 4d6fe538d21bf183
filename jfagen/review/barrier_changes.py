"""What changed in barriers, in the words of the barrier table."""

from __future__ import annotations

from collections.abc import Iterator

from .changes import Change, Part
from .facts import ChannelFact, Facts
from .pairing import Pairing


def barrier_changes(before: Facts, after: Facts, pairing: Pairing) -> Iterator[Change]:
    """Yield barriers that are new, gone or different."""
    old = list(before.channels)
    for channel in after.channels:
        was = _same(channel, old, pairing)
        if was is None:
            words = f"is new: {_words(channel)}"
            yield Change(part=Part.BARRIERS, name=channel.name, words=words)
            continue
        old.remove(was)
        yield from _differences(was, channel, pairing)
    for channel in old:
        words = f"is gone: {_words(channel)}"
        yield Change(part=Part.BARRIERS, name=channel.name, words=words)


def _same(channel: ChannelFact, old: list[ChannelFact], pairing: Pairing) -> ChannelFact | None:
    """Return what a barrier was before: by what it is, else by its name."""
    alike = [one for one in old if one.key == channel.key]
    named = [one for one in old if pairing.translate(one.name) == channel.name]
    return next(iter([*alike, *named]), None)


def _words(channel: ChannelFact) -> str:
    barriers = f"{channel.number} barrier{'s' * (channel.number != '1')}"
    return f"{barriers}, {channel.phase} a phase; arrives {channel.arrives}; waits {channel.waits}"


def _differences(was: ChannelFact, channel: ChannelFact, pairing: Pairing) -> Iterator[Change]:
    if pairing.translate(was.name) != channel.name:
        words = f"was called `{was.name}`"
        yield Change(part=Part.BARRIERS, name=channel.name, words=words)
    for what, old, new in (
        ("barriers", was.number, channel.number),
        ("a phase", was.phase, channel.phase),
        ("arrives", was.arrives, channel.arrives),
        ("waits", was.waits, channel.waits),
    ):
        if (mine := pairing.roles_in(old)) != new:
            words = f"{what}: {mine} -> {new}"
            yield Change(part=Part.BARRIERS, name=channel.name, words=words)
