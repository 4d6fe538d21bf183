"""Edits of the backward's schedule: slices, staging, held slices, and where dQ lives."""

from __future__ import annotations

from itertools import product

import pytest
from builders import compiled, compiled_text, edited

from jfagen.diagnostics import CompileError, render_all
from jfagen.machine.trial import Problem, run_trial
from jfagen.toolchain import compile_text

#: 128 query rows: one slot for dO, so that 32 KB are left for staging; dO is loaded in its step.
WIDE = (
    ("m 64   #", "m 128  #"),
    ("smem do    : dtype[m, d]  depth 2", "smem do    : dtype[m, d]"),
    ("load_do[j+1]  load_lse[j]", "load_lse[j]  load_do[j]"),
)
STATIC = (("next clc asked by load", "next static deal round_robin"),)
STAGE = "smem stage : f32[m, 32]  depth 2"
REDUCE = "reduce_dq[j] in slices of 32 through stage  hold 1"
MMA = "mma     { st[j]  dk[j-1]  dq[j-1]  dpt[j]  dv[j] }"
UNPIPELINED = "mma     { st[j]  dpt[j]  dv[j]  dk[j]  dq[j] }"
WALKS = {"clc": (), "static": STATIC}
COMBINATIONS = list(product((16, 32, 64), (1, 2, 3), (0, 1, 2)))


def staged(columns, depth, hold):
    """Return the edits for slices of some columns, a ring of some slots, some slices held."""
    return (
        (STAGE, f"smem stage : f32[m, {columns}]  depth {depth}"),
        (REDUCE, f"reduce_dq[j] in slices of {columns} through stage  hold {hold}"),
    )


def refusal(*edits):
    with pytest.raises(CompileError) as caught:
        compiled_text(edited("bwd", *edits))
    return render_all(caught.value.diagnostics)


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize(("columns", "depth", "hold"), COMBINATIONS)
def test_64_queries_fit_with_any_staging(columns, depth, hold, walk):
    one = compiled("bwd", *staged(columns, depth, hold), *WALKS[walk])
    assert one.placement.columns == 512
    assert one.resources.smem_bytes == 131_072 + 32_768 + 512 - 16_384 + (
        64 * columns * 4 * depth + one.sync.barriers * 8 + (32 if walk == "clc" else 0)
    )


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize(("columns", "depth", "hold"), COMBINATIONS)
def test_any_staging_sums_dq(columns, depth, hold, walk):
    text = compiled("bwd", *staged(columns, depth, hold), *WALKS[walk]).kernel.text
    policy = ("late", "random", "at_once")[(depth + hold) % 3]
    problem = Problem(lengths=(129, 0, 64), queries=70, heads=1)
    result = run_trial(text, problem, policy=policy, sms=2, seed=columns)
    assert result.right, (result.errors, result.outcome.text())


@pytest.mark.slow
@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize(("columns", "depth", "hold"), COMBINATIONS)
def test_any_staging_compiles_without_a_spill_in_a_hot_loop(columns, depth, hold, walk):
    made = compile_text(compiled("bwd", *staged(columns, depth, hold), *WALKS[walk]).kernel.text)
    check_figures(made, compute=185, mma=285)


def check_figures(made, compute, mma):
    """Hold a cubin to instructions a lap; no lap without a mask touches local memory."""
    assert made.findings == ()
    assert made.resources.tmem_columns <= 512 and made.resources.smem_bytes <= 232_448
    loops = {role: [x for x in made.loops if x.role == role] for role in ("compute", "mma")}
    plain, masked = loops["compute"]
    assert plain.instructions <= compute and masked.instructions <= 1.5 * plain.instructions
    assert loops["mma"][0].instructions <= mma
    assert plain.counts.get("BAR.SYNC", 0) <= 12
    for one in made.loops:
        spilled = one.counts.get("LDL", 0) + one.counts.get("STL", 0)
        assert one is masked or not spilled, (one.role, spilled)


FITTING = [(16, 1), (16, 2), (16, 3), (32, 1), (32, 2), (64, 1)]


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize(("columns", "depth"), FITTING)
def test_128_queries_fit_with_at_most_32_kilobytes_of_staging(columns, depth, walk):
    one = compiled("bwd", *WIDE, *staged(columns, depth, 0), *WALKS[walk])
    assert one.placement.columns == 512
    extents = one.placement.layout.extents
    assert extents["dq"].root == extents["dpt"].root


