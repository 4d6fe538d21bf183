"""The operator on a GPU: no host synchronisation, CUDA graphs, torch.compile, traps of offsets."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from gpu_bench import check_batch, normal, offsets_of, watchdog

import jfagen

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _guarded():
    with watchdog():
        yield


def small(jagged, dtype=torch.bfloat16):
    q, k, v = (normal(700, 4, 128, dtype, s) for s in (1, 2, 3))
    offsets = offsets_of([130, 0, 570])
    return q, k, v, offsets, (offsets.clone() if jagged else None)


@pytest.mark.parametrize("jagged", [False, True])
def test_no_host_synchronisation(jagged):
    given = small(jagged)
    jfagen.attention(*given)  # the first call compiles and loads
    jfagen.plan(given[3], given[4], total_queries=700)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = jfagen.attention(*given)
        made = jfagen.plan(given[3], given[4], total_queries=700)
        again = jfagen.attention(*given, plan=made)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(out, again)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(
    "lengths", [[5], [0], [0, 0], [7, 7, 7], [1, 900, 0, 128, 900, 129, 3], None]
)
def test_the_list_of_one_launch_is_that_of_the_kernels_host_part(lengths, dtype):
    from jfagen.runtime.kernels import Wanted, forward_schedule, load

    lengths = lengths or [(37 * i) % 1000 for i in range(5000)]
    rows = [(91 * i) % 700 for i in range(len(lengths))]
    kv, qo = offsets_of(lengths, dtype), offsets_of(rows, dtype)
    total = sum(rows) + 300
    schedule = forward_schedule(kv.device)
    wanted = load(Wanted(schedule, False, 128, torch.bfloat16)).make_tiles(kv)
    for one, other in zip(jfagen.plan(kv).tiles, wanted, strict=True):
        assert torch.equal(one, other)
    made = jfagen.plan(kv, qo, total_queries=total).tiles
    wanted = load(Wanted(schedule, True, 128, torch.bfloat16)).make_tiles(kv, qo, total)
    count = int(wanted[2])
    assert int(made[2]) == count
    for one, other in zip(made[:2], wanted[:2], strict=True):
        assert torch.equal(one[:count], other[:count])
    assert torch.equal(made[3], wanted[3]) and torch.equal(made[4], wanted[4])


@pytest.mark.parametrize("lengths", [[], [5], [0, 0], [1, 900, 0, 128, 900, 129, 3], None])
def test_the_key_blocks_of_one_launch_are_those_of_the_kernels_host_part(lengths):
    from jfagen.runtime.kernels import Wanted, backward_schedule, load
    from jfagen.runtime.tiles import list_key_blocks

    lengths = [(37 * i) % 1000 for i in range(5000)] if lengths is None else lengths
    rows = [(91 * i) % 700 for i in range(len(lengths))]
    kv, q = offsets_of(lengths), offsets_of(rows, torch.int64)
    ends = sum(lengths) + 200, sum(rows) + 300
    schedule = backward_schedule(kv.device)
    one, packed = (load(Wanted(schedule, mode, 128, torch.bfloat16)) for mode in (False, True))
    pairs = (
        (list_key_blocks(one, kv, None, ends[0], 77), one.make_tiles(kv, ends[0], 77)),
        (list_key_blocks(packed, kv, q, *ends), packed.make_tiles(kv, q, *ends)),
    )
    for found, wanted in pairs:
        assert len(found) == len(wanted)
        assert all(map(torch.equal, found, wanted))


def test_a_batch_of_many_sequences_is_listed_with_torch_ops():
    lengths = [i % 5 for i in range(9000)]
    k, v = (normal(sum(lengths), 1, 64, torch.bfloat16, s) for s in (1, 2))
    out = jfagen.attention(k[:3], k, v, offsets_of(lengths))
    assert out.shape[0] == 9000 and bool(torch.isfinite(out.float()).all())
    assert bool((out[0::5] == 0).all())


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("jagged", [False, True])
def test_a_cuda_graph_replays_with_new_lengths(jagged, planned):
    q, k, v, kv, qo = small(jagged)

    def call():
        made = jfagen.plan(kv, qo, total_queries=700) if planned else None
        return jfagen.attention(q, k, v, kv, qo, return_lse=True, plan=made)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = call()
    for number, lengths in enumerate(([130, 0, 570], [0, 699, 1], [5, 5, 5], [0, 0, 0])):
        kv.copy_(offsets_of(lengths))
        if jagged:
            qo.copy_(offsets_of([lengths[2], lengths[0], lengths[1]]))
        for x, seed in ((q, 10), (k, 20), (v, 30)):
            x.copy_(normal(700, 4, 128, torch.bfloat16, seed + number))
        graph.replay()
        torch.cuda.synchronize()
        wanted = check_batch(q, k, v, kv, qo)
        assert torch.equal(out, wanted[0]) and torch.equal(lse, wanted[1])


def test_a_plan_serves_many_layers_and_refuses_other_batches():
    q, k, v, kv, qo = small(True)
    made = jfagen.plan(kv, qo, total_queries=700)
    for seed in range(3):
        layer = [normal(700, 4, 128, torch.bfloat16, 40 + seed + i) for i in range(3)]
        assert torch.equal(
            jfagen.attention(*layer, kv, qo, plan=made), jfagen.attention(*layer, kv, qo)
        )
    with pytest.raises(ValueError, match="the plan is for 3 sequences, kv_offsets for 1"):
        jfagen.attention(q, k, v, offsets_of([700]), offsets_of([700]), plan=made)
    with pytest.raises(
        ValueError, match="the plan is for 700 packed rows of q, this q has 600 packed rows"
    ):
        jfagen.attention(q[:600], k, v, kv, qo, plan=made)


@pytest.mark.parametrize("jagged", [False, True])
def test_opcheck(jagged):
    q, k, v, kv, qo = small(jagged)
    found = torch.library.opcheck(
        torch.ops.jfagen.attention_forward.default, (q, k, v, kv, qo, 0.1, [], True)
    )
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("jagged", [False, True])
def test_compiled_in_one_graph(jagged, backend):
    given = small(jagged)

    def layer(q, k, v, kv, qo):
        return jfagen.attention(q * 1, k, v, kv, qo) + 1

    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    assert torch.allclose(compiled(*given).float(), layer(*given).float(), atol=1e-2)


BAD = {
    "starts after 0": ([2, 5, 10], "sequence 0"),
    "falls": ([0, 7, 5], "sequence 1"),
    "ends after the rows": ([0, 5, 701], "sequence 1"),
    "garbage": ([0, 5, -(2**62)], "sequence 1"),
}


@pytest.mark.parametrize("which", ["kv", "q"])
@pytest.mark.parametrize("name", BAD)
def test_wrong_offsets_stop_the_process_and_name_the_sequence(name, which):
    """Bad offsets are accepted. Nobody waits for the device, so it has to stop."""
    values, said = BAD[name]
    program = (
        "import torch, jfagen\n"
        "q = torch.randn(700, 2, 128, device='cuda', dtype=torch.bfloat16)\n"
        "right = torch.tensor([0, 300, 700], device='cuda')\n"
        f"wrong = torch.tensor({values}, device='cuda')\n"
        f"offsets = (wrong, right) if {which == 'kv'} else (right, wrong)\n"
        "jfagen.attention(q, q, q, *offsets)\n"
        "torch.cuda.synchronize()\n"
        "print('went through')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100
    )
    assert done.returncode != 0 and "went through" not in done.stdout
    assert f"{which}_offsets are wrong at {said}\n" in done.stderr, done


def test_arguments_of_the_kernels():
    q, k, v, kv, _ = small(False)
    with pytest.raises(TypeError, match=r"q has elements of type torch.float32"):
        jfagen.attention(q.float(), k.float(), v.float(), kv)
    for head_dim in (40, 72, 80, 96, 104, 256):
        x = torch.randn(700, 2, head_dim, device="cuda", dtype=torch.bfloat16)
        with pytest.raises(
            ValueError, match=f"a head_dim of {head_dim}, kernels are built for 64, 128"
        ):
            jfagen.attention(x, x, x, kv)
    with pytest.raises(ValueError, match="kv_offsets is on cpu"):
        jfagen.attention(q, k, v, kv.cpu())
