"""What the tests of gradients on a GPU rely on, tried on the CPU: right is right, wrong is not."""

from __future__ import annotations

import math
import random

import pytest
import torch
from gradient_bench import NAMES, GuardedTorch, check, check_directions, make_case
from host_bench import recorded

from jfagen.kernels import BACKWARDS
from jfagen.runtime.kernels import Wanted, load

EDGES = [0, 1, 2, 15, 17, 63, 64, 65, 127, 128, 129, 300]
LENGTHS, ROWS = [0, 1, 2, 17, 130, 5], [3, 0, 1, 9, 66, 5]
KINDS = [
    (rows, dtype, head_dim, lse)
    for rows in (1, 20, ROWS)
    for dtype, head_dim in ((torch.bfloat16, 64), (torch.float16, 128))
    for lse in (False, True)
]


@pytest.mark.parametrize(("rows", "dtype", "head_dim", "lse"), KINDS)
def test_gradients_of_the_reference_are_right(rows, dtype, head_dim, lse):
    how = {"dtype": dtype, "head_dim": head_dim, "lse": lse}
    for seed in range(3):
        case = make_case(LENGTHS, rows, **how, seed=seed, spare=2 * seed, guards=10 * seed)
        assert check(case) > 0
    check_directions(case)


def as_a_kernel_does(case):
    """The gradients in float32; P before its sum divides, out, P and dS pass through the type."""

    def narrow(x):
        return x.to(case.q.dtype).float()

    found = [torch.zeros(x.shape) for x in case.leaves]
    for b, (mine, theirs) in enumerate(case.ends):
        if not len(case.q[mine]) or not len(case.k[theirs]):
            continue
        at = b if case.q_offsets is None else mine
        given = (case.q[mine], case.k[theirs], case.v[theirs], case.dout[at])
        q, k, v, dout = (x.float().transpose(0, 1) for x in given)
        scores = q @ k.mT * case.factor
        lse = torch.logsumexp(scores, -1, keepdim=True)
        top = scores.amax(-1, keepdim=True)
        out = narrow(narrow(torch.exp(scores - top)) @ v * torch.exp(top - lse))
        probs = torch.exp(scores - lse)
        dscores = narrow(probs * (dout @ v.mT - (dout * out).sum(-1, keepdim=True)))
        found[0][mine] += (dscores @ k * case.factor).transpose(0, 1)
        found[1][theirs] = (dscores.mT @ q * case.factor).transpose(0, 1)
        found[2][theirs] = (narrow(probs).mT @ dout).transpose(0, 1)
    return [x.to(case.q.dtype) for x in found]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("jagged", [False, True])
def test_what_a_kernel_rounds_is_taken_for_rounding(jagged, dtype):
    rng = random.Random(f"{jagged}{dtype}")
    for seed in range(20):
        lengths, rows = ([rng.choice(EDGES) for _ in range(4)] for _ in range(2))
        case = make_case(lengths, rows if jagged else rng.choice(EDGES[1:]), dtype=dtype, seed=seed)
        check(case, as_a_kernel_does(case))
        check(case.change(v=case.v[:1].expand_as(case.v)))


@pytest.mark.parametrize("rows", [20, ROWS])
@pytest.mark.parametrize("place", range(3))
def test_a_wrong_gradient_is_noticed(rows, place):
    case = make_case(LENGTHS, rows, spare=3)
    right = case.gradients()
    covered = case.ends[-1][place > 0]
    spoiled = {
        "a factor": lambda x: x.mul_(1.05),
        "a row": lambda x: x[covered][0].zero_(),
        "not a number": lambda x: x.view(-1)[3].fill_(math.nan),
    }
    for what, spoil in spoiled.items():
        found = [x.clone() for x in right]
        spoil(found[place])
        with pytest.raises(AssertionError, match=NAMES[place]):
            check(case, found)
            pytest.fail(what)
    found = [x.clone() for x in right]
    found[place].mul_(1.05)
    with pytest.raises(AssertionError, match=NAMES[place]):
        check_directions(case, found)


@pytest.mark.parametrize("place", [1, 2])
def test_a_written_row_of_nobody_is_noticed(place):
    case = make_case(LENGTHS, 20, spare=3)
    found = [x.clone() for x in case.gradients()]
    found[place][-1, 0, 0] = 1e-5
    with pytest.raises(AssertionError, match="past the last offset"):
        check(case, found)


def test_a_forgotten_gradient_of_lse_is_noticed():
    case = make_case(LENGTHS, 20, lse=True)
    with pytest.raises(AssertionError, match="dq"):
        check(case, case.change(dlse=None).gradients())


@pytest.mark.parametrize("place", [-1, 6])
def test_guards_notice_what_is_written_past_the_ends(place):
    guarded = GuardedTorch()
    made = guarded.empty((2, 3), dtype=torch.float16, device="cpu")
    assert bool(made.isnan().all()) and not bool(guarded.zeros_like(made).any())
    made.fill_(2)
    guarded.check()
    whole, _ = guarded.made[0]
    whole[guarded.GUARD + place] = 2
    with pytest.raises(AssertionError):
        guarded.check()
    assert guarded.bfloat16 is torch.bfloat16


@pytest.mark.parametrize("jagged", [False, True])
@pytest.mark.parametrize("schedule", BACKWARDS.values())
def test_a_host_part_runs_between_guards(schedule, jagged):
    wanted = Wanted(schedule, jagged, 128, torch.bfloat16)
    module, guarded = load.__wrapped__(wanted), GuardedTorch()
    module.torch = guarded
    launches, _ = recorded(module, wanted)
    assert len(launches) == 3
    guarded.check()
