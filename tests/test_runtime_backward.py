"""The backward before a kernel: what it passes on, and what it says of determinism."""

from __future__ import annotations

import ast
import warnings
from types import SimpleNamespace

import pytest
import torch
from builders import ROOT

import jfagen
from jfagen.runtime.backward import check_determinism
from jfagen.runtime.reference import reference

OFFSETS = torch.tensor([0, 3, 9])
TILES = (OFFSETS,)
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
        launched.append((dout, others, how))
        return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)

    monkeypatch.setattr("jfagen.runtime.backward.backward_schedule", lambda device: "bwd")
    module = SimpleNamespace(backward=backward)
    monkeypatch.setattr("jfagen.runtime.backward.list_key_blocks", lambda *given: TILES)
    monkeypatch.setattr("jfagen.runtime.backward.load", lambda wanted: module)
    return launched


def gradients():
    given = leaves()
    return torch.autograd.grad(jfagen.attention(*given, OFFSETS).sum(), given)


def test_the_options_of_the_forward_and_both_incoming_gradients_reach_the_kernel(kernel):
    """A mask, a factor or a gradient that the backward never hears of is wrong in silence."""
    given = leaves()
    out, lse = jfagen.attention(*given, OFFSETS, scale=0.3, return_lse=True)
    torch.autograd.grad([out.sum(), (lse * 2).sum()], given, retain_graph=True)
    torch.autograd.grad(lse.sum(), given)
    (dout, others, how), (none, _, _) = kernel
    assert torch.equal(dout, torch.ones_like(out)) and torch.equal(none, torch.zeros_like(out))
    assert torch.equal(others[2], OFFSETS)
    assert how["tiles"] is TILES
    assert how["scale"] == 0.3 and torch.equal(how["dlse"], torch.full_like(lse, 2))


def test_a_backward_has_every_option_of_its_forward():
    for backward in sorted((ROOT / "generated").rglob("bwd*.py")):
        forward = backward.with_name(backward.name.replace("bwd", "fwd"))
        if forward.exists():
            one, other = (options(path) for path in (forward, backward))
            assert one <= other, backward
            assert {"dlse", "scale", "tiles"} <= other, backward


def options(path):
    """The keywords of the host function that people call."""
    names = ("forward", "backward")
    body = ast.parse(path.read_text()).body
    function = next(node for node in body if getattr(node, "name", None) in names)
    return {argument.arg for argument in function.args.kwonlyargs}


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
