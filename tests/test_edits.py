"""The edits that a kernel engineer makes first, each with its known answer."""

from __future__ import annotations

import pytest
from builders import compiled, compiled_text, edited

from jfagen.diagnostics import CompileError, render_all
from jfagen.machine.trial import Problem, run_trial
from jfagen.readback.kernel_text import parse_kernel
from jfagen.toolchain import compile_text

LENGTHS = (0, 1, 129, 300, 517)
MMA = "mma        { pv[0][i-1]  qk[0][i]  pv[1][i-1]  qk[1][i] }"
REGION = "  region scores[g] { s over (p, alpha, row_sum, row_max) }"
TILES = "order longest_first by kv_length  next clc asked by load"

SLICES = [(f"slices_{n}", (("slices 2", f"slices {n}"),)) for n in (1, 4)]
DEPTHS = [("depth_2", (("depth 3", "depth 2"),))] + [
    (
        f"depth_{n}_out_over_q",
        (("depth 3", f"depth {n}"), (REGION, f"{REGION}\n  region io[g] {{ out over q }}")),
    )
    for n in (4, 5)
]
RESCALE = (
    "rescale_in_softmax",
    (
        ("softmax[g] { peel  softmax[g][i] }", "softmax[g] { peel  softmax[g][i]  rescale[g][i] }"),
        ("    correction { rescale[g][i] }\n", ""),
        ("tmem alpha[g] : f32[m]", "reg alpha[g] : f32[m]"),
        ("(p, alpha, row_sum, row_max)", "(p, row_sum, row_max)"),
    ),
)
ORDERS = [
    ("rotated", ((MMA, "mma        { qk[0][i]  pv[1][i-1]  qk[1][i]  pv[0][i] }"),)),
    ("unpipelined", ((MMA, "mma        { qk[0][i]  qk[1][i]  pv[0][i]  pv[1][i] }"),)),
]
NO_PEEL = ("no_peel", (("{ peel  softmax[g][i] }", "{ softmax[g][i] }"),))
ONE_GROUP = (
    "one_group",
    (
        ("m 128 x 2 as g", "m 128 x 1 as g"),
        (MMA, "mma        { pv[0][i-1]  qk[0][i] }"),
    ),
)
SOURCES = [
    ("given_static", ((TILES, "order given  next static deal round_robin"),)),
    ("given_clc", ((TILES, "order given  next clc asked by load"),)),
    (
        "longest_static",
        ((TILES, "order longest_first by kv_length  next static deal round_robin"),),
    ),
    ("longest_zigzag", ((TILES, "order longest_first by kv_length  next static deal zigzag"),)),
]
LEGAL = dict([*DEPTHS, RESCALE, *ORDERS, NO_PEEL, *SLICES, ONE_GROUP, *SOURCES])


def refusal(*edits):
    with pytest.raises(CompileError) as caught:
        compiled_text(edited("fwd", *edits))
    return render_all(caught.value.diagnostics)


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_edit_is_proved_and_computes_the_right_numbers(name):
    one = compiled("fwd", *LEGAL[name])
    for policy in ("random", "late", "at_once"):
        problem = Problem(lengths=LENGTHS, rising=policy != "random")
        result = run_trial(one.kernel.text, problem, policy=policy, sms=2)
        assert result.right, (policy, result.outcome.text())


@pytest.mark.slow
@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_edit_compiles_for_the_target_within_its_budget(name):
    made = compile_text(compiled("fwd", *LEGAL[name]).kernel.text)
    assert made.findings == ()


def test_a_ring_of_four_is_refused_with_the_bytes_and_the_way_out():
    shown = refusal(("depth 3", "depth 4"))
    assert "262,144 bytes" in shown and "`kv`" in shown
    assert "out over q" in shown


def test_with_alpha_in_registers_no_barrier_hands_it_over():
    one = compiled("fwd", *RESCALE[1])
    assert not [c for c in one.sync.channels if "alpha" in c.name]
    assert [use.op.name for use in one.program.program_of("correction").uses()] == ["finish"]


