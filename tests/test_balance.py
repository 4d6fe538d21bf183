"""Predicted load per SM: who gets which tile, what no deal can beat, and lengths that are drawn."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jfagen.balance.as_json import as_json
from jfagen.balance.deals import Way, deal, longest_first
from jfagen.balance.draw import Draw, draw_lengths, length_range
from jfagen.balance.prediction import predict
from jfagen.balance.tiles import Cost, Problem, tiles_of
from jfagen.balance.wrong import WrongInput
from jfagen.emit.render import macros

LENGTHS = st.lists(st.integers(0, 700), min_size=1, max_size=30).map(tuple)
SMS = st.integers(1, 40)
QUERIES = st.one_of(st.none(), st.integers(1, 400))
steady = settings(max_examples=100, deadline=None, derandomize=True, database=None)


def tiles(lengths, queries=200, heads=2):
    if queries is None and not any(lengths):
        lengths = (*lengths, 1)  # self attention without a row has no tile
    return tiles_of(Problem(lengths=lengths, queries=queries, heads=heads), Cost())


# ---- tiles -------------------------------------------------------------------------------------


def test_tiles_are_numbered_as_find_tile_numbers_them():
    """Sequence, then head, then block of query rows; what a tile costs follows from its keys."""
    problem = Problem(lengths=(129, 0, 128), queries=300, heads=2, rows=128, keys=128)
    made = tiles_of(problem, Cost(fixed=0.5, empty=0.25))
    sequence_tiles, blocks = 2 * 3, 3
    places = [(t // sequence_tiles, t % sequence_tiles // blocks, t % blocks) for t in range(18)]
    assert places == list(product(range(3), range(2), range(3)))
    assert made.key_rows.tolist() == [problem.lengths[sequence] for sequence, _, _ in places]
    assert made.costs.tolist() == [2.5] * 6 + [0.25] * 6 + [1.5] * 6


def test_in_self_attention_a_sequence_has_as_many_query_as_key_rows():
    problem = Problem(lengths=(300, 0, 64), queries=None, heads=1)
    assert tiles_of(problem, Cost()).key_rows.tolist() == [300, 300, 300, 64]


# ---- deals -------------------------------------------------------------------------------------


@steady
@given(LENGTHS, QUERIES, SMS)
def test_every_deal_deals_every_tile_once(lengths, queries, sms):
    made = tiles(lengths, queries)
    for way in Way:
        dealt = deal(made, sms, way)
        lists = [dealt.tiles(sm) for sm in range(sms)]
        assert sorted(tile for own in lists for tile in own) == list(range(len(made)))
        assert dealt.loads.tolist() == pytest.approx([made.costs[own].sum() for own in lists])


@steady
@given(LENGTHS, SMS)
def test_lists_are_what_the_kernels_walk(lengths, sms):
    """The macros of `templates/walk.py.jinja`, run with Python's own integers."""
    made, order = tiles(lengths), longest_first(tiles(lengths)).tolist()
    walks = macros("walk.py.jinja")
    for way, text in (
        (Way.ZIGZAG, walks.zigzag(None, "walked.append(tile)\n")),
        (Way.SORTED, walks.round_robin(None, "walked.append(tile)\n")),
    ):
        dealt = deal(made, sms, way)
        for sm in range(sms):
            tl = SimpleNamespace(program_id=lambda _, sm=sm: sm, num_programs=lambda _: sms)
            walked = []
            exec(text, {"tl": tl, "tiles": len(made), "walked": walked})
            assert dealt.tiles(sm) == [order[turn] for turn in walked]


def test_longest_first_keeps_the_order_of_equals():
    """The host sorts with `argsort(descending=True, stable=True)`."""
    made = tiles((5, 9, 5, 9), queries=1, heads=1)
    assert longest_first(made).tolist() == [1, 3, 0, 2]


@steady
@given(LENGTHS, QUERIES, SMS)
def test_greedy_is_within_the_bound_of_list_scheduling(lengths, queries, sms):
    """Graham: whoever ends last began before the others had done more than the mean."""
    made = tiles(lengths, queries)
    mean, largest = made.costs.sum() / sms, made.costs.max()
    makespan = deal(made, sms, Way.GREEDY).loads.max()
    assert makespan <= mean + largest * (1 - 1 / sms) + 1e-9
    assert makespan <= max(mean, largest) * (2 - 1 / sms) + 1e-9


@steady
@given(st.lists(st.integers(0, 700), min_size=1, max_size=7).map(tuple), st.integers(1, 3))
def test_greedy_is_within_a_third_of_the_best_deal_there_is(lengths, sms):
    """Graham's bound for longest first holds against the best deal, found by trying all.

    It does not hold against mean and largest tile: three equal tiles on two SMs take 2 of 1.5.
    """
    made = tiles(lengths, queries=1, heads=1)
    best = min(
        np.bincount(sm, weights=made.costs, minlength=sms).max()
        for sm in product(range(sms), repeat=len(made))
    )
    makespan = deal(made, sms, Way.GREEDY).loads.max()
    assert makespan <= best * float(Fraction(4, 3) - Fraction(1, 3 * sms)) + 1e-9


