"""What the help of each bad schedule of the backward says, and of places and slices."""

from __future__ import annotations

BACKWARD = {
    # slices and their staging
    "store_in_slices": ("write `store_out[g]` alone", (" in slices of 32 through out", "")),
    "reduce_without_slices": (
        "write `reduce_dq[j] in slices of 32 through stage`",
        ("{ reduce_dq[j] }", "{ reduce_dq[j] in slices of 32 through stage }"),
    ),
    "slices_of_48": ("write 16, 32 or 64", ("slices of 48", "slices of 32")),
    "hold_5": ("write 0, 1, 2, 3 or 4", ("hold 5", "hold 2")),
    "stage_undeclared": ("did you mean `stage`?", ("through staging", "through stage")),
    "stage_too_wide": ("write `[m, 32]`", ("f32[m, 64]", "f32[m, 32]")),
    "stage_in_tmem": ("write `smem`", ("tmem stage", "smem stage")),
    "stage_holds_q": ("drop `holds`", ("  holds q", "")),
    "held_slices_over": ("write `registers 88` for `reduce`", ("registers 80", "registers 88")),
    "stage_too_many": ("is called after its value", ("  smem stage2 : f32[m, 32]  depth 2\n", "")),
    "stage_is_q": (
        "write another name, and add `smem stage : f32[m, 32]  depth 2`",
        ("through q", "through stage"),
        ("  smem dk_out", "  smem stage : f32[m, 32]  depth 2\n  smem dk_out"),
    ),
    "dst_undeclared": (
        "add `tmem dst : dtype[n, m]`",
        ("  tmem dpt : f32[n, m]\n", "  tmem dpt : f32[n, m]\n  tmem dst : dtype[n, m]\n"),
    ),
    # of the backward
    "index_of_no_group": ("leave `[g]` out everywhere", ("compute[g]", "compute")),
    "backward_in_groups": ("write `m 64`", ("m 64 x 2 as g", "m 64")),
    "backward_longest_first": (
        "write `order valid with block innermost`",
        ("order longest_first by kv_length", "order valid with block innermost"),
    ),
    "rows_of_96": ("write 64 or 128", ("m 96 ", "m 64 ")),
    "probs_on_16_warps": ("`warps 8`", ("warps 16", "warps 8")),
    "reduce_on_8_warps": ("write `warps 4`", ("role reduce  { warps 8", "role reduce  { warps 4")),
    "q_ring_of_one_hangs": (
        "give `q` a depth of 2",
        ("smem q     : bf16[m, d]", "smem q     : bf16[m, d]  depth 2"),
    ),
    "dscores_before_probs": (
        "place `probs[j]` before it",
        ("dscores[j]  probs[j]", "probs[j]  dscores[j]"),
    ),
    "dscores_a_step_late": ("the same step", ("dscores[j-1]", "dscores[j]")),
    "finish_dk_before_the_loop": (
        "after the loop",
        ("  compute { finish_dk }\n  load", "  load"),
        ("compute { finish_dv }", "compute { finish_dv  finish_dk }"),
    ),
    # shared places
    "dq_over_dpt": ("`dq over dpt`", ("dpt over dq", "dq over dpt")),
    "together_in_a_region": ("keep one of the two", ("  together { s, p }\n", "")),
    "together_of_one": ("name another buffer", ("together { dq }", "together { dpt, dst }")),
    "apart_alone": ("name another buffer", ("apart { st }", "apart { st, dpt }")),
    "together_with_itself": ("drop one `dq`, or name another", ("{ dq, dq }", "{ dpt, dst }")),
    "together_in_smem": ("write a `region`", ("  together { q, do }\n", "")),
    "together_and_apart": ("drop one of the two", ("  apart { dpt, dst }\n", "")),
    "together_of_two_depths": ("one depth", ("bf16[n, m]  depth 2", "bf16[n, m]")),
    "together_too_late": (
        "place `dq[j-1]` before `st[j]`",
        ("{ st[j]  dk[j-1]  dq[j-1]  dpt[j]", "{ dk[j-1]  dq[j-1]  st[j]  dpt[j]"),
    ),
    # on Hopper
    "wait_before_its_matmul": (
        "drop it",
        ("  wait dk[g][j]  dk[g][j]", "  wait dv[g][j]  dk[g][j]"),
    ),
    "wait_for_no_matmul": ("write it between", ("wait probs[g][j]", "wait dv[g][j]")),
    "wait_at_the_end": ("drop it", ("  wait dk[g][j]", "")),
    "wait_on_b200": ("leave it out", ("  wait dpt[j]", "")),
    "no_wait_for_dv": (
        "write `wait dv[g][j]` before `st[g][j+1]`",
        ("st[g][j+1]", "wait dv[g][j]  st[g][j+1]"),
    ),
    "with_another_depth": (
        "give them rings of one depth",
        ("smem lse       : f32[m]  depth 2", "smem lse       : f32[m]  depth 3"),
    ),
    "with_another_step": (
        "place `load_delta[j+1]` alone",
        (" with load_delta[j+1]", "  load_delta[j]"),
    ),
    "groups_of_query_rows": (
        "write the groups behind `n`",
        ("m 64 x 2 as g", "m 64"),
        ("n 64  ", "n 64 x 2 as g  "),
    ),
    "whole_dq_of_two_groups": ("write `[m, d/2]`", ("dq[g]  : f32[m, d]", "dq[g]  : f32[m, d/2]")),
    "hold_in_registers": ("drop `hold 1`", ("  hold 1", "")),
    "slices_from_registers": ("write 64", ("slices of 32", "slices of 64 (32 if head_dim 64)")),
}
