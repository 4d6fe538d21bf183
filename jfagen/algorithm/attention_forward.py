"""Attention, forward: out = softmax(scale * q k^T) v and its log-sum-exp, one pass over the keys.

The online softmax of Milakov and Gimelshein (arXiv 1805.02867) in the tiling of FlashAttention
(arXiv 2205.14135); the accumulator's rescale is skipped while the maximum grows little, as in
FlashAttention-4 (arXiv 2603.05451).
"""

from __future__ import annotations

from collections.abc import Mapping

from .model import Algorithm, Element, Engine, Extent, Op, Point, Probe, Space
from .table import ROWS, SMEM, read, update, value, write

VALUES = (
    value("q", ("m", "d"), Element.INPUT, Space.TILE, SMEM),
    value("k", ("n", "d"), Element.INPUT, Space.STEP, SMEM, grouped=False),
    value("v", ("n", "d"), Element.INPUT, Space.STEP, SMEM, grouped=False),
    value("s", ("m", "n"), Element.F32, Space.STEP, ROWS),
    value("p", ("m", "n"), Element.INPUT, Space.STEP, ROWS, sliceable=True),
    value("alpha", ("m",), Element.F32, Space.STEP, ROWS),
    value("row_sum", ("m",), Element.F32, Space.TILE, ROWS),
    value("row_max", ("m",), Element.F32, Space.TILE, ROWS),
    value("acc", ("m", "d"), Element.F32, Space.TILE, ROWS),
    value("out", ("m", "d"), Element.INPUT, Space.TILE, SMEM),
)

OPS = (
    Op(
        name="load_q",
        engine=Engine.LOAD,
        space=Space.TILE,
        grouped=True,
        points=(Point(accesses=(write("q"),)),),
        inputs=("q",),
    ),
    Op(
        name="load_k",
        engine=Engine.LOAD,
        space=Space.STEP,
        grouped=False,
        points=(Point(accesses=(write("k"),)),),
        inputs=("k",),
    ),
    Op(
        name="load_v",
        engine=Engine.LOAD,
        space=Space.STEP,
        grouped=False,
        points=(Point(accesses=(write("v"),)),),
        inputs=("v",),
    ),
    Op(
        name="qk",
        engine=Engine.MMA,
        space=Space.STEP,
        grouped=True,
        points=(Point(accesses=(read("q"), read("k"), write("s"))),),
    ),
    Op(
        name="softmax",
        engine=Engine.WARPS,
        space=Space.STEP,
        grouped=True,
        points=(
            Point(accesses=(read("s"),)),
            Point(accesses=(write("alpha"),)),
            Point(accesses=(write("p"),), per_slice=True),
        ),
        keeps=("maximum", "total"),
        masks=True,
    ),
    Op(
        name="rescale",
        engine=Engine.WARPS,
        space=Space.STEP,
        grouped=True,
        points=(
            Point(accesses=(read("alpha"),)),
            Point(accesses=(update("acc", first_step=1),)),
        ),
    ),
    Op(
        name="pv",
        engine=Engine.MMA,
        space=Space.STEP,
        grouped=True,
        points=(
            Point(accesses=(read("p"), read("v"), update("acc", first_read=1)), per_slice=True),
        ),
    ),
    Op(
        name="publish_stats",
        engine=Engine.WARPS,
        space=Space.TILE,
        grouped=True,
        points=(Point(accesses=(write("row_sum"), write("row_max"))),),
        takes=("maximum", "total"),
    ),
    Op(
        name="finish",
        engine=Engine.WARPS,
        space=Space.TILE,
        grouped=True,
        points=(
            Point(accesses=(read("row_sum"), read("row_max"))),
            Point(accesses=(read("acc"), write("out"))),
        ),
        outputs=("lse",),
        fills=("out", "lse"),
    ),
    Op(
        name="store_out",
        engine=Engine.STORE,
        space=Space.TILE,
        grouped=True,
        points=(Point(accesses=(read("out"),)),),
        outputs=("out",),
    ),
)


def probe(trips: tuple[int, ...], constants: Mapping[str, int], full: bool) -> Probe:
    """Return one head and one query block for each sequence; a sequence for each tile.

    A kernel takes those arguments that it has: of one q for all, or of packed queries.
    """
    offsets = [0]
    for steps in trips:
        rows = steps * constants["BLOCK_N"]
        offsets.append(offsets[-1] + (rows if full else max(rows - 1, 0)))
    tiles = list(range(len(trips)))
    queries = (constants.get("GROUPS", 1) - 1) * constants["BLOCK_M"] + 1
    return Probe(
        arguments={
            "order": tiles,
            "tile_sequences": tiles,
            "tile_rows": [0] * len(trips),
            "tile_count": [len(trips)],
            "q_offsets": [queries * tile for tile in range(len(trips) + 1)],
            "kv_offsets": offsets,
            "heads": 1,
            "queries": queries,
            "sequence_tiles": 1,
            "blocks": 1,
            "tiles": len(trips),
        },
        tile_lists=frozenset({"order", "tile_sequences"}),
    )


ATTENTION_FORWARD = Algorithm(
    name="attention.forward",
    loop="kv",
    extents={
        "m": Extent(
            words="query rows of a group",
            sizes={"sm_100a": (128,), "sm_90a": (64,)},
            grouped=frozenset({"sm_100a", "sm_90a"}),
        ),
        "n": Extent(words="key rows of a step", sizes={"sm_100a": (64, 128), "sm_90a": (64, 128)}),
    },
    orders=("given", "longest_first"),
    skips_tiles=False,
    values=VALUES,
    ops=OPS,
    outputs=("out", "lse"),
    kept={"maximum": ("m",), "total": ("m",)},
    # The last step is the one that may be partial.
    cyclic=False,
    probe=probe,
)
