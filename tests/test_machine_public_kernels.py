"""Forward kernels that ship with the toolchain and are known to run on hardware.

Their kernel text is run as it is; only the launch around it is ours.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import triton.language.extra.tlx as tlx

from jfagen.machine import Kind, simulate
from jfagen.machine.declared import declared_roles

TUTORIALS = Path(tlx.__file__).parent / "tutorials"
DEVICE = "DEVICE = triton.runtime.driver.active.get_active_torch_device()"

HOST = """

def forward(q, k, v, sms, stage):
    z, h, n, d = q.shape
    out = torch.empty_like(q)
    lse = torch.empty((z, h, n), dtype=torch.float32)
    describe = lambda x: TensorDescriptor(x, [z * h * n, d], [d, 1], [128, d])
    blocks = n // 256
    sizes = dict(BLOCK_M=256, BLOCK_N=128, NUM_BUFFERS_KV=3, NUM_BUFFERS_QK=1, NUM_MMA_GROUPS=2)
    grids = dict(
        per_block=(blocks, z * h, 1),
        persistent=(min(sms, blocks * z * h), 1, 1),
        clc=(blocks * z * h,),
    )
    extra = EXTRA | (dict(STAGE=stage) if stage else {})
    _attn_fwd_ws[grids[GRID]](
        d**-0.5, lse, z, h, describe(q), describe(k), describe(v), describe(out),
        N_CTX=n, HEAD_DIM=d, num_warps=4, **sizes, **extra,
    )
    return out, lse


