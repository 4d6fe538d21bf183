"""Random schedules of Hopper's backward: depths, lags, orders, waits, barriers, places."""

from __future__ import annotations

import random

from hypothesis import strategies as st
from random_backward import deep, step

#: Orders of a consumer's step that are legal as they stand; a random one moves an op.
ORDERS = (
    "st  dpt  probs  dv  dscores  dk  dq  reduce_dq",
    "dpt  probs  dv  dscores  dq-1  dk  st+1  reduce_dq-1",
    "dpt  probs  dv  dscores  dk  st+1  dq-1  reduce_dq-1",
    "st  dpt  probs  dscores  dv  dk  dq-1  reduce_dq-1",
)
#: Loads of a step, and which of them land on one barrier.
LOADS = ("q with lse|do with delta", "q|lse|do|delta", "q with lse|do|delta", "q|do|delta|lse")
FINISHES = (
    "finish_dv  store_dv  finish_dk  store_dk",
    "finish_dk  store_dk  finish_dv  store_dv",
    "finish_dv  store_dv  finish_dk  store_dk",
    "finish_dv  finish_dk  store_dv  store_dk",
)
PLACES = (
    "stage over dv_out over dk_out",
    "dv_out over dk_out",
    "",
    "k over dk_out",
    "v over dv_out",
)
SOURCES = (
    "persistent  order valid with block innermost  next static deal round_robin",
    "persistent  order valid with block innermost  next static deal zigzag",
    "persistent  order valid by q_length with block innermost  next static deal round_robin",
    "one_per_cta  order valid with block innermost",
)


def hopper_backward_schedules() -> st.SearchStrategy[str]:
    """Return random schedules, by a seed that hypothesis draws."""
    return st.integers(0, 2**32).map(lambda seed: random_hopper_backward(random.Random(seed)))


def ring(draw: random.Random) -> str:
    """Return the depth of a ring, mostly such that its load or its reader can run ahead."""
    return f"  depth {depth}" if (depth := draw.choice((1, 2, 2, 2, 3, 3))) > 1 else ""


def op_of(word: str) -> str:
    """Return an op of a group as a schedule writes it: `dq-1` is `dq[g][j-1]`."""
    name, sign, number = word.partition("-" if "-" in word else "+")
    return step(f"{name}[g]", int(sign + number) if sign else 0)


def consumer_steps(draw: random.Random, outlet: str) -> str:
    """Return the steps of a consumer: a legal order, of which ops may move, and waits."""
    words = draw.choice(ORDERS).split()
    for _ in range(draw.choice((0, 0, 0, 0, 1))):
        word = words.pop(draw.randrange(len(words)))
        words.insert(draw.randrange(len(words) + 1), word)
    if draw.random() < 0.15:
        at = draw.randrange(len(words))
        name = words[at].rstrip("01+-")
        words[at] = name + draw.choice(("-1", "+1", ""))
    ops = [op_of(word) for word in words]
    ops = [op + outlet if op.startswith("reduce_dq") else op for op in ops]
    if draw.random() < 0.4:
        at = draw.randrange(len(words))
        matmuls = [op_of(w) for w in words[:at] if w.rstrip("01+-") in ("st", "dpt", "dv", "dk")]
        if matmuls:
            ops[at] = f"wait {draw.choice(matmuls)}  {ops[at]}"
    return draw.choice(("", "peel  ")) + "  ".join(ops)


def loads_of(draw: random.Random, depth: dict[str, str]) -> str:
    """Return the loads of a step; those that share a barrier have rings of one depth."""
    barriers = draw.choice(LOADS).split("|")
    draw.shuffle(barriers)
    found: list[str] = []
    for barrier in barriers:
        ahead = draw.choice((0, 0, 0, 1))
        names = barrier.split(" with ")
        if draw.random() < 0.97:
            depth.update(dict.fromkeys(names, depth[names[0]]))
        found.append(" with ".join(step(f"load_{name}", ahead) for name in names))
    return "  ".join(found)


def random_hopper_backward(draw: random.Random) -> str:
    """Return one schedule."""
    depth = {name: ring(draw) for name in ("q", "do", "lse", "delta")}
    loads = loads_of(draw, depth)
    finishes = "  ".join(f"{op}[g]" for op in draw.choice(FINISHES).split())
    place = draw.choice(PLACES)
    region = f"  region shared[g] {{ {place} }}\n" if place else ""
    staged = "stage" in place or draw.random() < 0.4
    stage = "" if "stage" in place else deep(draw)
    stage = f"  smem stage[g] : f32[m, d/2]{stage}\n" if staged else ""
    outlet = " in slices of 32 through stage" if staged else ""
    first = draw.choice(("load_k[g]  load_v[g]", "load_v[g]  load_k[g]"))
    return f"""kernel random_hopper_backward {{
  algorithm attention.backward
  target    sm_90a
  problem {{ head_dim 64  dtype bf16  q broadcast  kv jagged  mask none }}
  tile {{ m 64  n 64 x 2 as g }}
  role load        {{ warps 4  default }}
  role consumer[g] {{ warps 4  registers 240 }}
  smem k[g], v[g] : bf16[n, d]
  smem q      : bf16[m, d]{depth["q"]}
  smem do     : bf16[m, d]{depth["do"]}
  smem lse    : f32[m]{depth["lse"]}
  smem delta  : f32[m]{depth["delta"]}
  smem ds[g]  : bf16[n, m]{ring(draw)}
{stage}  smem dv_out[g], dk_out[g] : bf16[n, d]
  reg st[g], dpt[g] : f32[n, m]
  reg pt[g], dst[g] : bf16[n, m]
  reg dk[g], dv[g] : f32[n, d]
  reg dq[g]   : f32[m, d/2]
{region}  load {{ {first} }}
  loop j over q {draw.choice(("", "staggered "))}{{
    load {{ {loads} }}
    consumer[g] {{ {consumer_steps(draw, outlet)} }}
  }}
  consumer[g] {{ {finishes} }}
  tiles {{ {draw.choice(SOURCES)} }}
}}
"""
