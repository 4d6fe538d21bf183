"""What the actions of Hopper's backward touch, and which values they should find there.

As `brute_gradients.GradientMeaning`, for roles that keep a group of keys each and all results in
registers. The sequential program of a step is, for every group: st = k q, probs of it and lse,
dpt = v do, dscores of them and delta into ds, dv += p do, dk += ds q; and then dq = the sum over
all groups of their ds and k, which a group adds to global memory in its columns. A value is known
by its name, its group (0 if all groups share it) and its step or tile; an op by the arrays that it
names, counted in program order of its role. Not covered: which registers a matmul takes, which
columns of k, and dq's adds straight from registers: the round trip and the CPU machine see those.
"""

from __future__ import annotations

from collections import Counter

from jfagen.readback.trace import Trace

MATMULS = {
    ("k", "q"): "st",
    ("v", "do"): "dpt",
    ("do",): "dv",
    ("q",): "dk",
    ("ds", "k"): "dq",
}
KEYS = ("k", "v")
#: Gradient -> the tile that it is stored from.
SENT = {"dq": "stage", "dv": "dv_out", "dk": "dk_out"}
WRONG = ("never",)


class HopperGradientMeaning:
    """Says which value every access of one role finds or leaves, from the sequential program."""

    def __init__(self, trace: Trace, groups: int, group: int) -> None:
        self.groups, self.group = groups, group
        self.counts: Counter[tuple[str, ...]] = Counter()
        tiles = enumerate(steps for steps in trace.trips if steps)
        self.tile_of = [tile for tile, steps in tiles for _ in range(steps)]

    def next(self, *key: str) -> int:
        """Return how often this was asked for."""
        self.counts[key] += 1
        return self.counts[key] - 1

    def load(self, action) -> object:
        """Return the value that a load brings; those of the groups follow each other."""
        name = action.tensor.removesuffix("_desc")
        number = self.next("load", name)
        tile, group = divmod(number, self.groups)
        return (name, group, tile) if name in KEYS else (name, 0, number)

    def joined(self, action) -> list[object]:
        """Return what the operands in SMEM are of a matmul whose result lies in registers."""
        names = tuple(_name(region) for region in action.reads)
        if names not in MATMULS:
            return [WRONG for _ in names]
        number = self.next("matmul", *names)
        step, group = number, self.group
        if MATMULS[names] == "dq":
            step, group = divmod(number, self.groups)
        return [self.operand(name, group, step) for name in names]

    def operand(self, name: str, group: int, step: int) -> object:
        """Return the value of a name that a group needs in a step."""
        if name in KEYS:
            return (name, group, self.tile_of[step]) if step < len(self.tile_of) else WRONG
        return (name, group if name == "ds" else 0, step)

    def read(self, action, following) -> object:
        """Return what the warps must find."""
        name = _name(action.reads[0])
        return (name, 0, self.next("read", name))

    def write(self, action) -> object:
        """Return what the warps leave."""
        name = _name(action.writes[0])
        return (name, self.group, self.next("write", name))

    def stored(self, action) -> object:
        """Return what a store to global memory must find; only dq is added to what is there."""
        gradient = action.tensor.removesuffix("_desc")
        if action.accumulates is not (gradient == "dq"):
            return WRONG
        return (SENT[gradient], self.group, self.next("store", gradient))


def _name(region) -> str:
    return region.array.removesuffix("_tiles")
