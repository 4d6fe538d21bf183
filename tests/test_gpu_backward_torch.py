"""The backward behind torch on a GPU: incoming gradients, graphs, torch.compile, refusals."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import triton
from gpu_bench import poison, watchdog
from gradient_bench import NAMES, check, make_case, offsets
from gradient_bench import normal as random_numbers

import jfagen
from jfagen.runtime.backward import attention_backward

pytestmark = pytest.mark.gpu

on_gpu = partial(make_case, device="cuda")
normal = partial(random_numbers, device="cuda")
LENGTHS, ROWS = [130, 0, 570], [64, 600, 36]
MODES = {"broadcast": 130, "jagged": ROWS}


@pytest.fixture(autouse=True)
def _guarded():
    with watchdog():
        yield


def close(found, wanted):
    """dk and dv bit for bit; dq, a sum in any order, to a rounding."""
    for name, one, other in zip(NAMES, found, wanted, strict=True):
        if name == "dq":
            torch.testing.assert_close(one, other, rtol=0.01, atol=0.01)
        else:
            assert torch.equal(one, other), name


LOSSES = {
    "sum": lambda out: out.float().sum(),
    "mean over heads": lambda out: out.float().mean(-2).square().sum(),
    "cat of two": lambda out: torch.cat([out, 2 * out]).float().sum(0).square().sum(),
    "slice of a cat": lambda out: torch.cat([out, 2 * out], -1)[..., 3:-3].float().square().sum(),
    "transposed": lambda out: out.transpose(0, -2).float().cumsum(0).square().mean(),
    "half of the heads": lambda out: out[..., ::2, :].float().square().sum(),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("mode", MODES)
def test_strides_of_the_incoming_gradient_change_nothing(mode, loss):
    """A sum gives a gradient of stride 0, a slice of a cat one with strides of its own."""
    found = []
    for contiguous in (False, True):
        case = on_gpu(LENGTHS, MODES[mode], heads=4, head_dim=128)
        (out,) = case.forward()
        if contiguous:
            out.register_hook(lambda gradient: gradient.contiguous())
        found.append(torch.autograd.grad(LOSSES[loss](out), case.leaves))
    close(*found)


@pytest.mark.parametrize("columns", [511, 516, 520])
@pytest.mark.parametrize("mode", MODES)
def test_rows_that_tma_cannot_read_are_copied(mode, columns):
    """Rows of 511 and 516 elements are off 16 bytes; of lse there are 250."""
    rows = 250 if mode == "broadcast" else [100, 0, 150]
    case = on_gpu(LENGTHS, rows, heads=4, lse=True)
    whole = normal((*case.dout.shape[:-2], columns), torch.bfloat16, 9)
    dout = whole[..., 3:259].unflatten(-1, (4, 64))
    logs = normal((*case.dlse.shape, 2), torch.float32, 9)[..., 1]
    case = case.change(dout=dout, dlse=logs)
    check(case)
    plain = case.change(dout=dout.contiguous(), dlse=logs.contiguous())
    close(case.gradients(), plain.gradients())


def test_the_gradient_of_a_fused_projection_is_that_of_its_parts():
    fused = normal((700, 3, 4, 128), torch.bfloat16, 1).requires_grad_()
    ends = offsets(LENGTHS, "cuda")
    dout = normal((700, 4, 128), torch.bfloat16, 2)
    jfagen.attention(*fused.unbind(1), ends, ends).backward(dout)
    parts = [x.detach().clone().requires_grad_() for x in fused.unbind(1)]
    jfagen.attention(*parts, ends, ends).backward(dout)
    close(fused.grad.unbind(1), [x.grad for x in parts])


@pytest.mark.parametrize("asked", ["q", "k", "v", "qk", "kv", "qkv"])
@pytest.mark.parametrize("mode", MODES)
def test_only_what_asks_gets_a_gradient_and_holds_memory(mode, asked):
    case = on_gpu(LENGTHS, MODES[mode], heads=4, head_dim=128)
    for name, leaf in zip("qkv", case.leaves, strict=True):
        leaf.requires_grad_(name in asked)
    (out,) = case.forward()
    before = torch.cuda.memory_allocated()
    out.backward(case.dout)
    held = torch.cuda.memory_allocated() - before
    assert [x.grad is not None for x in case.leaves] == [name in asked for name in "qkv"]
    wanted = sum(x.grad.numel() * 2 for x in case.leaves if x.grad is not None)
    # The allocator rounds every block up to 512 bytes.
    assert held <= wanted + 3 * 512
    whole = case.change().gradients()
    close([x.grad if x.grad is not None else y for x, y in zip(case.leaves, whole, strict=True)],
          whole)  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_a_second_backward_through_a_kept_graph_gives_the_same(mode):
    case = on_gpu(LENGTHS, MODES[mode], heads=4, head_dim=128)
    (out,) = case.forward()
    first = torch.autograd.grad(out, case.leaves, case.dout, retain_graph=True)
    poison(0.1)
    close(torch.autograd.grad(out, case.leaves, case.dout), first)


@pytest.mark.parametrize("mode", MODES)
def test_no_host_synchronisation(mode):
    case = on_gpu(LENGTHS, MODES[mode], lse=True)
    first = case.gradients()  # compiles and loads
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        again = case.gradients()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    close(again, first)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_changes_from_batch_to_batch_compiles_anew(mode, monkeypatch):
    """Numbers of sequences and rows, 1 and multiples of 16 among them, made kernels anew."""

    def batch(number):
        lengths = [1] if number == 0 else [16 * number % 101, 3, 0, 64][: 1 + number % 4]
        return on_gpu(lengths, lengths if mode == "jagged" else 1 + 15 * number, lse=True)

    batch(5).gradients()
    compiled = []
    monkeypatch.setattr(
        triton.knobs.runtime,
        "jit_post_compile_hook",
        lambda **facts: compiled.append(facts["repr"]),
    )
    for number in range(30):
        batch(number).gradients()
    assert not [name for name in compiled if "jfa_" in name]


@pytest.mark.parametrize("mode", MODES)
def test_a_cuda_graph_replays_with_new_lengths(mode):
    case = on_gpu(LENGTHS, MODES[mode], heads=4, head_dim=128, lse=True)
    case.leaves  # noqa: B018 the leaves are made before the capture
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            case.gradients()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = case.gradients()
    for number, lengths in enumerate(([130, 0, 570], [0, 699, 1], [5, 5, 5], [0, 0, 0])):
        case.kv_offsets.copy_(offsets(lengths, "cuda"))
        if case.q_offsets is not None:
            case.q_offsets.copy_(offsets(lengths[::-1], "cuda"))
        for place, x in enumerate((case.q, case.k, case.v, case.dout)):
            x.copy_(normal(x.shape, torch.bfloat16, 10 * number + place))
        graph.replay()
        torch.cuda.synchronize()
        now = case.change()
        check(now, found)
        close(found, now.gradients())


@pytest.mark.parametrize("lse", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_opcheck(mode, lse):
    case = on_gpu(LENGTHS, MODES[mode], lse=lse)
    given = (case.q, case.k, case.v, case.kv_offsets, case.q_offsets)
    out, log = jfagen.attention(*given, return_lse=True)
    arguments = (case.dout, case.dlse, *given[:3], out, log, *given[3:], 0.125)
    # dq is a sum in any order: two calls need not agree in their last bits.
    checks = ["test_schema", "test_faketensor", "test_autograd_registration"]
    found = torch.library.opcheck(attention_backward, arguments, test_utils=checks)
    assert found == dict.fromkeys(checks, "SUCCESS")


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("mode", MODES)
def test_a_training_step_compiles_in_one_graph_for_all_lengths(mode, backend):
    from torch._dynamo.testing import CompileCounterWithBackend

    def layer(q, k, v, kv, qo):
        return jfagen.attention(q * 2, k, v, kv, qo) + 1

    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(layer, fullgraph=True, backend=counter)
    for seed, lengths in enumerate((LENGTHS, [64, 1, 300], [700, 50, 0])):
        case = on_gpu(lengths, 130 if mode == "broadcast" else lengths, seed=seed)
        offset = (case.kv_offsets, case.q_offsets)
        for leaf in case.leaves[0 if mode == "jagged" else 1 :]:
            torch._dynamo.mark_dynamic(leaf, 0)
        close(
            *(
                torch.autograd.grad(function(*case.leaves, *offset), case.leaves, case.dout)
                for function in (compiled, layer)
            )
        )
    assert counter.frame_count == 1


def test_a_second_derivative_is_refused_and_the_reference_is_named():
    case = on_gpu(LENGTHS, 130)
    (out,) = case.forward()
    (first,) = torch.autograd.grad(out.float().square().sum(), case.leaves[:1], create_graph=True)
    with pytest.raises(NotImplementedError, match=r"jfagen\.runtime\.reference\.reference"):
        first.float().square().sum().backward()


def test_deterministic_algorithms_are_refused_by_name():
    case = on_gpu(LENGTHS, 130)
    wanted = case.gradients()
    said = r"reduce-adds in float32 sum dq in an order that changes .*reference\.reference"
    try:
        torch.use_deterministic_algorithms(True)
        with pytest.raises(RuntimeError, match=said):
            case.gradients()
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match=said):
            close(case.gradients(), wanted)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("head_dim", [40, 72, 80, 96, 104])
def test_a_head_dim_without_kernels_is_refused_in_one_line(head_dim):
    """Columns that are added to fill a tile spill into the next head."""
    case = on_gpu(LENGTHS, ROWS, head_dim=head_dim)
    given = (case.dout, None, case.q, case.k, case.v, case.dout, case.dout[..., 0].float())
    with pytest.raises(ValueError, match=f"a head_dim of {head_dim}, kernels are built for 64, 12"):
        attention_backward(*given, case.kv_offsets, case.q_offsets, 0.1)


def last_sequence(case, found):
    """Hold the last sequence of a large case against float64, as if it were alone."""
    mine, theirs = case.ends[-1]
    alone = {"k": case.k[theirs], "v": case.v[theirs]}
    rows = [theirs.stop - theirs.start]
    if case.q_offsets is not None:
        alone |= {"q": case.q[mine], "q_offsets": offsets([mine.stop - mine.start], "cuda")}
        alone["dout"] = case.dout[mine]
        dq = found[0][mine]
    else:
        alone["dout"] = case.dout[-1:]
        dq = None
    alone = case.change(**alone, kv_offsets=offsets(rows, "cuda"))
    parts = [alone.gradients()[0] if dq is None else dq, *(x[theirs] for x in found[1:])]
    check(alone, parts)


@pytest.mark.parametrize("which", ["keys", "queries", "results"])
def test_more_than_2_to_the_31_elements(which):
    """32-bit arithmetic on addresses: of keys, of packed queries, of results of one q."""
    rows, shape = 4_300_000, (4, 128)
    long = torch.zeros(rows, *shape, device="cuda", dtype=torch.bfloat16)
    long[-300:] = normal((300, *shape), torch.bfloat16, 5)
    if which == "keys":
        case = on_gpu([0, 300], 64, heads=4, head_dim=128)
        case = case.change(k=long, v=long, kv_offsets=offsets([rows - 300, 300], "cuda"))
    elif which == "queries":
        case = on_gpu([0, 300], [0, 64], heads=4, head_dim=128)
        q_offsets = offsets([rows - 64, 64], "cuda")
        case = case.change(q=long, dout=long, q_offsets=q_offsets)
    else:
        case = on_gpu([number % 3 for number in range(8400)], 512, heads=4, head_dim=128)
    assert max(x.numel() for x in (case.q, case.k, case.dout)) > 2**31
    found = case.gradients()
    last_sequence(case, found)
    if which == "results":
        assert all(bool(torch.isfinite(x.float()).all()) for x in found)
