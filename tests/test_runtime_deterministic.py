"""Deterministic algorithms: what a backward by kernels says when torch is told to use no others."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest
import torch

import jfagen
from jfagen.runtime.backward import check_determinism
from jfagen.runtime.reference import reference

OFFSETS = torch.tensor([0, 3, 9])
SAID = (
    r"jfagen\.attention does not have a deterministic implementation: reduce-adds in float32 sum "
    r"dq .* `torch\.use_deterministic_algorithms\(True\)`; jfagen\.runtime\.reference\.reference"
)


@pytest.fixture(autouse=True)
def _as_before():
    yield
    torch.use_deterministic_algorithms(False)


def leaves():
    generator = torch.Generator().manual_seed(3)
    return [
        torch.randn(rows, 2, 64, generator=generator).bfloat16().requires_grad_()
        for rows in (5, 9, 9)
    ]


@pytest.fixture
def kernel(monkeypatch):
    """A device with a backward kernel; returns how often it was launched."""
    launched = []

    def backward(dout, q, k, v, *others, **how):
        launched.append(how)
        return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)

    monkeypatch.setattr("jfagen.runtime.backward.backward_schedule", lambda device: "bwd")
    module = SimpleNamespace(backward=backward)
    monkeypatch.setattr("jfagen.runtime.backward.load", lambda wanted: module)
    return launched


def gradients():
    given = leaves()
    return torch.autograd.grad(jfagen.attention(*given, OFFSETS).sum(), given)


def test_nothing_is_said_unless_torch_is_told(kernel):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_determinism()
        gradients()
    assert len(kernel) == 1


def test_a_backward_by_kernels_is_refused_before_anything_is_launched(kernel):
    torch.use_deterministic_algorithms(True)
    with pytest.raises(RuntimeError, match=SAID):
        gradients()
    assert not kernel


def test_with_warn_only_it_is_a_warning(kernel):
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match=SAID):
        gradients()
    assert len(kernel) == 1


def test_the_forward_has_one_order_and_is_not_refused(kernel):
    torch.use_deterministic_algorithms(True)
    assert torch.isfinite(jfagen.attention(*leaves(), OFFSETS).float()).all()


@pytest.mark.parametrize("operator", [True, False])
def test_the_reference_is_deterministic_and_gives_the_same_bits_again(operator):
    torch.use_deterministic_algorithms(True)
    found = []
    for _ in range(3):
        given = leaves()
        out = (
            jfagen.attention(*given, OFFSETS)
            if operator
            else reference(*given, OFFSETS, None, 0.125)[0]
        )
        found.append(torch.autograd.grad(out.sum(), given))
    for again in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], again, strict=True))
