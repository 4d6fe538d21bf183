"""Random schedules of the backward: depths, lags, orders, slices, sharing, tile sources."""

from __future__ import annotations

import random

from hypothesis import strategies as st

MATMULS = ("st", "dpt", "dv", "dk", "dq")
#: Pipelines that are legal as they stand; a random one moves a few ops.
ORDERS = (
    [("st", 0), ("dpt", 0), ("dv", 0), ("dk", 0), ("dq", 0)],
    [("st", 0), ("dk", -1), ("dq", -1), ("dpt", 0), ("dv", 0)],
    [("dk", -1), ("dq", -1), ("st", 0), ("dpt", 0), ("dv", 0)],
    [("st", 1), ("dpt", 0), ("dv", 0), ("dk", 0), ("dq", 0)],
)
SOURCES = (
    "persistent  order valid with block innermost  next clc asked by load",
    "persistent  order valid with block innermost  next static deal round_robin",
    "persistent  order valid with block innermost  next static deal zigzag",
    "one_per_cta  order valid with block innermost",
)
PLACES = (
    "",
    "",
    "  region keys { k over dk_out }\n  region values { v over dv_out }\n",
    "  region scores { st over pt }\n",
    "  apart { dpt, dst }\n",
    "  together { st, pt }\n",
    "  region place { dpt over dq }\n",
)


def backward_schedules() -> st.SearchStrategy[str]:
    """Return random schedules, by a seed that hypothesis draws."""
    return st.integers(0, 2**32).map(lambda seed: random_backward(random.Random(seed)))


def step(op: str, lag: int) -> str:
    """Return an op as a schedule writes it."""
    return f"{op}[j{f'{lag:+d}' if lag else ''}]"


def deep(draw: random.Random, most: int = 3) -> str:
    """Return a depth as a schedule writes it, often none."""
    depth = draw.choice((1, 1, *range(1, most + 1)))
    return f"  depth {depth}" if depth > 1 else ""


def random_backward(draw: random.Random) -> str:
    """Return one schedule."""
    matmuls = list(draw.choice(ORDERS))
    for _ in range(draw.choice((0, 0, 0, 1))):
        one, other = draw.sample(range(len(matmuls)), 2)
        matmuls[one], matmuls[other] = matmuls[other], matmuls[one]
    if draw.random() < 0.15:
        at = draw.randrange(len(matmuls))
        matmuls[at] = (matmuls[at][0], matmuls[at][1] + draw.choice((-1, 1)))
    loads = [(f"load_{name}", draw.choice((0, 0, 1))) for name in ("q", "do", "lse", "delta")]
    draw.shuffle(loads)
    columns = draw.choice((32, 64))
    hold = draw.choice((0, 1, 2))
    stores, finishes = ["store_dv", "store_dk"], ["finish_dv", "finish_dk"]
    draw.shuffle(stores)
    draw.shuffle(finishes)
    storer = draw.choice(("store", "store", "load"))
    warps = draw.choice((4, 8))
    place = draw.choice(PLACES)
    # Buffers of one place have one depth.
    ds, dq = ("" if name in place else deep(draw, 2) for name in ("dst", "dq"))
    reduce = f"{step('reduce_dq', draw.choice((0, 0, -1)))} in slices of {columns} through stage"
    held = min(hold, 64 // columns)
    store_role = "  role store   { warps 1  registers 24 }\n" if storer == "store" else ""
    return f"""kernel random_backward {{
  algorithm attention.backward
  target    sm_100a
  problem {{ head_dim 64  dtype bf16  q broadcast  kv jagged  mask none }}
  tile {{ m 64  n 128 }}
  role compute {{ warps {warps}  default }}
  role reduce  {{ warps 4  registers 136 }}
  role mma     {{ warps 1  registers 24 }}
  role load    {{ warps 1  registers 24 }}
{store_role}  smem k     : bf16[n, d]
  smem v     : bf16[n, d]
  smem q     : bf16[m, d]{deep(draw)}
  smem do    : bf16[m, d]{deep(draw)}
  smem lse   : f32[m]{deep(draw)}
  smem delta : f32[m]{deep(draw)}
  smem ds    : bf16[n, m]{deep(draw, 2)}
  smem stage : f32[m, {columns}]{deep(draw)}
  smem dk_out, dv_out : bf16[n, d]
  tmem st  : f32[n, m]
  tmem pt  : bf16[n, m]
  tmem dpt : f32[n, m]
  tmem dst : bf16[n, m]{ds}
  tmem dk, dv : f32[n, d]
  tmem dq  : f32[m, d]{dq}
{place}  load {{ load_k  load_v }}
  loop j over q {{
    load    {{ {"  ".join(step(*one) for one in loads)} }}
    mma     {{ {"  ".join(step(*one) for one in matmuls)} }}
    compute {{ {draw.choice(("", "peel  "))}probs[j]  dscores[j] }}
    reduce  {{ {reduce}  hold {held} }}
  }}
  compute {{ {"  ".join(finishes)} }}
  {storer} {{ {"  ".join(stores)} }}
  tiles {{ {draw.choice(SOURCES)} }}
}}
"""
