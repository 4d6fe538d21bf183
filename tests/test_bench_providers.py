"""Others' attention behind one interface: what is missing, what fits, what is timed."""

from __future__ import annotations

import sys
import types
from contextlib import nullcontext

import pytest
import torch
from bench_stands import attend, cpu_inputs, small_case

import jfagen
from jfagen.bench import providers as provided
from jfagen.bench.check import compare, reference, sample_pairs
from jfagen.bench.providers import CuDNN, FlashAttention4, Jfagen, JfagenPlan, TorchVarlen
from jfagen.bench.records import Dtype
from jfagen.bench.shapes import Direction, Mode
from jfagen.kernels import GeneratedKernel

DENSE = (32, 32, 32)


def is_right(provider, case):
    """Whether what the provider would time gives the result of the reference."""
    inputs, pairs = cpu_inputs(case), sample_pairs(case)
    prepared = provider.prepare(inputs)
    results = prepared.results(prepared.call())
    return compare(results, reference(inputs, pairs), case, pairs).right


def lengths_of(offsets):
    return tuple(offsets.diff().tolist())


def packed(q, k, v, q_offsets, kv_offsets):
    return attend(q, k, v, lengths_of(q_offsets), lengths_of(kv_offsets))


@pytest.fixture
def fa4(monkeypatch):
    """A stand-in for flash-attn-4 and what it is called with."""
    calls = []

    def flash_attn_varlen_func(q, k, v, **options):
        calls.append(options)
        return packed(q, k, v, options["cu_seqlens_q"], options["cu_seqlens_k"]), None

    module = types.SimpleNamespace(flash_attn_varlen_func=flash_attn_varlen_func)
    monkeypatch.setitem(sys.modules, "flash_attn", types.ModuleType("flash_attn"))
    monkeypatch.setitem(sys.modules, "flash_attn.cute", module)
    return calls


@pytest.fixture
def ours(monkeypatch):
    """Stand-ins for `jfagen.attention` and `jfagen.plan`, and how often they were called."""
    calls = []

    def attention(q, k, v, kv_offsets, q_offsets=None, *, scale=None, return_lse=False, plan=None):
        calls.append(("attention", plan))
        batch = len(kv_offsets) - 1
        if q_offsets is not None:
            return packed(q, k, v, q_offsets, kv_offsets)
        q_lengths = (len(q),) * batch
        out = attend(q.repeat(batch, 1, 1), k, v, q_lengths, lengths_of(kv_offsets))
        return out.view(batch, *q.shape)

    def plan(kv_offsets, q_offsets=None, **options):
        calls.append(("plan", None))
        return "the plan"

    monkeypatch.setattr(jfagen, "attention", attention, raising=False)
    monkeypatch.setattr(jfagen, "plan", plan, raising=False)
    return calls


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("direction", Direction)
def test_fa4_gets_packed_q_outside_of_the_timing(fa4, mode, direction):
    case = small_case(mode=mode, direction=direction)
    assert FlashAttention4().available() is None
    assert is_right(FlashAttention4(), case)
    (options,) = fa4
    assert lengths_of(options["cu_seqlens_q"]) == case.query_lengths
    assert lengths_of(options["cu_seqlens_k"]) == case.lengths
    assert options["max_seqlen_q"] == max(case.query_lengths)
    assert options["max_seqlen_k"] == max(case.lengths)


@pytest.mark.parametrize("mode", Mode)
def test_torch_varlen_gets_packed_q(monkeypatch, mode):
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    case = small_case(mode=mode)

    def varlen_attn(q, k, v, q_offsets, kv_offsets, most_queries, most_keys):
        assert (most_queries, most_keys) == (max(case.query_lengths), max(case.lengths))
        return packed(q, k, v, q_offsets, kv_offsets)

    monkeypatch.setattr(varlen, "varlen_attn", varlen_attn)
    assert TorchVarlen().available() is None and is_right(TorchVarlen(), case)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("direction", Direction)
def test_cudnn_is_asked_for_by_name_and_gets_its_own_layout(monkeypatch, mode, direction):
    attention, asked = torch.nn.attention, []

    def sdpa_kernel(backend):
        asked.append(backend)
        return nullcontext()

    monkeypatch.setattr(attention, "sdpa_kernel", sdpa_kernel)
    assert is_right(CuDNN(), small_case(DENSE, mode=mode, direction=direction))
    assert asked == [attention.SDPBackend.CUDNN_ATTENTION]


def test_cudnn_is_only_for_sequences_of_one_length():
    assert CuDNN().unfit(small_case(DENSE), (10, 0)) is None
    assert CuDNN().unfit(small_case((32, 32, 31)), (10, 0)) == "only for sequences of one length"


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("direction", Direction)
def test_ours_is_called_as_users_call_it(ours, mode, direction):
    assert Jfagen().available() is None
    assert is_right(Jfagen(), small_case(mode=mode, direction=direction))
    assert ours == [("attention", None)]


