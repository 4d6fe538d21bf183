"""Emitted kernels compute the right numbers on the CPU machine: simulated, in every order tried."""

from __future__ import annotations

import pytest
from builders import SHIPPED, STRANGERS, compiled, compiled_instances

from jfagen.machine.trial import Problem, run_trial

LENGTHS = (0, 1, 127, 128, 129, 0, 300, 517)


def text_of(name):
    return compiled(name).kernel.text


def right(name, problem, **how):
    result = run_trial(text_of(name), problem, **how)
    assert result.outcome.ok, result.outcome.text()
    assert result.right, (result.errors, result.leak)
    assert not result.outcome.notes, result.outcome.notes
    return result


@pytest.mark.parametrize("name", SHIPPED)
def test_twenty_seeds_of_the_scheduler_agree_with_float64(name, record_property, capsys):
    traces = set()
    for seed in range(20):
        problem = Problem(lengths=LENGTHS, rising=bool(seed % 2))
        traces.add(right(name, problem, seed=seed, sms=2).outcome.trace)
    with capsys.disabled():
        print(f"\n{name}: 20 seeds, {len(traces)} different traces", end="")
    assert len(traces) >= 15


def roles_of(name):
    return [role.name for role in compiled(name).program.roles]


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        (name, policy)
        for name in SHIPPED
        for policy in ["late", "at_once", *(f"starve={role}" for role in roles_of(name))]
    ],
)
def test_adversarial_orders_agree_with_float64(name, policy):
    right(name, Problem(lengths=LENGTHS, rising=True), policy=policy, sms=2)


@pytest.mark.parametrize("name", SHIPPED)
def test_nan_in_every_other_sequence_changes_nothing(name):
    right(name, Problem(lengths=LENGTHS), nan_neighbours=True, sms=2)
    right(name, Problem(lengths=(3, 130, 128, 1, 257)), nan_neighbours=True, policy="late", sms=1)


@pytest.mark.parametrize("name", SHIPPED)
def test_sequences_without_keys_give_zeros_and_minus_infinity(name):
    right(name, Problem(lengths=(0, 0, 0)))
    right(name, Problem(lengths=(0,)))
    right(name, Problem(lengths=(0, 0, 64, 0)))


@pytest.mark.parametrize("sms", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", ["fwd", "ladder/08_zigzag", "ladder/01_simple"])
def test_any_number_of_sms_deals_every_tile_once(name, sms):
    result = right(name, Problem(lengths=LENGTHS, queries=300), sms=sms)
    dealt = sorted(tile for tiles in result.outcome.tiles for tile in tiles)
    assert len(dealt) == len(set(dealt))


@pytest.mark.parametrize("queries", [1, 100, 128, 129, 255, 257, 520])
def test_query_rows_past_the_last_one_are_not_stored(queries):
    right("fwd", Problem(lengths=(5, 200, 0, 128), queries=queries, heads=1))


@pytest.mark.parametrize("name", STRANGERS)
def test_schedules_that_the_repository_does_not_ship_run_too(name):
    for seed in range(4):
        problem = Problem(lengths=LENGTHS, rising=bool(seed % 2))
        right(name, problem, seed=seed, sms=1 + seed)
    for policy in ("late", "at_once"):
        right(name, Problem(lengths=LENGTHS, rising=True), policy=policy)


INSTANCES = [one.instance.suffix for one in compiled_instances("hopper/fwd")]


@pytest.mark.parametrize("suffix", INSTANCES)
def test_every_instance_computes_the_right_numbers(suffix):
    one = next(o for o in compiled_instances("hopper/fwd") if o.instance.suffix == suffix)
    packed = (5, 0, 130, 128, 1, 64, 200, 3) if "jagged" in suffix else None
    dtype = "fp16" if "fp16" in suffix else "bf16"
    head_dim = one.program.problem.head_dim
    for policy in ("random", "late", "at_once"):
        problem = Problem(
            lengths=LENGTHS,
            head_dim=head_dim,
            dtype=dtype,
            query_lengths=packed,
            rising=policy == "late",
        )
        result = run_trial(
            one.kernel.text, problem, policy=policy, sms=3, nan_neighbours=policy == "random"
        )
        assert result.right, (policy, result.errors)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SHIPPED, *STRANGERS])
def test_random_lengths_in_a_long_sweep(name):
    import random

    rng = random.Random(name)
    for seed in range(60):
        lengths = tuple(
            rng.choice([0, 1, 63, 64, 65, 127, 128, 129, 255, 400, 900]) for _ in range(6)
        )
        problem = Problem(lengths=lengths, queries=rng.choice([64, 256, 300]), rising=seed % 3 == 0)
        right(
            name, problem, seed=seed, sms=rng.randint(1, 5), policy=rng.choice(["random", "late"])
        )
