"""The backward's kernels sum the right gradients on the CPU machine, in every order tried."""

from __future__ import annotations

import re
from itertools import accumulate

import numpy as np
import pytest
import torch
from builders import compiled_instances

from jfagen.machine import Kind, simulate
from jfagen.machine.trial import Problem, run_trial

LENGTHS = (0, 1, 63, 64, 65, 127, 128, 129, 300)
PACKED = (64, 0, 63, 1, 130, 65, 5, 129, 128)
SEEDS = 20
INSTANCES = {
    f"{name}{one.instance.suffix}": one
    for name in ("bwd", "hopper/bwd")
    for one in compiled_instances(name)
}
#: The kernels that most tests look at: of one q for all, and of packed queries.
BROADCAST, JAGGED = ("bwd", "hopper/bwd"), ("bwd_jagged", "hopper/bwd_jagged")
PAIR = (*BROADCAST, *JAGGED)


def right(name, seed=0, policy="random", sms=2, **problem):
    packed = problem.pop("query_lengths", PACKED)
    packed = packed if name in JAGGED else None
    given = {"lengths": LENGTHS, "queries": 130, "heads": 2, "query_lengths": packed, **problem}
    result = run_trial(
        INSTANCES[name].kernel.text,
        Problem(**given),
        seed=seed,
        policy=policy,
        sms=sms,
        nan_neighbours=True,
    )
    assert result.outcome.ok, result.outcome.text()
    assert result.right, (result.errors, result.leak)
    assert not result.outcome.notes, result.outcome.notes


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", PAIR)
def test_twenty_seeds_agree_with_float64_beside_neighbours_of_nan(name, seed):
    policy = ("random", "late", "at_once")[seed % 3]
    right(name, seed=seed, policy=policy, sms=1 + seed % 4, rising=bool(seed % 2))


STARVED = [(name, role.name) for name in PAIR for role in INSTANCES[name].program.roles]


@pytest.mark.parametrize(("name", "role"), STARVED)
def test_a_starved_role_changes_nothing(name, role):
    right(name, policy=f"starve={role}")


@pytest.mark.parametrize("name", BROADCAST)
@pytest.mark.parametrize("queries", [1, 63, 64, 65, 127, 128, 129, 200])
def test_query_rows_past_the_last_one_add_nothing(queries, name):
    right(name, queries=queries, lengths=(5, 200, 0, 128), heads=1, policy="late")


@pytest.mark.parametrize("name", INSTANCES)
def test_every_instance_sums_the_right_gradients(name):
    one = INSTANCES[name]
    problem = Problem(
        lengths=LENGTHS,
        queries=130,
        query_lengths=PACKED if "jagged" in name else None,
        head_dim=one.program.problem.head_dim,
        dtype="fp16" if "fp16" in name else "bf16",
    )
    for policy in ("random", "late", "at_once"):
        result = run_trial(one.kernel.text, problem, policy=policy, sms=3)
        assert result.right, (policy, result.errors)


@pytest.mark.parametrize("seed", range(6))
def test_random_lengths(seed):
    draw = np.random.default_rng(seed)
    lengths = tuple(int(n) for n in draw.integers(0, 400, size=7))
    packed = tuple(int(n) for n in draw.integers(0, 200, size=7))
    for name in JAGGED:
        right(name, seed=seed, lengths=lengths, query_lengths=packed, heads=1)
    queries = int(draw.integers(1, 200))
    for name in BROADCAST:
        right(name, seed=seed, lengths=lengths, queries=queries, heads=1)


def run(name, inputs):
    outcome = simulate(INSTANCES[name].kernel.text, inputs=inputs, entry="backward", sms=2)
    assert outcome.kind is Kind.RESULTS, outcome.text()
    return outcome.outputs


def packed_inputs(keys, queries, spare=0):
    """Return random tensors of packed sequences; the last `spare` rows belong to none."""
    generator = torch.Generator().manual_seed(1)

    def make(rows):
        return torch.randn((rows, 2, 128), generator=generator).to(torch.bfloat16)

    kv, q = [0, *accumulate(keys)], [0, *accumulate(queries)]
    return {
        "dout": make(q[-1] + spare),
        "q": make(q[-1] + spare),
        "k": make(kv[-1] + spare),
        "v": make(kv[-1] + spare),
        "out": make(q[-1] + spare),
        "lse": torch.full((q[-1] + spare, 2), 3.0),
        "kv_offsets": torch.tensor(kv, dtype=torch.int32),
        "q_offsets": torch.tensor(q, dtype=torch.int32),
    }


@pytest.mark.parametrize("name", JAGGED)
def test_keys_without_queries_and_rows_past_the_last_offset_have_gradients_of_zero(name):
    dq, dk, dv = run(name, packed_inputs((130, 70, 5), (0, 40, 0), spare=9))
    for gradient in (dk, dv):
        assert not gradient[:130].any() and not gradient[200:].any()
        assert gradient[130:200].any(axis=(1, 2)).all()
    assert dq[:40].any(axis=(1, 2)).all() and not dq[40:].any()


@pytest.mark.parametrize("name", JAGGED)
def test_queries_without_keys_have_gradients_of_zero(name):
    dq, dk, dv = run(name, packed_inputs((0, 3, 0), (64, 2, 7)))
    assert not dq[:64].any() and not dq[66:].any()
    assert dq[64:66].any(axis=(1, 2)).all() and dk.any() and dv.any()


@pytest.mark.parametrize("name", JAGGED)
@pytest.mark.parametrize(
    ("keys", "queries"), [((), ()), ((0, 0), (0, 0)), ((0,), (5,)), ((5,), (0,))]
)
def test_nothing_to_do_gives_zeros(keys, queries, name):
    dq, dk, dv = run(name, packed_inputs(keys, queries))
    assert dq.shape[0] == sum(queries) and dk.shape[0] == dv.shape[0] == sum(keys)
    assert not dq.any() and not dk.any() and not dv.any()


@pytest.mark.parametrize("name", JAGGED)
def test_the_mask_keeps_overflow_out_of_dq(name):
    """Past the last key scores are 0: where all others are very negative exp(-lse) is infinite."""
    inputs = packed_inputs((40,), (70,))
    inputs["q"], inputs["k"] = torch.ones_like(inputs["q"]), -torch.ones_like(inputs["k"])
    inputs |= {"scale": 1.0, "lse": torch.full((70, 2), -128.0 + float(np.log(40)))}
    dq, dk, dv = run(name, inputs)
    assert np.isfinite(dq).all() and np.isfinite(dk).all() and np.isfinite(dv).all()
    text = INSTANCES[name].kernel.text
    bare = re.sub(r"probs = mask_rows\(.*\)", "pass", text)
    assert bare.count("pass") > text.count("pass")
    outcome = simulate(bare, inputs=inputs, entry="backward", sms=2)
    assert not np.isfinite(outcome.outputs[0]).all(), "without the mask it shows"


@pytest.mark.parametrize("sms", [1, 2, 3, 5])
@pytest.mark.parametrize("name", PAIR)
def test_any_number_of_sms_adds_every_block_of_keys_once(name, sms):
    """A block that is done twice doubles its rows of dq; ids past the last add nothing."""
    right(name, sms=sms, lengths=(130, 1, 300, 0), query_lengths=(70, 1, 64, 3), queries=70)
