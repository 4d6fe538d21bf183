"""The operator on the CPU: opcheck, one graph for all lengths, no backward, no silent types."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

import jfagen
from jfagen.runtime.reference import reference

#: torch's own parts use what torch calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
OPERATOR = torch.ops.jfagen.attention_forward.default
REFUSED = "the backward of jfagen.attention has no kernel for compute capability 9.0 yet"
NO_TRANSFORMS = "is not built for torch.func"


def small(packed, rows=10, dtype=torch.float32):
    """q, k, v and offsets of two sequences."""
    generator = torch.Generator().manual_seed(rows)
    shapes = ((rows, 2, 8), (rows + 3, 2, 8), (rows + 3, 2, 8))
    q, k, v = (torch.randn(s, generator=generator, dtype=dtype) for s in shapes)
    kv, qo = torch.tensor([0, rows // 2, rows + 3]), torch.tensor([0, rows // 3, rows])
    return q, k, v, kv, qo if packed else None


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_opcheck(packed, grad, planned):
    q, k, v, kv, qo = small(packed)
    tiles = [torch.zeros(3, dtype=torch.int32)] if planned else []
    checks = ["test_schema", "test_faketensor", "test_autograd_registration"]
    checks.append("test_aot_dispatch_dynamic")
    given = (q.requires_grad_(grad), k, v, kv, qo, 0.1, tiles, True)
    found = torch.library.opcheck(OPERATOR, given, test_utils=checks)
    assert found == dict.fromkeys(checks, "SUCCESS")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("packed", [False, True])
def test_shapes_types_and_strides_are_known_without_values(packed, dtype):
    """Strides of the fake results are those of the real ones."""
    given = small(packed, dtype=dtype)
    real = jfagen.attention(*given, return_lse=True)
    with FakeTensorMode() as mode:
        fake = [x if x is None else mode.from_tensor(x) for x in given]
        found = jfagen.attention(*fake, return_lse=True)
    meta = jfagen.attention(*(x if x is None else x.to("meta") for x in given), return_lse=True)
    for one, other, third in zip(found, real, meta, strict=True):
        facts = (other.shape, other.dtype, other.stride())
        assert (one.shape, one.dtype, one.stride()) == facts
        assert (third.shape, third.dtype, third.stride()) == facts


def layer(q, k, v, kv, qo, scale=None):
    out, lse = jfagen.attention(q * 1, k, v, kv, qo, scale=scale, return_lse=True)
    return out + 1, lse * 2


def compiled(function, backend):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    return torch.compile(function, fullgraph=True, backend=counter), counter


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("packed", [False, True])
def test_one_graph_serves_all_lengths(packed, backend):
    """Nothing breaks the graph, no batch compiles anew."""
    call, counter = compiled(layer, backend)
    for rows in (11, 12, 30, 64, 7, 1000):
        given = small(packed, rows)
        for x in given[:3]:
            torch._dynamo.mark_dynamic(x, 0)
        for one, other in zip(call(*given), layer(*given), strict=True):
            assert torch.allclose(one, other, atol=1e-6)
    assert counter.frame_count == 1


def test_offsets_from_lengths_inside_of_the_graph():
    """Offsets come out of a cumulative sum in the same graph."""

    def whole(q, k, lengths):
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        return jfagen.attention(q, k, k, offsets)

    call, counter = compiled(whole, "aot_eager")
    q, k, *_ = small(False)
    for lengths in ([4, 9], [13, 0], [0, 5]):
        assert torch.equal(call(q, k, torch.tensor(lengths)), whole(q, k, torch.tensor(lengths)))
    assert counter.frame_count == 1


def test_a_scale_is_a_constant_of_its_graph_and_does_not_break_it():
    call, counter = compiled(layer, "aot_eager")
    given = small(False)
    for scale in (0.5, 0.25, 1.75):
        assert torch.allclose(call(*given, scale)[0], layer(*given, scale)[0])
    count = counter.frame_count
    for scale in (0.25, 1.75, 0.5):
        assert torch.allclose(call(*given, scale)[0], layer(*given, scale)[0])
    assert counter.frame_count == count


@pytest.mark.parametrize("packed", [False, True])
def test_a_plan_goes_into_a_graph(packed):
    q, k, v, kv, qo = small(packed)
    made = jfagen.plan(kv, qo, total_queries=10, total_keys=13)
    call, _ = compiled(lambda q: jfagen.attention(q, k, v, kv, qo, plan=made), "aot_eager")
    assert torch.equal(call(q), jfagen.attention(q, k, v, kv, qo))


def test_a_compiled_call_still_looks_at_the_offsets():
    call, _ = compiled(layer, "aot_eager")
    q, k, v, _, _ = small(False)
    with pytest.raises(ValueError, match="kv_offsets falls from 9 to 5 at sequence 1"):
        call(q, k, v, torch.tensor([0, 9, 5]), None)


@pytest.mark.parametrize("packed", [False, True])
def test_a_device_whose_backward_has_no_kernel_refuses_it_in_words(packed, monkeypatch):
    given = list(small(packed))
    given[0].requires_grad_()
    out, lse = jfagen.attention(*given, return_lse=True)
    monkeypatch.setattr("jfagen.runtime.kernels._capability_of", lambda device: (9, 0))
    monkeypatch.setattr("jfagen.runtime.kernels.BACKWARDS", {})
    for result in (out, lse):
        with pytest.raises(NotImplementedError, match=REFUSED):
            result.sum().backward(retain_graph=True)
    assert given[0].grad is None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("packed", [False, True])
def test_without_gradients_nothing_is_recorded(packed, mode):
    given = small(packed)
    wanted = jfagen.attention(*given)
    with mode():
        parameters = [torch.nn.Parameter(x) for x in given[:3]]
        out = jfagen.attention(*parameters, *given[3:])
    assert not out.requires_grad and torch.equal(out, wanted)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_autocast_changes_neither_types_nor_numbers(dtype, grad):
    given = list(small(True, dtype=dtype))
    wanted = jfagen.attention(*given, return_lse=True)
    given[0].requires_grad_(grad)
    with torch.autocast("cpu", torch.bfloat16):
        found = jfagen.attention(*given, return_lse=True)
        direct = reference(*given, 8**-0.5)
    for one, other, third in zip(found, wanted, direct, strict=True):
        assert one.dtype == other.dtype == third.dtype
        assert torch.equal(one, other) and torch.equal(third, other)


def test_types_that_autocast_has_mixed_are_refused():
    q, k, v, kv, _ = small(False)
    with torch.autocast("cpu", torch.bfloat16):
        projected = q.flatten(1) @ torch.eye(16)
        with pytest.raises(TypeError, match=r"k has elements of type torch.float32, q of torch.bf"):
            jfagen.attention(projected.unflatten(1, (2, 8)), k, v, kv)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_transforms_are_refused_in_words(place):
    """A kernel would compute with the numbers below a wrapper, and lose what it carries."""
    given = list(small(False))

    def of(x):
        return jfagen.attention(*given[:place], x, *given[place + 1 :])

    x = given[place]
    tries = {
        "vmap": lambda: torch.func.vmap(of)(x.expand(3, *x.shape)),
        "grad": lambda: torch.func.grad(lambda y: of(y).sum())(x),
        "jvp": lambda: torch.func.jvp(of, (x,), (x,)),
    }
    for name, tried in tries.items():
        with pytest.raises(NotImplementedError, match=NO_TRANSFORMS):
            pytest.fail(f"{name}: {tried()}")
    with forward_ad.dual_level():
        with pytest.raises(NotImplementedError, match=NO_TRANSFORMS):
            of(forward_ad.make_dual(x, torch.ones_like(x)))
        assert torch.equal(of(x), jfagen.attention(*given))


def test_the_reference_takes_transforms():
    q, k, v, kv, _ = small(False, dtype=torch.float64)

    def of(x):
        return reference(x, k, v, kv, None, 0.3)[0]

    several = torch.stack([q, 2 * q, -q])
    wanted = torch.stack([of(x) for x in several])
    assert torch.allclose(torch.func.vmap(of)(several), wanted)
    tangent = torch.ones_like(q)
    derivative = torch.func.jvp(of, (q,), (tangent,))[1]
    step = 1e-6
    differences = (of(q + step * tangent) - of(q - step * tangent)) / (2 * step)
    assert torch.allclose(derivative, differences, atol=1e-8)


def test_the_operator_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q, *rest = small(True)
        jfagen.attention(q.requires_grad_(), *rest)