def backward(q, k, v, out, lse, dout, stage, warp_barriers, ctas):
    z, h, n, d = q.shape
    rows = 64 * ctas
    dq = torch.empty(q.shape, dtype=torch.float32)
    dq_sum = torch.zeros(q.shape, dtype=torch.float32)
    dk, dv, delta = torch.empty_like(k), torch.empty_like(v), torch.empty_like(lse)
    scaled_k = k * (d**-0.5 * 1.4426950408889634)
    _attn_bwd_preprocess[(n // 128, z * h)](out, dout, delta, n, BLOCK_M=128, HEAD_DIM=d)
    whole = [[z, h, n, d], [h * n * d, n * d, d, 1]]
    packed = [[z, h, 2 * n, d // 2], [h * n * d, n * d, d // 2, 1]]
    describe = lambda x, *block: TensorDescriptor(x, *whole, [1, 1, *block])
    row = lambda x: TensorDescriptor(x, [z * h * n], [1], [rows])
    _attn_bwd_ws[(n // 128, h, z)](
        describe(q, rows, d // ctas), describe(scaled_k, 128, d), describe(v, 128, d), d**-0.5,
        describe(dout, rows, d // ctas),
        TensorDescriptor(dq_sum, *packed, [1, 1, rows, 32 // ctas]),
        describe(dk, 128, 64), describe(dv, 128, 64), row(lse), row(delta), lse, delta, h, z, n,
        describe(scaled_k, 128 * ctas, d // ctas), describe(q, 64, d), describe(dout, 64, d),
        BLOCK_M1=rows, BLOCK_N1=128, BLK_SLICE_FACTOR=2, HEAD_DIM=d, NUM_BUFFERS_KV=1,
        NUM_BUFFERS_Q=3 - ctas, NUM_BUFFERS_DO=1, NUM_BUFFERS_DS=1, NUM_BUFFERS_TMEM=1,
        NUM_COMPUTE_SLICES=2, DQ_REDUCE_STAGES=2, DQ_REDUCE_NCOL=32, DKV_STORE_NCOL=64,
        STAGE=stage, GROUP_SIZE_M=1, USE_WARP_BARRIER=warp_barriers, EPILOGUE_SUBTILE=4 * ctas,
        NUM_CTAS=ctas, num_warps=8, ctas_per_cga=(ctas, 1, 1),
    )
    _attn_bwd_dq_postprocess[(n // 128, z * h)](
        dq_sum, dq, n, BLK=64, HALF_HD=d // 2, BLOCK_M=128, HEAD_DIM=d
    )
    return dq, dk, dv
"""

PERSISTENT_NAME = "blackwell_fa_ws_pipelined_persistent"
PERSISTENT = {"FP8_OUTPUT": False, "NUM_BUFFERS_Q": 1}
PIPELINED = {"NUM_BUFFERS_Q": 1, "NUM_MMA_SLICES": 2, "GROUP_SIZE_N": 1}
WARP, ROLE = {"USE_WARP_BARRIER": True}, {"USE_WARP_BARRIER": False}
SKIPS = {"RESCALE_OPT": True, "USE_WHERE": False}
KERNELS = {
    "ws": ("blackwell_fa_ws", "per_block", {"FP8_OUTPUT": False}),
    "persistent": ("blackwell_fa_ws_persistent", "persistent", PERSISTENT),
    "pipelined": ("blackwell_fa_ws_pipelined", "per_block", {"FP8_OUTPUT": False}),
    "clc": (PERSISTENT_NAME, "clc", {**PIPELINED, **SKIPS, **WARP}),
    "clc where": (PERSISTENT_NAME, "clc", {**PIPELINED, **SKIPS, **ROLE, "USE_WHERE": True}),
    "clc always": (PERSISTENT_NAME, "clc", {**PIPELINED, **SKIPS, **ROLE, "RESCALE_OPT": False}),
}


GEMM = """

def product(a, b):
    out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype)
    tcgen5_dot_kernel2cta_tma[(a.shape[0] // 128, b.shape[1] // 128)](
        a, *a.stride(), b, *b.stride(), out, *out.stride(), BLOCK_M=128, BLOCK_N=128, BLOCK_K=128,
        OUT_DTYPE=tl.float32, M=a.shape[0], N=b.shape[1], K=a.shape[1],
        num_warps=4, ctas_per_cga=(2, 1, 1),
    )
    return out
"""


def kernel_text(name, grid, extra):
    path = TUTORIALS / f"{name}.py"
    text = path.read_text()
    assert text.count(DEVICE) == 1
    text = text.replace(DEVICE, 'DEVICE = "cpu"')
    host = HOST if grid else GEMM
    return f"{text}\nGRID = {grid!r}\nEXTRA = {extra!r}\n{host}"


def attention(q, k, v, causal):
    scores = torch.einsum("zhmd,zhnd->zhmn", q, k) * q.shape[-1] ** -0.5
    if causal:
        n = scores.shape[-1]
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
    out = torch.einsum("zhmn,zhnd->zhmd", scores.softmax(-1), v)
    return out, scores.logsumexp(-1) / np.log(2)


def tensors(count, n):
    generator = torch.Generator().manual_seed(1)
    shape = (1, 2, n, 128)
    return [torch.randn(shape, generator=generator).to(torch.float16) for _ in range(count)]


#: The first kernel has no causal mask.
VARIANTS = [(name, causal) for name in KERNELS for causal in (False, True)[: 1 + (name != "ws")]]


def forward_is_right(name, causal, rows=512, **how):
    file, grid, extra = KERNELS[name]
    q, k, v = tensors(3, rows)
    outcome = simulate(
        kernel_text(file, grid, extra),
        inputs={"q": q, "k": k, "v": v, "stage": 0 if name == "ws" else 3 if causal else 1},
        **how,
    )
    assert outcome.ok, outcome.text()
    # The role that issues the store is not the one that wrote: its fence is the compiler's.
    assert all("no proxy fence after the store of `o_tiles`" in note for note in outcome.notes)
    assert bool(outcome.notes) == name.startswith("clc")
    out, lse = attention(q.double(), k.double(), v.double(), causal)
    np.testing.assert_allclose(outcome.outputs[0], out.numpy(), atol=2e-3)
    np.testing.assert_allclose(outcome.outputs[1], lse.numpy(), atol=2e-3)


@pytest.mark.parametrize("policy", ["random", "late"])
@pytest.mark.parametrize(("name", "causal"), VARIANTS)
def test_a_public_forward_kernel_runs_right_without_a_false_report(name, causal, policy):
    forward_is_right(name, causal, sms=2, policy=policy)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "causal"), VARIANTS)
def test_public_forward_kernels_run_right_in_a_long_sweep(name, causal):
    for seed in range(4):
        forward_is_right(name, causal, rows=768, sms=1 + seed, seed=seed)
    for role in roles_of(KERNELS[name][0]):
        forward_is_right(name, causal, sms=1, policy=f"starve={role}")
    forward_is_right(name, causal, rows=768, sms=3, policy="at_once")


def roles_of(file):
    """The roles of the forward kernel of a file, which comes first."""
    roles = [role.name for role in declared_roles((TUTORIALS / f"{file}.py").read_text())]
    return [*roles[: roles.index("load") + 1], *(role for role in roles if role == "epilog")]


CTAS = [(1, False), (1, True), (2, False)]
BACKWARD = pytest.mark.parametrize(
    ("ctas", "warp_barriers", "causal"),
    [(ctas, warp, causal) for ctas, warp in CTAS for causal in (False, True)],
)


@BACKWARD
def test_the_public_backward_kernel_runs_right(causal, ctas, warp_barriers):
    backward_is_right(causal, ctas, warp_barriers, policy="random")


@pytest.mark.slow
@BACKWARD
def test_the_public_backward_kernel_runs_right_in_a_long_sweep(causal, ctas, warp_barriers):
    for policy in ("late", "at_once", "starve=mma", "starve=load", "starve=reduction"):
        backward_is_right(causal, ctas, warp_barriers, policy=policy)
    for seed in range(1, 4):
        backward_is_right(causal, ctas, warp_barriers, seed=seed, sms=seed)


def backward_is_right(causal, ctas, warp_barriers, **how):
    q, k, v, dout = tensors(4, 256)
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    out, lse = attention(*wide, causal)
    out.backward(dout.double())
    outcome = simulate(
        kernel_text(PERSISTENT_NAME, "clc", {}),
        entry="backward",
        inputs={
            **{"q": q, "k": k, "v": v, "dout": dout, "stage": 3 if causal else 1},
            **{"out": out.detach().to(torch.float16), "lse": lse.detach().float()},
            **{"warp_barriers": warp_barriers, "ctas": ctas},
        },
        **how,
    )
    assert outcome.ok, outcome.text()
    for given, exact in zip(outcome.outputs, wide, strict=True):
        np.testing.assert_allclose(given, exact.grad.numpy(), atol=5e-3)


@pytest.mark.parametrize("policy", ["random", "late", "at_once"])
def test_the_public_product_of_cta_pairs_runs_right(policy):
    generator = torch.Generator().manual_seed(2)
    a, b = (torch.randn((256, 256), generator=generator).to(torch.float16) for _ in range(2))
    text = kernel_text("blackwell_gemm_2cta", "", {})
    outcome = simulate(text, entry="product", inputs={"a": a, "b": b}, policy=policy)
    assert outcome.ok, outcome.text()
    np.testing.assert_allclose(outcome.outputs[0], (a.float() @ b.float()).numpy(), atol=0.05)


def test_a_pair_whose_leader_does_not_wait_for_the_follower_races():
    text = kernel_text("blackwell_gemm_2cta", "", {})
    line = "tlx.barrier_wait(bar_leader_cta, phase=k % 2, pred=pred_leader_cta)"
    assert text.count(line) == 1
    a = torch.zeros((256, 256), dtype=torch.float16)
    inputs = {"a": a, "b": a}
    outcome = simulate(text.replace(line, "pass"), entry="product", inputs=inputs, seed=1)
    assert outcome.kind is Kind.RACE, outcome.text()
    (race,) = outcome.reports
    assert {race.first.place.cta, race.second.place.cta} in ({0, 1}, {2, 3})
