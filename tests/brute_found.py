"""Schedules on which prover and brute force, or the CPU machine, once disagreed, and why."""

from __future__ import annotations

#: Name -> text; each is compared as the random ones are.
FOUND: dict[str, str] = {}

# Two MMA roles on a ring of three for k and v: a slot holds both in turn, so the wait for k of
# step 2 (parity 1) passes on a fresh barrier while v of step 0 has not landed.
FOUND["early_wait"] = """kernel early_wait {
  algorithm attention.forward
  target sm_100a
  problem { head_dim 64  dtype bf16  q broadcast  kv jagged  mask none }
  tile { m 128  n 64 }
  role correction { warps 4  default }
  role softmax { warps 4  registers 64 }
  role scores { warps 1  registers 24 }
  role values { warps 1  registers 24 }
  role load { warps 1  registers 24 }
  role store { warps 1  registers 24 }
  smem q : bf16[m, d]
  smem kv : bf16[n, d]  depth 3  holds k, v
  smem out : bf16[m, d]
  tmem s : f32[m, n]  depth 2
  tmem p : bf16[m, n]
  tmem alpha : f32[m]
  tmem row_sum, row_max : f32[m]
  tmem acc : f32[m, d]
  apart { s, p }
  load { load_q }
  loop i over kv {
    load { load_k[i]  load_v[i] }
    scores { qk[i] }
    values { pv[i] }
    softmax { softmax[i] }
    correction { rescale[i] }
  }
  softmax { publish_stats }
  correction { finish }
  store { store_out }
  tiles { one_per_cta }
}
"""

# With v two steps ahead, `v_empty` also frees k, but not in a tile of just three steps, where no
# load of v ever waits.
FOUND["three_steps"] = """kernel three_steps {
  algorithm attention.forward
  target sm_100a
  problem { head_dim 64  dtype bf16  q broadcast  kv jagged  mask none }
  tile { m 128  n 64 }
  role compute { warps 4  default }
  role mma { warps 1  registers 24 }
  role load { warps 1  registers 24 }
  role store { warps 1  registers 24 }
  smem q : bf16[m, d]
  smem k : bf16[n, d]  depth 2
  smem v : bf16[n, d]  depth 3
  smem out : bf16[m, d]
  tmem s : f32[m, n]
  tmem p : bf16[m, n]
  tmem alpha : f32[m]
  tmem row_sum, row_max : f32[m]
  tmem acc : f32[m, d]
  apart { s, p }
  load { load_q }
  loop i over kv {
    load { load_k[i]  load_v[i+2] }
    mma { qk[i]  pv[i-1] }
    compute { softmax[i]  rescale[i] }
  }
  compute { publish_stats  finish }
  store { store_out }
  tiles { one_per_cta }
}
"""

# A ring of tiles lies over a ring of steps: which slots meet depends on how many steps came
# before, odd or even.
FOUND["rhythms"] = """kernel rhythms {
  algorithm attention.forward
  target sm_100a
  problem { head_dim 64  dtype bf16  q broadcast  kv jagged  mask none }
  tile { m 128  n 64 }
  role load { warps 1  registers 24 }
  role mma { warps 1  registers 24 }
  role softmax { warps 4  default }
  role correction { warps 4  registers 64 }
  role store { warps 1  registers 24 }
  smem q : bf16[m, d]
  smem k : bf16[n, d]  depth 2
  smem v : bf16[n, d]
  smem out : bf16[m, d]
  tmem s : f32[m, n]  depth 2
  tmem p : bf16[m, n]  depth 2  slices 2
  tmem alpha : f32[m]  depth 2
  tmem row_sum : f32[m]  depth 2
  tmem row_max : f32[m]  depth 2
  tmem acc : f32[m, d]
  region scores { s over (p, alpha, row_sum, row_max) }
  load { load_q }
  loop i over kv {
    load { load_k[i+3]  load_v[i+3] }
    mma { pv[i-1]  qk[i] }
    softmax { peel  softmax[i] }
    correction { rescale[i] }
  }
  softmax { publish_stats  finish }
  store { store_out }
  tiles { persistent  order longest_first by kv_length  next static deal round_robin }
}
"""