@pytest.mark.parametrize("mode", Mode)
def test_gradients_of_the_real_attention_are_right_and_dq_is_that_of_the_given_q(mode):
    case = small_case(mode=mode, direction=Direction.BACKWARD)
    inputs = cpu_inputs(case)
    prepared = Jfagen().prepare(inputs)
    grads = prepared.call()
    assert [one.shape for one in grads] == [one.shape for one in (inputs.q, inputs.k, inputs.v)]
    assert is_right(Jfagen(), case)


@pytest.mark.parametrize("provider", [Jfagen, FlashAttention4])
def test_of_a_backward_the_forward_is_not_timed(fa4, ours, provider):
    prepared = provider().prepare(cpu_inputs(small_case(direction=Direction.BACKWARD)))
    calls = len(fa4) + len(ours)
    first, again = prepared.call(), prepared.call()
    assert calls == len(fa4) + len(ours) == 1
    assert all(one.equal(other) for one, other in zip(first, again, strict=True))


def test_the_plan_is_made_once_and_outside_of_the_timing(ours):
    assert JfagenPlan().available() is None
    prepared = JfagenPlan().prepare(cpu_inputs(small_case()))
    assert ours == [("plan", None)]
    prepared.call(), prepared.call()
    assert ours == [("plan", None), *[("attention", "the plan")] * 2]


def test_ours_says_where_it_would_not_run_a_kernel(monkeypatch):
    kernels = (GeneratedKernel(name="fwd_jagged_d16", target="sm_100a"),)
    monkeypatch.setattr(provided, "generated_kernels", lambda: kernels)
    case = small_case()
    half = small_case().__class__(
        shape=case.shape, seed=case.seed, lengths=case.lengths, dtype=Dtype.FP16
    )
    assert Jfagen().unfit(case, (10, 0)) is None
    assert Jfagen().unfit(half, (10, 0)) == "no generated kernel `fwd_jagged_d16_fp16` for sm_100"
    assert Jfagen().unfit(case, (9, 0)) == "no generated kernel `hopper/fwd_jagged_d16` for sm_90"
    assert Jfagen().unfit(case, (8, 0)) == "no generated kernel `fwd_jagged_d16` for sm_80"


def test_a_backward_needs_the_kernels_of_both_directions(monkeypatch):
    backward = small_case(direction=Direction.BACKWARD)
    names = ["hopper/fwd_jagged_d16", "hopper/bwd_jagged_d16"]
    monkeypatch.setattr(provided, "BACKWARDS", {(9, 0): "hopper/bwd"})
    for count, reason in enumerate(
        (*(f"no generated kernel `{name}` for sm_90" for name in names), None)
    ):
        kernels = tuple(GeneratedKernel(name=name, target="sm_90a") for name in names[:count])
        monkeypatch.setattr(provided, "generated_kernels", lambda found=kernels: found)
        assert Jfagen().unfit(backward, (9, 0)) == reason
    assert "what `jfagen` times" in JfagenPlan().unfit(backward, (9, 0))
    assert JfagenPlan().unfit(small_case(), (9, 0)) is None


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "flash_attn", None)
    assert FlashAttention4().available() == "`flash_attn.cute` is not installed"
    monkeypatch.setitem(sys.modules, "flash_attn", types.ModuleType("flash_attn"))
    monkeypatch.setitem(sys.modules, "flash_attn.cute", types.ModuleType("flash_attn.cute"))
    expected = "`flash_attn.cute` has no `flash_attn_varlen_func`"
    assert FlashAttention4().available() == expected
    monkeypatch.setattr(torch.backends.cudnn, "is_available", lambda: False)
    assert CuDNN().available() == "torch has no cuDNN here"
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", None)
    assert "not installed" in TorchVarlen().available()


def test_a_broken_install_is_a_reason_too(monkeypatch):
    def broken(name):
        raise OSError("libcuda.so.1: cannot open\nmore")

    monkeypatch.setattr(provided.importlib, "import_module", broken)
    assert FlashAttention4().available() == "OSError: libcuda.so.1: cannot open"


def test_every_provider_has_a_name_of_its_own_and_the_baseline_is_one():
    names = [one.name for one in provided.PROVIDERS]
    assert len(names) == len(set(names)) and provided.BASELINE in names


def test_a_backward_has_notes_of_its_own():
    forward, backward = (FlashAttention4().notes_of(direction) for direction in Direction)
    assert backward[: len(forward)] == forward and "sum of dq" in backward[-1]
    assert not any("dq" in note for note in forward)