def test_a_rotation_is_the_same_sequence_of_matmuls():
    def matmuls(one):
        trace = parse_kernel(one.kernel.text).trace((4, 1))
        role = next(role for role in trace.actions if role.name == "mma")
        return [
            (action.reads, action.writes, action.accumulates)
            for action in trace.actions[role]
            if action.kind == "mma"
        ]

    assert matmuls(compiled("fwd", *LEGAL["rotated"])) == matmuls(compiled("fwd"))


def test_scores_before_the_last_p_is_read_are_refused():
    order = "mma        { qk[0][i]  qk[1][i]  pv[0][i-1]  pv[1][i-1] }"
    shown = refusal((MMA, order))
    assert "order-cycle" in shown
    assert "`p`" in shown and "`s`" in shown and "overwrites" in shown


def test_without_peel_barriers_and_columns_stay_and_one_loop_has_the_mask():
    one, whole = compiled("fwd"), compiled("fwd", *NO_PEEL[1])
    assert whole.sync == one.sync
    assert whole.placement == one.placement
    loops = "for step in range("
    assert whole.kernel.text.count(loops) == one.kernel.text.count(loops) - 1
    assert whole.kernel.text.count("mask_columns(") == one.kernel.text.count("mask_columns(")


def test_slices_multiply_the_full_barrier_of_p_alone():
    for slices in (1, 2, 4):
        one = compiled("fwd", ("slices 2", f"slices {slices}"))
        numbers = {c.name: c.barriers for c in one.sync.channels}
        rest = {name: n for name, n in numbers.items() if name != "p_full"}
        assert numbers["p_full"] == 2 * slices
        assert sum(rest.values()) == 26


def test_one_group_takes_half_of_everything():
    one = compiled("fwd", *ONE_GROUP[1])
    assert one.placement.allocated == 256
    assert one.placement.smem_bytes == 163_840
    assert one.resources.threads == 12 * 32
    assert one.resources.registers["correction"] == 256


def test_zigzag_with_launch_control_is_refused_with_the_reason():
    shown = refusal((TILES, "order longest_first by kv_length  next clc deal zigzag asked by load"))
    assert "fixed lists" in shown


HOPPER = (
    ("target    sm_100a", "target    sm_90a"),
    ("m 128 x 2 as g  # two groups of 128 query rows", "m 64 x 2 as g"),
    ("role correction { warps 4  default }  # gets the registers that are left: 120\n", ""),
    ("role softmax[g] { warps 4  registers 184 }", "role softmax[g] { warps 4  registers 232 }"),
    ("role mma        { warps 1  registers 24 }\n", ""),
    ("role load       { warps 1  registers 24 }", "role load       { warps 4  default }"),
    ("tmem s[g]     : f32[m, n]", "reg s[g]     : f32[m, n]"),
    ("tmem p[g]     : bf16[m, n]  slices 2", "reg p[g]     : bf16[m, n]"),
    ("tmem alpha[g] : f32[m]", "reg alpha[g] : f32[m]"),
    ("tmem row_sum[g], row_max[g] : f32[m]", "reg row_sum[g], row_max[g] : f32[m]"),
    ("tmem acc[g]   : f32[m, d]", "reg acc[g]   : f32[m, d]"),
    (REGION, ""),
    (f"    {MMA}\n", ""),
    (
        "peel  softmax[g][i] }",
        "peel  turn { qk[g][i]  pv[g][i-1] }  softmax[g][i]  rescale[g][i] }",
    ),
    ("    correction { rescale[g][i] }\n", ""),
    ("correction { finish[g] }", "softmax[g] { finish[g] }"),
    (TILES, "order longest_first by kv_length  next static deal zigzag"),
)


def test_from_b200_to_hopper_with_accumulators_in_registers():
    """Edit 11: the matmuls move into the roles whose registers they write; no TMEM, no CLC."""
    one = compiled("fwd", *HOPPER)
    assert one.program.target.name == "sm_90a"
    assert one.placement.allocated == 0
    assert one.resources.registers == {"softmax": 232, "load": 24, "store": 24}
    for policy in ("random", "late", "at_once"):
        problem = Problem(lengths=LENGTHS, rising=policy != "random")
        result = run_trial(one.kernel.text, problem, policy=policy, sms=2)
        assert result.right, (policy, result.outcome.text())
    assert compile_text(one.kernel.text).findings == ()