# The packer lays a vector over the first slice of p alone; the commit stands after the last one.
FOUND["one_slice"] = """kernel one_slice {
  algorithm attention.forward
  target sm_100a
  problem { head_dim 64  dtype bf16  q broadcast  kv jagged  mask none }
  tile { m 128 x 2 as g  n 64 }
  role load { warps 1  registers 24 }
  role fetch { warps 1  registers 24 }
  role scores { warps 1  registers 24 }
  role values { warps 1  registers 24 }
  role softmax[g] { warps 4  registers 64 }
  role correction { warps 4  default }
  role store { warps 1  registers 24 }
  smem q[g] : bf16[m, d]  depth 2
  smem k : bf16[n, d]  depth 3
  smem v : bf16[n, d]  depth 3
  smem out[g] : bf16[m, d]
  tmem s[g] : f32[m, n]  depth 2
  tmem p[g] : bf16[m, n]  depth 2  slices 4
  tmem alpha[g] : f32[m]  depth 2
  tmem row_sum[g] : f32[m]
  tmem row_max[g] : f32[m]  depth 2
  tmem acc[g] : f32[m, d]
  region scores[g] { s over p }
  load { load_q[g] }
  loop i over kv {
    load { load_k[i+3] }
    fetch { load_v[i+5] }
    scores { qk[0][i]  qk[1][i] }
    values { pv[1][i-1]  pv[0][i] }
    softmax[g] { softmax[g][i] }
    correction { rescale[g][i] }
  }
  softmax[g] { publish_stats[g] }
  correction { finish[g] }
  store { store_out[g] }
  tiles { one_per_cta  order given }
}
"""

# A ring of k and v whose phases need arrivals of two roles for one value and of one for the
# other.
FOUND["unequal"] = """kernel unequal {
  algorithm attention.forward
  target sm_100a
  problem { head_dim 64  dtype bf16  q broadcast  kv jagged  mask none }
  tile { m 128 x 2 as g  n 64 }
  role query { warps 1  registers 24 }
  role load { warps 1  registers 24 }
  role first { warps 1  registers 24 }
  role second { warps 1  registers 24 }
  role softmax[g] { warps 4  registers 64 }
  role correction { warps 4  default }
  smem q[g] : bf16[m, d]
  smem kv : bf16[n, d]  depth 4  holds k, v
  smem out[g] : bf16[m, d]
  tmem s[g] : f32[m, n]
  tmem p[g] : bf16[m, n]  slices 4
  tmem alpha[g] : f32[m]
  tmem row_sum[g] : f32[m]
  tmem row_max[g] : f32[m]
  tmem acc[g] : f32[m, d]  depth 2
  region io[g] { out over q }
  query { load_q[g] }
  loop i over kv {
    load { load_k[i]  load_v[i] }
    first { pv[0][i-2]  qk[0][i] }
    second { qk[1][i]  pv[1][i-2] }
    softmax[g] { peel  softmax[g][i] }
    correction { rescale[g][i] }
  }
  softmax[g] { publish_stats[g]  finish[g] }
  load { store_out[g] }
  tiles { persistent  next static deal round_robin }
}
"""

#: Every replica of the role of `finish` writes the zeros of an empty tile; the machine sees it.
TWICE_EMPTY = """kernel twice_empty {
  algorithm attention.forward
  target sm_100a
  problem { head_dim 64  dtype bf16  q broadcast  kv jagged  mask none }
  tile { m 128 x 2 as g  n 64 }
  role load { warps 1  registers 24 }
  role fetch { warps 1  registers 24 }
  role scores { warps 1  registers 24 }
  role values { warps 1  registers 24 }
  role softmax[g] { warps 4  registers 64 }
  role correction { warps 4  default }
  role store { warps 1  registers 24 }
  smem q[g] : bf16[m, d]  depth 2
  smem k : bf16[n, d]
  smem v : bf16[n, d]  depth 2
  smem out[g] : bf16[m, d]  depth 2
  tmem s[g] : f32[m, n]
  tmem p[g] : bf16[m, n]  slices 2
  tmem alpha[g] : f32[m]  depth 2
  tmem row_sum[g] : f32[m]
  tmem row_max[g] : f32[m]  depth 2
  tmem acc[g] : f32[m, d]  depth 2
  apart { s, p }
  load { load_q[g] }
  loop i over kv {
    load { load_k[i] }
    fetch { load_v[i-2] }
    scores { qk[1][i+1]  qk[0][i+1] }
    values { pv[1][i]  pv[0][i+1] }
    softmax[g] { peel  softmax[g][i] }
    correction { rescale[g][i] }
  }
  softmax[g] { publish_stats[g]  finish[g] }
  store { store_out[g] }
  tiles { persistent  order given  next clc asked by scores }
}
"""
