"""What the help of each bad schedule says, and the edit that does exactly that."""

from __future__ import annotations

from error_repairs_backward import BACKWARD

NEXT = "next clc asked by load"
STATIC = "next static deal zigzag"
NO_TURN = "leave it out, with its brackets"
LOOP = "  loop i over kv {\n"
END = "    correction { rescale[g][i] }\n"
ALGORITHM = "  algorithm attention.forward\n"
PROBLEM = "problem { head_dim 128  dtype bf16  q broadcast  kv jagged  mask none }"
TILES = "tiles { persistent  order longest_first by kv_length  next static deal zigzag }"
OUT_OVER_Q = "region io[g] { out over q }"
OUT = "smem out[g] : bf16[m, d]"

#: Bad schedule -> words of its help, then the replacements that follow them.
REPAIRS = {
    # memory and registers
    "uneven_ring": (
        "give `v` a ring of its own",
        (
            "smem kv     : bf16[n, d]  depth 3  holds k, v",
            "smem k      : bf16[n, d]\n  smem v      : bf16[n, d]  depth 2",
        ),
    ),
    "early_wait": ("a depth that 2 divides", ("depth 3  holds k, v", "depth 4  holds k, v")),
    "apart_from_itself": ("drop one `acc`", ("  apart { acc, acc }\n\n", "")),
    "lag_of_three": (
        "place `pv[i-3]` before `qk[i]`",
        ("{ qk[i]  pv[i-3] }", "{ pv[i-3]  qk[i] }"),
    ),
    "kv_depth_4": (OUT_OVER_Q, ("  load { load_q", f"  {OUT_OVER_Q}\n\n  load {{ load_q")),
    "kv_depth_0": ("write `depth 2` or more", ("depth 0", "depth 2")),
    "kv_ring_of_one": ("write `depth 2`", ("depth 1", "depth 2")),
    "q_too_deep": ("`q` fits with `depth 1`", ("depth 2", "depth 1")),
    "acc_too_deep": ("`acc` fits with `depth 1`", ("depth 2", "depth 1")),
    "registers_with_depth": (
        "drop `depth 2`",
        ("  depth 2", ""),
        ("reg alpha", "tmem alpha"),
        ("(p,", "(p, alpha,"),
    ),
    "s_and_p_apart": ("drop `apart`", ("  apart { s, p }\n", "")),
    "registers_over": ("`registers 232` in `softmax`", ("registers 248", "registers 232")),
    "registers_of_512": ("write 232", ("registers 512", "registers 232")),
    "registers_odd": ("write 176 or 184", ("registers 180", "registers 176")),
    "threads_over": ("only issues needs 1 warp", ("warps 16", "warps 1")),
    "s_in_slices": ("drop `slices 2`", ("f32[m, n]  slices 2", "f32[m, n]")),
    "p_in_3_slices": ("1, 2, 4 or 8", ("slices 3", "slices 8")),
    "alpha_in_registers": (
        "declare `alpha` as `tmem`",
        ("reg  alpha", "tmem alpha"),
        ("(p,", "(p, alpha,"),
    ),
    # regions
    "apart_inside_a_region": ("drop one of the two", ("  apart { s, p }\n", "")),
    "region_over_live_acc": ("drop `region scores`", ("  region scores[g] { s over acc }\n", "")),
    "region_over_live_alpha": (
        "side by side: `(p, alpha)`",
        ("(p, row_sum, row_max) over alpha", "(p, alpha, row_sum, row_max)"),
    ),
    "region_of_two_memories": ("one memory", ("s over q", "s over (p, alpha, row_sum, row_max)")),
    "region_of_one": ("drop the region", ("  region scores[g] { s }\n", "")),
    "region_of_two_counts": ("the same index", ("region io { kv over out }", OUT_OVER_Q)),
    "region_of_two_depths": ("one depth", ("f32[m, n]  depth 2", "f32[m, n]")),
    "region_with_p_twice": ("keep one of the two", ("row_max, p)", "row_max)")),
    "region_with_registers": ("declare it as `tmem`", ("reg  alpha", "tmem alpha")),
    "misspelt_buffer_in_region": ("mean `alpha`?", ("alfa", "alpha")),
    # buffers
    "misspelt_buffer": ("mean `alpha`?", ("alfa", "alpha")),
    "misspelt_value": ("mean `v`?", ("k, vv", "k, v")),
    "comma_too_many": ("drop the comma", ("smem q[g], ", "smem q[g] ")),
    "cyrillic_letter": ("ASCII letters", ("st\u043ere", "store")),
    "buffer_twice": (
        "drop one of the two",
        ("  smem q[g]   : bf16[m, d]\n  smem out", "  smem out"),
    ),
    "q_in_tmem": ("write `smem`", ("tmem q", "smem q")),
    "q_of_f32": ("write `bf16`", ("q[g]   : f32", "q[g]   : bf16")),
    "q_of_key_rows": ("write `[m, d]`", ("bf16[n, d]\n", "bf16[m, d]\n")),
    "q_without_group": ("write `q[g]`", ("smem q      :", "smem q[g]   :")),
    "kv_with_group": ("write `kv`", ("smem kv[g]", "smem kv")),
    "q_in_the_kv_ring": ("a buffer of its own", ("k, v, q", "k, v")),
    "v_in_two_buffers": ("keep `v` in one", ("  smem vv     : bf16[n, d]  holds v\n", "")),
    "v_nowhere": ("`holds k, v`", ("holds k ", "holds k, v ")),
    "out_nowhere": (f"add `{OUT}`", ("  tmem s[g] ", f"  {OUT}\n  tmem s[g] ")),
    # rings and orders
    "ring_order_swapped": ("`load_k` before `load_v`", ("load_v[i]  load_k", "load_k[i]  load_v")),
    "ring_for_two_steps": ("write `load_v[i]`", ("load_v[i-1]", "load_v[i]")),
    "mma_order_overwrites_p": (
        "place `pv[0][i-1]` before `qk[0][i]`",
        (
            "qk[0][i]  qk[1][i]  pv[0][i-1]  pv[1][i-1]",
            "pv[0][i-1]  qk[0][i]  pv[1][i-1]  qk[1][i]",
        ),
    ),
    "pv_before_its_qk": (
        "place `qk[1][i]` before `pv[1][i]`",
        ("pv[0][i]  qk[0][i]  pv[1][i]  qk[1][i]", "qk[0][i]  pv[0][i]  qk[1][i]  pv[1][i]"),
    ),
    "pv_three_steps_behind": ("write `pv[0][i-1]`", ("][i-3]", "][i-1]")),
    "finish_before_the_loop": (
        "after the loop",
        ("  correction { finish[g] }\n", ""),
        ("  store      { store_out", "  correction { finish[g] }\n  store      { store_out"),
    ),
    "load_q_after_the_loop": (
        "before the loop",
        ("  load { load_q[g] }\n", ""),
        (LOOP, f"  load {{ load_q[g] }}\n{LOOP}"),
    ),
    "offset_too_far": ("let it run closer", ("[i-9]", "[i-1]")),
    "peel_without_mask": ("with `softmax`", ("{ peel  pv", "{ pv")),
    "publish_in_another_role": (
        "in the role `softmax`",
        (
            "correction { publish_stats[g]  finish",
            "softmax[g] { publish_stats[g] }\n  correction { finish",
        ),
    ),
    "softmax_of_all_groups": (
        "such as `softmax[g]`",
        (
            "correction { peel  softmax[g][i] ",
            "softmax[g] { peel  softmax[g][i] }\n    correction {",
        ),
    ),
    # ops and indices
    "misspelt_op": ("mean `qk`?", ("kq[0]", "qk[0]")),
    "op_missing": ("place `load_v[i]` in a role", ("load_k[i]", "load_k[i]  load_v[i]")),
    "op_missing_for_a_group": ("place `pv[1][i-1]` too", ("qk[1][i] }", "pv[1][i-1]  qk[1][i] }")),
    "op_twice": ("drop one", ("load_k[i]  load_k[i]", "load_k[i]")),
    "op_in_two_roles": ("drop one", ("rescale[g][i]  softmax[g][i]", "rescale[g][i]")),
    "block_missing": (
        "`store` runs nothing yet",
        ("  correction { finish[g] }\n", "  correction { finish[g] }\n  store { store_out[g] }\n"),
    ),
    "group_too_high": ("`[0]` or `[1]`", ("qk[2]", "qk[1]")),
    "group_called_h": ("write `[g]`", ("rescale[h]", "rescale[g]")),
    "groups_nowhere": ("write `m 128 x 2 as g`", ("m 128  #", "m 128 x 2 as g  #")),
    "loop_index_left_out": ("write `qk[1][i]`", ("qk[1] }", "qk[1][i] }")),
    "loop_index_called_j": ("write `[i]`", ("[j]", "[i]")),
    "group_index_left_out": ("write `rescale[g][i]`", ("rescale[i]", "rescale[g][i]")),
    "index_too_many": ("write `load_k[i]`", ("load_k[g][i]", "load_k[i]")),
    "block_without_group": ("write `softmax[g]`", ("softmax { peel", "softmax[g] { peel")),
    "block_with_group": ("write `mma`", ("mma[g] ", "mma ")),
    "step_op_before_the_loop": ("inside the loop", ("load_q[g]  load_k[i]", "load_q[g]")),
    "tile_op_in_the_loop": ("before the loop", ("load_q[g]  load_k[i]", "load_k[i]")),
    "loop_over_q": ("write `loop i over kv`", ("over q {", "over kv {")),
    "loop_missing": (
        "add `loop i over kv { ... }`",
        ("    load       { load_k", f"{LOOP}    load       {{ load_k"),
        (END, f"{END}  }}\n"),
    ),
    # names
    "kernel_called_for": ("such as `my_for`", ("kernel for", "kernel my_for")),
    "group_called_in": (
        "choose another name",
        ("as in ", "as my_in "),
        ("[in]", "[my_in]"),
    ),
    # roles
    "misspelt_role": ("mean `mma`?", ("    mm  ", "    mma  ")),
    "softmax_on_0_warps": ("write 4, ", ("warps 0", "warps 4")),
    "role_idle": ("drop the role", ("  role spare      { warps 1  registers 24 }\n", "")),
    "role_twice": (
        "drop one of the two",
        (
            "  role load       { warps 1  registers 24 }\n  role load ",
            "  role load ",
        ),
    ),
    "default_missing": ("write `default`", ("warps 4  registers 120", "warps 4  default")),
    "default_twice": ("write `registers 24`", ("warps 1  default", "warps 1  registers 24")),
    "default_with_registers": ("drop `registers 120`", ("registers 120  default", "default")),
    "default_with_replicas": (
        "make a role without replicas",
        ("warps 4  registers 120", "warps 4  default"),
        ("softmax[g] { warps 4  default", "softmax[g] { warps 4  registers 184"),
    ),
    "warps_missing": (
        "`warps 1` for a role that only issues",
        ("{ registers 24 }", "{ warps 1  registers 24 }"),
    ),
    "warps_of_3": ("1, 2, 4, 8 or 16", ("warps 3", "warps 2")),
    "warps_twice": ("keep one", ("warps 1  warps 2", "warps 1")),
    "registers_missing": (
        "add `registers 24`",
        ("mma        { warps 1 }", "mma        { warps 1  registers 24 }"),
    ),
    "softmax_on_8_warps": ("write `warps 4`", ("warps 8", "warps 4")),
    "softmax_on_1_warp": ("write `warps 4`", ("softmax[g] { warps 1", "softmax[g] { warps 4")),
    # head
    "algorithm_missing": (
        f"add a line such as `{ALGORITHM.strip()}`",
        ("  target", f"{ALGORITHM}  target"),
    ),
    "target_missing": ("`target sm_100a`", (ALGORITHM, f"{ALGORITHM}  target sm_100a\n")),
    "problem_missing": (f"add a line such as `{PROBLEM}`", ("  tile {", f"  {PROBLEM}\n  tile {{")),
    "tile_missing": (
        "`tile { m 128 x 2 as g  n 128 }`",
        ("  role correction", "  tile { m 128 x 2 as g  n 128 }\n  role correction"),
    ),
    "head_dim_missing": ("add `head_dim 128`", ("problem { ", "problem { head_dim 128  ")),
    "head_dim_of_96": ("write 64 or 128", ("head_dim 96", "head_dim 64")),
    "m_of_64": ("write 128", ("m 64 ", "m 128 ")),
    "m_missing": ("`m 128 x 2 as g`", ("  tile {\n", "  tile {\n    m 128 x 2 as g\n")),
    "groups_of_5": ("write 1 to 4", ("128 x 5", "128 x 2")),
    "size_k": ("`m` and `n`", ("    k 64\n", "")),
    "size_twice": ("drop one of the two", ("    n 64\n", "")),
    "misspelt_algorithm": (
        "mean `attention.forward`?",
        ("attention.forwards", "attention.forward"),
    ),
    "misspelt_word": ("mean `smem`?", ("smen", "smem")),
    "unknown_target": ("mean `sm_100a`?", ("sm_120a", "sm_100a")),
    # tiles
    "tiles_missing": (
        f"add a line such as `{TILES}`",
        ("{ store_out[g] }\n", f"{{ store_out[g] }}\n  {TILES}\n"),
    ),
    "tiles_without_lifetime": ("add `persistent`", ("tiles { ", "tiles { persistent  ")),
    "tiles_without_next": (f"`{NEXT}`", ("by kv_length", f"by kv_length  {NEXT}")),
    "one_tile_with_next": (f"drop `{NEXT}`", (f"  {NEXT}", "")),
    "clc_without_asker": (f"write `{NEXT}`", ("next clc", NEXT)),
    "clc_asked_by_two": ("such as `load`", ("by softmax", "by load")),
    "misspelt_asker": ("mean `load`?", ("by loader", "by load")),
    "zigzag_with_clc": (
        "write `next static deal zigzag`",
        ("next clc deal zigzag asked by load", "next static deal zigzag"),
    ),
    "static_without_deal": (
        "`next static deal zigzag`",
        ("next static", "next static deal zigzag"),
    ),
    "static_with_asker": ("drop `asked by load`", (" asked by load", "")),
    **BACKWARD,
    # what is not built yet
    "later_f32_inputs": ("write `dtype bf16`", ("dtype f32", "dtype bf16")),
    "later_causal": ("write `mask none`", ("mask causal", "mask none")),
    "later_window": ("write `mask none`", ("mask window 128", "mask none")),
    "later_kv_dense": ("write `kv jagged`", ("kv dense", "kv jagged")),
    "later_pair": ("leave it out", ("  pair { leader 0  qk split m }\n", "")),
    "later_tune": ("write `3`", ("tune 2..4 default 3", "3")),
    "later_lives": ("leave it out", ("  lives qk[0][i] -> softmax[g][i]", "")),
    "later_second_loop": ("in the first loop", ("  loop j over kv { load { load_k[j] } }\n", "")),
    "later_one_replica": ("write `softmax[g]`", ("softmax[0] {", "softmax[g] {")),
    "later_order_valid": ("or `order given`", ("order valid with block innermost", "order given")),
    "later_groups_of_keys": ("behind `m`", ("n 128 x 2 as h", "n 128")),
    "later_softmax_of_another_step": ("the same step", ("rescale[g][i-1]", "rescale[g][i]")),
    # words
    "equals_sign": ("as in `depth 3`", ("depth = 3", "depth 3")),
    "semicolon": ("nothing else is needed", ("depth 3;", "depth 3")),
    "number_run_together": ("write `128 x 2`", ("128x2", "128 x 2")),
    "second_kernel": ("one file holds one kernel", ("kernel b { }\n", "")),
    # Hopper: what a target lacks, turns, values in registers
    "tmem_on_hopper": ("write `reg`", ("tmem s", "reg s")),
    "clc_on_hopper": (f"write `{STATIC}`", (NEXT, STATIC)),
    "pair_on_hopper": ("leave it out", ("  pair { leader 0  qk split m }\n", "")),
    "turn_on_blackwell": (NO_TURN, ("turn { softmax[g][i] }", "softmax[g][i]")),
    "turn_without_replicas": (NO_TURN, ("turn { load_k[i]  load_v[i] }", "load_k[i]  load_v[i]")),
    "turn_after_the_loop": (NO_TURN, ("turn { finish[g] }", "finish[g]")),
    "turn_in_a_turn": (NO_TURN, ("turn { pv[g][i-1] }", "pv[g][i-1]")),
    "turn_of_nothing": (NO_TURN, ("turn { }", "")),
    "loads_in_replicas": (
        "in a role without replicas",
        ("  role fill[g]     { warps 1  registers 24 }\n", ""),
        ("load { load_v[i] }\n    fill[g] { load_k[i] }", "load { load_k[i]  load_v[i] }"),
    ),
    "m_of_128_on_hopper": ("write 64", ("m 128 ", "m 64 ")),
    "slices_of_registers": ("drop `slices 2`", ("  slices 2", "")),
    "k_in_registers": ("write `smem`", ("reg k", "smem k")),
    "s_in_smem_on_hopper": ("write `reg`", ("smem s", "reg s")),
    "out_nowhere_on_hopper": (
        "add `smem out[g] : dtype[m, d]`",
        ("  # Scores", "  smem out[g] : dtype[m, d]\n  # Scores"),
    ),
    "stats_cross_roles_on_hopper": (
        "place `publish_stats` and `finish` in one role",
        ("{ finish[g] }", "{ publish_stats[g]  finish[g] }"),
        ("  load { publish_stats[g] }\n", ""),
    ),
    "stats_after_finish": (
        "place `finish[g]` after `publish_stats[g]`",
        ("finish[g]  publish_stats[g]", "publish_stats[g]  finish[g]"),
    ),
    "p_overwritten_in_registers": (
        "place `pv[g][i-1]` before `softmax[g][i]`",
        ("softmax[g][i]  pv[g][i-1]", "pv[g][i-1]  softmax[g][i]"),
    ),
    "alpha_used_before_softmax": (
        "place `rescale[g][i]` after `softmax[g][i]`",
        ("rescale[g][i]  softmax[g][i]", "softmax[g][i]  rescale[g][i]"),
    ),
    "pv_two_steps_behind_softmax": ("write `pv[g][i-1]`", ("[i-2]", "[i-1]")),
    "qk_ahead_of_softmax": (
        "place `qk[g][i+1]` after `softmax[g][i]`",
        (
            "turn { qk[g][i+1]  pv[g][i-1] }  softmax[g][i]",
            "turn { pv[g][i-1] }  softmax[g][i]  turn { qk[g][i+1] }",
        ),
    ),
    "qk_two_steps_ahead": ("write `qk[g][i+1]`", ("qk[g][i+2]", "qk[g][i+1]")),
    "staggered_forward": ("leave it out", (" staggered", "")),
    "qk_behind_softmax": ("write `qk[g][i]`", ("qk[g][i-1]", "qk[g][i]")),
    "pv_after_rescale": (
        "place `pv[g][i-1]` before `softmax[g][i]`",
        ("softmax[g][i]  rescale[g][i]  pv[g][i-1]", "pv[g][i-1]  softmax[g][i]  rescale[g][i]"),
    ),
    "pv_before_its_p": (
        "place `pv[g][i]` after `rescale[g][i]`",
        (
            "qk[g][i]  pv[g][i] }  softmax[g][i]  rescale[g][i]",
            "qk[g][i] }  softmax[g][i]  rescale[g][i]  pv[g][i]",
        ),
    ),
    "rescale_of_the_step_before": (
        "place `rescale[g][i-1]` before `pv[g][i-1]`",
        ("pv[g][i-1]", "rescale[g][i-1]  pv[g][i-1]"),
        ("softmax[g][i]  rescale[g][i-1]", "softmax[g][i]"),
    ),
    "ring_too_deep_in_a_case": ("`k` fits with `depth 9`", ("12 if", "9 if")),
    "registers_for_tiles": ("write `registers 192`", ("registers 160", "registers 192")),
    "registers_for_wide_tiles": ("with `n 64` the tiles fit", ("n 128 ", "n 64 ")),
    # instances
    "clc_with_q_jagged": (f"write `{STATIC}`", (NEXT, STATIC)),
    "one_per_cta_with_q_jagged": (
        f"write `persistent  {STATIC}`",
        ("one_per_cta", f"persistent  {STATIC}"),
    ),
    "head_dims_with_96": ("write 64, or leave it out", ("128, 96", "128, 64")),
    "dtypes_with_f32": ("write `fp16`, or leave it out", ("bf16, f32", "bf16")),
    "q_dense_in_a_set": ("write `jagged`, or leave it out", ("dense", "jagged")),
    "types_as_head_dims": ("write `128` or `64`", ("head_dim in {bf16, fp16}", "head_dim in {64}")),
    "numbers_as_dtypes": ("write `bf16` or `fp16`", ("16, 32", "bf16")),
    "layouts_as_dtypes": ("write `bf16` or `fp16`", ("jagged, dense", "fp16")),
    "types_as_q": ("write `broadcast` or `jagged`", ("q in {bf16, fp16}", "q jagged")),
    "head_dims_with_a_word": ("drop the comma", (", large", "")),
    "head_dim_offered_twice": ("keep one", ("64, 128", "64")),
    "dtype_offered_twice": ("keep one", ("bf16, bf16", "bf16")),
    "case_of_another_head_dim": ("write `3` alone", (" (6 if head_dim 64)", "")),
    "case_of_head_dim_96": ("drop `4 if head_dim 96`", (", 4 if head_dim 96", "")),
    "case_of_a_type_for_head_dim": ("write `2` alone", (" (3 if head_dim bf16)", "")),
    "case_given_twice": ("the first one counts", (", 4 if head_dim 64", "")),
    "depth_of_20_in_a_case": ("write at most 16", ("20 if", "3 if")),
    "n_of_96_in_a_case": ("write 64 or 128", ("96 if", "64 if")),
    "q_of_bf16_where_dtype_varies": ("write `dtype`", ("bf16[m", "dtype[m")),
    "q_of_f32_where_dtype_varies": ("write `dtype`", ("q[g]   : f32", "q[g]   : dtype")),
    "tiles_without_next_on_hopper": (
        f"add `{STATIC}`",
        ("by kv_length", f"by kv_length  {STATIC}"),
    ),
    "tiles_without_lifetime_on_hopper": (
        f"add `persistent  {STATIC}`",
        ("tiles { ", f"tiles {{ persistent  {STATIC}  "),
    ),
    "tile_missing_on_hopper": (
        "`tile { m 64 x 2 as g  n 128 }`",
        ("  role load ", "  tile { m 64 x 2 as g  n 128 }\n  role load "),
    ),
}
