"""Attention, forward: out = softmax(scale * q k^T) v and its log-sum-exp, one pass over the keys.

The online softmax of Milakov and Gimelshein (arXiv 1805.02867) in the tiling of FlashAttention
(arXiv 2205.14135); the accumulator's rescale is skipped while the maximum grows little, as in
FlashAttention-4 (arXiv 2603.05451).
"""

from __future__ import annotations

from collections.abc import Mapping

from ..types import Storage
from .model import Access, Algorithm, Element, Engine, Mode, Op, Point, Probe, Space, Value

_SMEM = frozenset({Storage.SMEM})
_ROWS = frozenset({Storage.TMEM, Storage.REG})


def _read(value: str) -> Access:
    return Access(value=value, mode=Mode.READ)


def _write(value: str) -> Access:
    return Access(value=value, mode=Mode.WRITE)


def _update(value: str, *, first_step: int = 0, first_read: int = 0) -> Access:
    return Access(
        value=value, mode=Mode.UPDATE, first_step=first_step, first_read=max(first_step, first_read)
    )


def _value(
    name: str,
    dims: tuple[str, ...],
    element: Element,
    space: Space,
    storages: frozenset[Storage],
    *,
    grouped: bool = True,
    sliceable: bool = False,
) -> Value:
    return Value(
        name=name,
        dims=dims,
        element=element,
        space=space,
        grouped=grouped,
        storages=storages,
        sliceable=sliceable,
    )


VALUES = (
    _value("q", ("m", "d"), Element.INPUT, Space.TILE, _SMEM),
    _value("k", ("n", "d"), Element.INPUT, Space.STEP, _SMEM, grouped=False),
    _value("v", ("n", "d"), Element.INPUT, Space.STEP, _SMEM, grouped=False),
    _value("s", ("m", "n"), Element.F32, Space.STEP, _ROWS),
    _value("p", ("m", "n"), Element.INPUT, Space.STEP, _ROWS, sliceable=True),
    _value("alpha", ("m",), Element.F32, Space.STEP, _ROWS),
    _value("row_sum", ("m",), Element.F32, Space.TILE, _ROWS),
    _value("row_max", ("m",), Element.F32, Space.TILE, _ROWS),
    _value("acc", ("m", "d"), Element.F32, Space.TILE, _ROWS),
    _value("out", ("m", "d"), Element.INPUT, Space.TILE, _SMEM),
)

OPS = (
    Op(
        name="load_q",
        engine=Engine.LOAD,
        space=Space.TILE,
        grouped=True,
        points=(Point(accesses=(_write("q"),)),),
        inputs=("q",),
    ),
    Op(
        name="load_k",
        engine=Engine.LOAD,
        space=Space.STEP,
        grouped=False,
        points=(Point(accesses=(_write("k"),)),),
        inputs=("k",),
    ),
    Op(
        name="load_v",
        engine=Engine.LOAD,
        space=Space.STEP,
        grouped=False,
        points=(Point(accesses=(_write("v"),)),),
        inputs=("v",),
    ),
    Op(
        name="qk",
        engine=Engine.MMA,
        space=Space.STEP,
        grouped=True,
        points=(Point(accesses=(_read("q"), _read("k"), _write("s"))),),
    ),
    Op(
        name="softmax",
        engine=Engine.WARPS,
        space=Space.STEP,
        grouped=True,
        points=(
            Point(accesses=(_read("s"),)),
            Point(accesses=(_write("alpha"),)),
            Point(accesses=(_write("p"),), per_slice=True),
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
            Point(accesses=(_read("alpha"),)),
            Point(accesses=(_update("acc", first_step=1),)),
        ),
    ),
    Op(
        name="pv",
        engine=Engine.MMA,
        space=Space.STEP,
        grouped=True,
        points=(
            Point(accesses=(_read("p"), _read("v"), _update("acc", first_read=1)), per_slice=True),
        ),
    ),
    Op(
        name="publish_stats",
        engine=Engine.WARPS,
        space=Space.TILE,
        grouped=True,
        points=(Point(accesses=(_write("row_sum"), _write("row_max"))),),
        takes=("maximum", "total"),
    ),
    Op(
        name="finish",
        engine=Engine.WARPS,
        space=Space.TILE,
        grouped=True,
        points=(
            Point(accesses=(_read("row_sum"), _read("row_max"))),
            Point(accesses=(_read("acc"), _write("out"))),
        ),
        outputs=("lse",),
        closes_empty_tiles=True,
    ),
    Op(
        name="store_out",
        engine=Engine.STORE,
        space=Space.TILE,
        grouped=True,
        points=(Point(accesses=(_read("out"),)),),
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
    values=VALUES,
    ops=OPS,
    outputs=("out", "lse"),
    probe=probe,
)