@pytest.mark.parametrize(
    ("edit", "word"),
    [
        (("reg s[g]     :", "tmem s[g]     :"), "`sm_90a` has no `tmem`"),
        (("next static deal zigzag", "next clc asked by load"), "`sm_90a` has no `clc`"),
        (("  tiles {", "  pair { leader 0 }\n  tiles {"), "`sm_90a` has no `pair`"),
    ],
)
def test_words_that_hopper_lacks_are_errors_at_the_word(edit, word):
    with pytest.raises(CompileError) as caught:
        compiled_text(edited("hopper/fwd", edit))
    shown = render_all(caught.value.diagnostics)
    assert "error[target-lacks]" in shown and word in shown


def test_blackwell_has_no_turns():
    shown = refusal(("{ peel  softmax[g][i] }", "{ peel  turn { softmax[g][i] } }"))
    assert "error[target-lacks]" in shown and "`sm_100a` has no `turn`" in shown


WAITS = {
    # order of ops in a lap -> matmuls that stay in flight at each wait of a lap between others
    "turn { qk[g][i]  pv[g][i-1] }  softmax[g][i]  rescale[g][i]": [1, 0],
    "qk[g][i]  pv[g][i-1]  softmax[g][i]  rescale[g][i]": [1, 0],
    "qk[g][i]  pv[g][i-1]  turn { softmax[g][i]  rescale[g][i] }": [1, 0],
    "pv[g][i-1]  qk[g][i]  softmax[g][i]  rescale[g][i]": [1, 0],
    "turn { qk[g][i] }  turn { pv[g][i-1] }  softmax[g][i]  rescale[g][i]": [1, 0],
    "turn { qk[g][i]  pv[g][i-1] }  turn { softmax[g][i] }  rescale[g][i]": [1, 0],
}
ORDER = "turn { qk[g][i]  pv[g][i-1] }  softmax[g][i]  rescale[g][i]"


@pytest.mark.parametrize("order", WAITS)
def test_the_waits_for_matmuls_follow_from_the_order_of_the_ops(order):
    one = compiled("hopper/fwd", (ORDER, order))
    trace = parse_kernel(one.kernel.text).trace((9,))
    role = next(role for role in trace.actions if role.name == "consumer")
    joins = [action.value for action in trace.actions[role] if action.kind == "join"]
    assert joins[5:7] in (WAITS[order], WAITS[order][::-1])
    for policy in ("random", "late", "at_once"):
        problem = Problem(lengths=LENGTHS, rising=True)
        result = run_trial(one.kernel.text, problem, policy=policy, sms=2)
        assert result.right, (policy, result.outcome.text())


AT_THE_END = "qk[g][i]  softmax[g][i]  rescale[g][i]  pv[g][i]"
AHEAD = "softmax[g][i]  rescale[g][i]  pv[g][i]  qk[g][i+1]"


@pytest.mark.parametrize("order", [AT_THE_END, AHEAD])
def test_a_matmul_in_flight_at_the_end_of_its_lap_is_waited_for_there(order):
    """The toolchain dies of registers that a matmul owns from lap to lap."""
    text = compiled("hopper/fwd", (ORDER, order)).kernel.text
    lap = text[text.index("# full steps: no mask") : text.index("# the masked tail")]
    waits = [line.strip() for line in lap.splitlines() if "async_dot" in line]
    assert "async_dot_wait(0, " in waits[-1]
    problem = Problem(lengths=(0, 1, 127, 129, 300, 513), queries=130, heads=2, head_dim=128)
    for policy in ("late", "at_once"):
        assert run_trial(text, problem, policy=policy).right, policy


@pytest.mark.slow
@pytest.mark.parametrize("order", WAITS)
def test_no_order_makes_the_toolchain_run_matmuls_one_by_one(order):
    assert compile_text(compiled("hopper/fwd", (ORDER, order)).kernel.text).findings == ()