@pytest.mark.parametrize(("columns", "depth"), [(32, 3), (64, 2), (64, 3)])
def test_128_queries_with_more_staging_are_refused_with_the_bytes(columns, depth):
    shown = refusal(*WIDE, *staged(columns, depth, 1))
    assert "smem-overflow" in shown
    assert f"`stage` takes {128 * columns * 4 * depth:,} bytes" in shown
    assert "232,448" in shown


HELD = [
    (*shape, hold)
    for shape, hold in product(FITTING, (0, 1, 2))
    if shape[0] * min(hold + 1, 128 // shape[0]) <= 112
]


@pytest.mark.parametrize("hold", [1, 2])
def test_128_queries_cannot_hold_slices_of_64_columns(hold):
    shown = refusal(*WIDE, *staged(64, 1, hold))
    assert "register-tiles" in shown
    assert "`stage` takes 128: 2 slices" in shown


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "depth", "hold"), HELD)
def test_128_queries_compile_for_the_target(columns, depth, hold):
    made = compile_text(compiled("bwd", *WIDE, *staged(columns, depth, hold)).kernel.text)
    check_figures(made, compute=330, mma=330)


def test_of_128_queries_dq_lies_over_dp_and_nothing_says_so_in_the_schedule():
    one = compiled("bwd", *WIDE)
    assert "over dq at" in one.kernel.text


def apart(one, other):
    return (("  # The next tile's", f"  apart {{ {one}, {other} }}\n  # The next tile's"),)


def together(one, other):
    return (("  # The next tile's", f"  together {{ {one}, {other} }}\n  # The next tile's"),)


def over(host, guest):
    line = f"  region place {{ {host} over {guest} }}\n  # The next tile's"
    return (("  # The next tile's", line),)


def test_of_128_queries_dq_and_scores_with_places_of_their_own_do_not_fit():
    shown = refusal(*WIDE, *apart("st, dpt", "dq"))
    assert "tmem-overflow" in shown
    assert "640 columns" in shown


def test_of_128_queries_dq_apart_from_dp_makes_the_scores_share_and_roles_wait():
    """There is one more way to fit: dp over s, dq over p and ds: legal, with more barriers."""
    one, free = compiled("bwd", *WIDE, *apart("dpt", "dq")), compiled("bwd", *WIDE)
    extents = one.placement.layout.extents
    assert extents["dpt"].root == extents["st"].root
    assert one.sync.barriers > free.sync.barriers


def test_of_128_queries_dq_over_the_scores_needs_another_order():
    shown = refusal(*WIDE, *over("st", "dq"))
    assert "order-cycle" in shown and "`dq`" in shown
    one = compiled("bwd", *WIDE, *over("st", "pt over dq"), (MMA, UNPIPELINED))
    assert one.placement.layout.extents["dq"].root == "st"


def test_of_64_queries_dq_has_columns_of_its_own():
    one = compiled("bwd", *apart("dpt", "dq"))
    assert one.placement.columns == 512
    assert one.placement.layout.extents["dq"].root == "dq"


@pytest.mark.parametrize("host", ["dpt", "st"])
def test_of_64_queries_dq_is_larger_than_scores(host):
    shown = refusal(*over(host, "dq"))
    assert f"`dq` needs 128 columns, and the place of `{host}` has 64" in shown
    assert f"`dq over {host}`" in shown


def test_scores_may_lie_over_dq():
    extents = compiled("bwd", *together("dpt", "dq")).placement.layout.extents
    assert extents["dpt"].root == extents["dq"].root == "dq"


def test_buffers_that_are_to_share_a_place_share_it():
    one = compiled("bwd", *together("pt", "st"))
    assert one.placement.layout.extents["pt"].root == one.placement.layout.extents["st"].root


def test_the_order_that_reads_dscores_before_they_are_there_is_refused():
    shown = refusal(
        ("compute { peel  probs[j]  dscores[j] }", "compute { peel  dscores[j]  probs[j] }")
    )
    assert "probabilities" in shown


def test_one_slot_for_q_is_refused_with_the_circle():
    shown = refusal(("smem q     : dtype[m, d]  depth 2", "smem q     : dtype[m, d]"))
    assert "`q`" in shown or "load_q" in shown


def test_held_slices_need_registers():
    shown = refusal(*staged(64, 1, 2), ("registers 136", "registers 80"))
    assert "register-tiles" in shown
    assert "write `registers 88` for `reduce`" in shown
    assert "with `hold 0` they fit" in shown
