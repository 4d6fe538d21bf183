"""Attention, backward: dq, dk and dv from dO, for one block of keys that stays while queries pass.

P is computed again from the log-sum-exp, and dS = P * (dO v^T - delta) with delta = rowsum(dO * O)
(FlashAttention-2, arXiv 2307.08691). Everything is transposed, keys in rows, so that P and dS are
first operands of the matmuls that sum dv and dk; dq is summed over key blocks in global memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from .model import Algorithm, Element, Engine, Extent, Op, Point, Probe, Space, Value
from .table import SMEM, TMEM, read, update, value, write

_KEYS = ("n", "d")
_QUERIES = ("m", "d")
_SCORES = ("n", "m")


def _one(
    name: str,
    dims: tuple[str, ...],
    space: Space,
    *,
    f32: bool = False,
    tmem: bool = False,
    staging: bool = False,
) -> Value:
    """Return a value that all query rows share: there are no groups."""
    return value(
        name,
        dims,
        Element.F32 if f32 else Element.INPUT,
        space,
        TMEM if tmem else SMEM,
        grouped=False,
        staging=staging,
    )


VALUES = (
    _one("k", _KEYS, Space.TILE),
    _one("v", _KEYS, Space.TILE),
    _one("q", _QUERIES, Space.STEP),
    _one("do", _QUERIES, Space.STEP),
    _one("lse", ("m",), Space.STEP, f32=True),
    _one("delta", ("m",), Space.STEP, f32=True),
    _one("st", _SCORES, Space.STEP, f32=True, tmem=True),
    _one("pt", _SCORES, Space.STEP, tmem=True),
    _one("dpt", _SCORES, Space.STEP, f32=True, tmem=True),
    _one("dst", _SCORES, Space.STEP, tmem=True),
    _one("ds", _SCORES, Space.STEP),
    _one("dv", _KEYS, Space.TILE, f32=True, tmem=True),
    _one("dk", _KEYS, Space.TILE, f32=True, tmem=True),
    _one("dq", _QUERIES, Space.STEP, f32=True, tmem=True),
    _one("dq_slice", _QUERIES, Space.STEP, f32=True, staging=True),
    _one("dv_out", _KEYS, Space.TILE),
    _one("dk_out", _KEYS, Space.TILE),
)


def _load(name: str, tensor: str, space: Space) -> Op:
    return Op(
        name=f"load_{name}",
        engine=Engine.LOAD,
        space=space,
        grouped=False,
        points=(Point(accesses=(write(name),)),),
        inputs=(tensor,),
    )


def _matmul(name: str, left: str, right: str, *, sums: bool = False) -> Op:
    result = update(name, first_read=1) if sums else write(name)
    return Op(
        name=name,
        engine=Engine.MMA,
        space=Space.STEP,
        grouped=False,
        points=(Point(accesses=(read(left), read(right), result)),),
    )


def _finish(name: str) -> tuple[Op, Op]:
    """Return the ops that bring an accumulator to global memory."""
    return (
        Op(
            name=f"finish_{name}",
            engine=Engine.WARPS,
            space=Space.TILE,
            grouped=False,
            points=(Point(accesses=(read(name), write(f"{name}_out"))),),
            fills=(name,),
            warps=(4, 8),
        ),
        Op(
            name=f"store_{name}",
            engine=Engine.STORE,
            space=Space.TILE,
            grouped=False,
            points=(Point(accesses=(read(f"{name}_out"),)),),
            outputs=(name,),
        ),
    )


OPS = (
    _load("k", "k", Space.TILE),
    _load("v", "v", Space.TILE),
    _load("q", "q", Space.STEP),
    _load("lse", "lse", Space.STEP),
    _load("do", "do", Space.STEP),
    _load("delta", "delta", Space.STEP),
    _matmul("st", "k", "q"),
    Op(
        name="probs",
        engine=Engine.WARPS,
        space=Space.STEP,
        grouped=False,
        points=(
            Point(accesses=(read("st"), read("lse"))),
            Point(accesses=(write("pt"),)),
        ),
        keeps=("probabilities",),
        masks=True,
        warps=(4, 8),
    ),
    _matmul("dpt", "v", "do"),
    Op(
        name="dscores",
        engine=Engine.WARPS,
        space=Space.STEP,
        grouped=False,
        points=(
            Point(accesses=(read("dpt"), read("delta"))),
            Point(accesses=(write("dst"), write("ds"))),
        ),
        takes=("probabilities",),
        warps=(4, 8),
    ),
    _matmul("dv", "pt", "do", sums=True),
    _matmul("dk", "dst", "q", sums=True),
    _matmul("dq", "ds", "k"),
    # A slice that is held is read into registers first; the others are copied as they are read.
    Op(
        name="reduce_dq",
        engine=Engine.WARPS,
        space=Space.STEP,
        grouped=False,
        points=(
            Point(accesses=(read("dq"),), per_slice=True),
            Point(accesses=(write("dq_slice"),), per_slice=True),
            Point(accesses=(read("dq_slice"),), per_slice=True, engine=Engine.STORE),
        ),
        outputs=("dq",),
        staged=True,
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
    keys = constants["BLOCK_N"] - (0 if full else 1)
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
        "m": Extent(words="query rows of a step", sizes={"sm_100a": (64, 128)}),
        "n": Extent(words="key rows of a tile", sizes={"sm_100a": (128,)}),
    },
    orders=("valid",),
    skips_tiles=True,
    values=VALUES,
    ops=OPS,
    outputs=("dq", "dk", "dv"),
    probe=probe,
)