# ---- predictions -------------------------------------------------------------------------------


@steady
@given(LENGTHS, SMS)
def test_no_deal_beats_the_bound(lengths, sms):
    found = predict(Problem(lengths=lengths), Cost(), sms)
    low, high = found.scale
    for one in found.deals:
        assert one.makespan >= found.bound - 1e-9 and one.against_bound >= 1
        assert low <= one.smallest <= one.mean + 1e-9 and one.makespan <= high
        assert one.idle == pytest.approx(1 - one.mean / one.makespan, abs=1e-12)
        assert one.gain == pytest.approx(found.deals[0].makespan / one.makespan - 1)


def test_a_small_case_by_hand():
    """Four tiles of 4.7, 1.7, 1.7 and 0.1 steps on two SMs."""
    problem = Problem(lengths=(512, 100, 0, 128), queries=1, heads=1)
    found = predict(problem, Cost(), sms=2)
    loads = {one.way: one.loads.round(9).tolist() for one in found.deals}
    assert loads == {
        Way.GIVEN: [4.8, 3.4],
        Way.SORTED: [6.4, 1.8],
        Way.ZIGZAG: [4.8, 3.4],
        Way.GREEDY: [4.7, 3.5],
    }
    assert found.bound == pytest.approx(4.7) and found.deals[0].mean == pytest.approx(4.1)


def test_tiles_that_cost_nothing_are_no_division_by_zero():
    found = predict(Problem(lengths=(0, 0)), Cost(empty=0), sms=3)
    assert [(one.against_bound, one.idle, one.gain) for one in found.deals] == [(1, 0, 0)] * 4


def test_json_holds_every_number():
    draw = Draw(density=0.5, max_length=300, batch=5, seed=3)
    found = predict(Problem(lengths=draw_lengths(draw), queries=None), Cost(), sms=3)
    text = json.loads(as_json(found, draw))
    assert (text["schema"], text["kind"], text["unit"]) == (1, "predicted", "steps")
    assert text["problem"]["queries"] == "self" and text["problem"]["drawn"]["seed"] == 3
    assert tuple(text["problem"]["lengths"]) == found.problem.lengths
    for one, row in zip(found.deals, text["deals"], strict=True):
        assert row["deal"] == one.way and row["loads"] == one.loads.tolist()
        assert row["makespan"] == one.makespan and row["idle_share"] == one.idle


# ---- lengths that are drawn --------------------------------------------------------------------


@steady
@given(st.decimals(0, 1, places=3), st.integers(1, 5_000), st.integers(0, 9))
def test_drawn_lengths_stay_inside_the_range(density, longest, seed):
    draw = Draw(density=float(density), max_length=longest, batch=50, seed=seed)
    low, high = length_range(draw)
    share = 2 * Fraction(density)
    assert 0 <= low <= high <= longest
    if share >= 1:
        assert high == longest and low - 1 < (share - 1) * longest <= low
    else:
        assert low == 0 and high <= share * longest < high + 1
    drawn = draw_lengths(draw)
    assert len(drawn) == 50 and all(low <= length <= high for length in drawn)
    assert drawn == draw_lengths(draw)


@pytest.mark.parametrize(
    ("density", "expected"),
    [(0.55, (100, 1000)), (1.0, (1000, 1000)), (0.5, (0, 1000)), (0.25, (0, 500)), (0.0, (0, 0))],
)
def test_the_range_of_a_density(density, expected):
    assert length_range(Draw(density=density, max_length=1000, batch=1, seed=0)) == expected


def test_both_ends_are_drawn():
    draw = Draw(density=0.5, max_length=3, batch=200, seed=0)
    assert set(draw_lengths(draw)) == {0, 1, 2, 3}


def test_draws_are_those_of_default_rng():
    draw = Draw(density=0.75, max_length=100, batch=8, seed=5)
    drawn = np.random.default_rng(5).integers(50, 100, size=8, endpoint=True)
    assert draw_lengths(draw) == tuple(drawn)


@pytest.mark.parametrize("density", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_density_is_a_share(density):
    with pytest.raises(WrongInput, match="--density"):
        Draw(density=density, max_length=1, batch=1, seed=0)


@pytest.mark.parametrize("cost", [{"fixed": -1.0}, {"fixed": float("nan")}, {"empty": 2.0}])
def test_a_cost_is_a_number_of_steps_and_least_without_keys(cost):
    with pytest.raises(WrongInput, match=f"--{next(iter(cost))}"):
        Cost(**cost)
