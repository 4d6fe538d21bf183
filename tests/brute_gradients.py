"""What the actions of a backward's text touch, and which values they should find there.

As `brute_meaning.Meaning` for the forward: written down here, shared with nothing. A value is known
by its name and by the step or the tile that it is of, counted over all tiles with steps.
"""

from __future__ import annotations

from collections import defaultdict

from jfagen.readback.trace import Trace

#: Accumulator of a matmul -> its operands in order; what is in brackets is new once a tile.
OPERANDS = {
    "st": (("k",), "q"),
    "dpt": (("v",), "do"),
    "dv": ("pt", "do"),
    "dk": ("dst", "q"),
    "dq": ("ds", ("k",)),
}
SUMS = ("dk", "dv")
NOTHING = None


class GradientMeaning:
    """Says which value every access of a trace finds or leaves, from the sequential program."""

    def __init__(self, trace: Trace) -> None:
        self.counts: dict[object, int] = defaultdict(int)
        self.tile_of: list[int] = []
        self.last: list[int] = []
        for steps in trace.trips:
            if steps:
                self.tile_of += [len(self.last)] * steps
                self.last.append(len(self.tile_of) - 1)

    def next(self, *key) -> int:
        """Return how often this was asked for."""
        self.counts[key] += 1
        return self.counts[key] - 1

    def load(self, action) -> object:
        """Return the value that a load brings."""
        name = action.tensor.removesuffix("_desc")
        return (name, self.next("load", name))

    def mma(self, action) -> tuple[list[object], object, object]:
        """Return what the operands are, what the accumulator holds before, and afterwards."""
        name = _name(action.writes[0])
        step = self.next("mma", name)
        tile = self.tile_of[step] if step < len(self.tile_of) else -1
        operands = [
            (one[0], tile) if isinstance(one, tuple) else (one, step) for one in OPERANDS[name]
        ]
        first = step == 0 or self.tile_of[step - 1 : step] != [tile]
        before = (name, step - 1) if name in SUMS and not first else NOTHING
        if action.accumulates is (before is NOTHING):
            before = ("never",)
        return operands, before, (name, step)

    def read(self, action, following) -> object:
        """Return what the warps must find."""
        region = action.reads[0]
        name = _name(region)
        number = self.next("read", name, region.start)
        if name in SUMS:
            return (name, self.last[number] if number < len(self.last) else -9)
        return (name, number)

    def write(self, action) -> object:
        """Return what the warps leave; the parts of a result are one value."""
        region = action.writes[0]
        name = _name(region)
        if name.endswith("_out"):
            return (name, self.counts["read", name.removesuffix("_out"), 0] - 1)
        return (name, self.next("write", name))

    def stored(self, action) -> object:
        """Return what a store to global memory must find."""
        name = _name(action.reads[0])
        return (name, self.next("store", name))


def _name(region) -> str:
    return region.array.removesuffix("_tiles")
