"""Attention, backward: dq, dk and dv from dO, for one block of keys that stays while queries pass.

P is computed again from the log-sum-exp, and dS = P * (dO v^T - delta) with delta = rowsum(dO * O)
(FlashAttention-2, arXiv 2307.08691). Everything is transposed, keys in rows, so that P and dS are
first operands of the matmuls that sum dv and dk; dq is summed over key blocks in global memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from .model import Access, Algorithm, Element, Engine, Extent, Op, Point, Probe, Space
from .table import ROWS, SMEM, read, update, value, write

_KEYS = ("n", "d")
_QUERIES = ("m", "d")
_SCORES = ("n", "m")


VALUES = (
    value("k", _KEYS, Element.INPUT, Space.TILE, SMEM),
    value("v", _KEYS, Element.INPUT, Space.TILE, SMEM),
    value("q", _QUERIES, Element.INPUT, Space.STEP, SMEM, grouped=False),
    value("do", _QUERIES, Element.INPUT, Space.STEP, SMEM, grouped=False),
    value("lse", ("m",), Element.F32, Space.STEP, SMEM, grouped=False),
    value("delta", ("m",), Element.F32, Space.STEP, SMEM, grouped=False),
    value("st", _SCORES, Element.F32, Space.STEP, ROWS),
    value("pt", _SCORES, Element.INPUT, Space.STEP, ROWS),
    value("dpt", _SCORES, Element.F32, Space.STEP, ROWS),
    value("dst", _SCORES, Element.INPUT, Space.STEP, ROWS),
    value("ds", _SCORES, Element.INPUT, Space.STEP, SMEM),
    value("dv", _KEYS, Element.F32, Space.TILE, ROWS),
    value("dk", _KEYS, Element.F32, Space.TILE, ROWS),
    # Every key has a part in it, so groups of keys share its columns out among them.
    value("dq", _QUERIES, Element.F32, Space.STEP, ROWS, split="d"),
    value("dq_slice", _QUERIES, Element.F32, Space.STEP, SMEM, staging=True, split="d"),
    value("dv_out", _KEYS, Element.INPUT, Space.TILE, SMEM),
    value("dk_out", _KEYS, Element.INPUT, Space.TILE, SMEM),
)


def _load(name: str, space: Space) -> Op:
    return Op(
        name=f"load_{name}",
        engine=Engine.LOAD,
        space=space,
        grouped=space is Space.TILE,
        points=(Point(accesses=(write(name),)),),
        inputs=(name,),
    )


def _matmul(name: str, left: Access, right: Access, *, sums: bool = False) -> Op:
    result = update(name, first_read=1) if sums else write(name)
    return Op(
        name=name,
        engine=Engine.MMA,
        space=Space.STEP,
        grouped=True,
        points=(Point(accesses=(left, right, result)),),
    )


def _finish(name: str) -> tuple[Op, Op]:
    """Return the ops that bring an accumulator to global memory."""
    return (
        Op(
            name=f"finish_{name}",
            engine=Engine.WARPS,
            space=Space.TILE,
            grouped=True,
            points=(Point(accesses=(read(name), write(f"{name}_out"))),),
            fills=(name,),
            warps=(4, 8),
        ),
        Op(
            name=f"store_{name}",
            engine=Engine.STORE,
            space=Space.TILE,
            grouped=True,
            points=(Point(accesses=(read(f"{name}_out"),)),),
            outputs=(name,),
        ),
    )


OPS = (
    _load("k", Space.TILE),
    _load("v", Space.TILE),
    _load("q", Space.STEP),
    _load("lse", Space.STEP),
    _load("do", Space.STEP),
    _load("delta", Space.STEP),
    _matmul("st", read("k"), read("q")),
    Op(
        name="probs",
        engine=Engine.WARPS,
        space=Space.STEP,
        grouped=True,
        points=(
            Point(accesses=(read("st"), read("lse"))),
            Point(accesses=(write("pt"),)),
        ),
        keeps=("probabilities",),
        masks=True,
        warps=(4, 8),
    ),
    _matmul("dpt", read("v"), read("do")),
    Op(
        name="dscores",
        engine=Engine.WARPS,
        space=Space.STEP,
        grouped=True,
        points=(
            Point(accesses=(read("dpt"), read("delta"))),
            Point(accesses=(write("dst"), write("ds"))),
        ),
        takes=("probabilities",),
        warps=(4, 8),
    ),
    _matmul("dv", read("pt"), read("do"), sums=True),
    _matmul("dk", read("dst"), read("q"), sums=True),
    _matmul("dq", read("ds", every_group=True), read("k", every_group=True)),
    # A slice that is held is read into registers first; the others are copied as they are read.
    Op(
        name="reduce_dq",
        engine=Engine.WARPS,
        space=Space.STEP,
        grouped=True,
        points=(
            Point(accesses=(read("dq"),), per_slice=True),
            Point(accesses=(write("dq_slice"),), per_slice=True),
            Point(accesses=(read("dq_slice"),), per_slice=True, engine=Engine.STORE),
        ),
        outputs=("dq",),
        staged=True,
        adds=True,
        direct=(Point(accesses=(read("dq"),)),),
    ),
    *_finish("dv"),
    *_finish("dk"),
)


def probe(trips: tuple[int, ...], constants: Mapping[str, int], full: bool) -> Probe:
    """Return one head, and for each tile a sequence of one key block with that many query blocks.

    A kernel takes those arguments that it has: of one q for all, or of packed queries.
    """
    tiles = list(range(len(trips)))
    count, spare = len(trips), 2
    keys = constants.get("GROUPS", 1) * constants["BLOCK_N"] - (0 if full else 1)
    short = 0 if full else 1
    queries = [max(steps * constants["BLOCK_M"] - short, 0) for steps in trips]
    return Probe(
        arguments={
            # Ids past the last tile belong to a sequence without keys and queries.
            "tile_sequences": [*tiles, *(count,) * spare],
            "block_starts": [*tiles, count, count],
            "tile_count": [count],
            "query_counts": [*queries, 0],
            "q_offsets": [0, *accumulate(queries), sum(queries)],
            "kv_offsets": [*(keys * tile for tile in range(count + 1)), keys * count],
            "heads": 1,
        },
        tile_lists=frozenset({"tile_sequences"}),
        spare=spare,
    )


ATTENTION_BACKWARD = Algorithm(
    name="attention.backward",
    loop="q",
    extents={
        "m": Extent(words="query rows of a step", sizes={"sm_100a": (64, 128), "sm_90a": (64,)}),
        "n": Extent(
            words="key rows of a tile",
            sizes={"sm_100a": (128,), "sm_90a": (64,)},
            grouped=frozenset({"sm_90a"}),
        ),
    },
    orders=("valid",),
    skips_tiles=True,
    values=VALUES,
    ops=OPS,
    outputs=("dq", "dk", "dv"),
    kept={"probabilities": _SCORES},
    cyclic=True,
    probe=probe,
)
