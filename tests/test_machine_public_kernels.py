"""Forward kernels that ship with the toolchain and are known to run on hardware.

Their kernel text is run as it is; only the launch around it is ours.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tlx = pytest.importorskip("triton.language.extra.tlx")

from jfagen.machine import simulate  # noqa: E402

TUTORIALS = Path(tlx.__file__).parent / "tutorials"
DEVICE = "DEVICE = triton.runtime.driver.active.get_active_torch_device()"

HOST = '''

def forward(q, k, v, sms, stage):
    z, h, n, d = q.shape
    out = torch.empty_like(q)
    lse = torch.empty((z, h, n), dtype=torch.float32)
    describe = lambda x, rows: TensorDescriptor(x, [z * h * n, d], [d, 1], [rows, d])
    blocks = n // 256
    sizes = dict(BLOCK_M=256, BLOCK_N=128, NUM_BUFFERS_KV=3, NUM_BUFFERS_QK=1, NUM_MMA_GROUPS=2)
    grids = dict(
        per_block=(blocks, z * h, 1), persistent=(min(sms, blocks * z * h), 1, 1), clc=(blocks * z * h,)
    )
    _attn_fwd_ws[grids[GRID]](
        d**-0.5, lse, z, h, describe(q, 128), describe(k, 128), describe(v, 128), describe(out, 128),
        N_CTX=n, HEAD_DIM=d, num_warps=4, **sizes, **(EXTRA | (dict(STAGE=stage) if stage else {})),
    )
    return out, lse
'''

PERSISTENT = {"FP8_OUTPUT": False, "NUM_BUFFERS_Q": 1}
PIPELINED = {"NUM_BUFFERS_Q": 1, "NUM_MMA_SLICES": 2, "GROUP_SIZE_N": 1}
KERNELS = {
    "blackwell_fa_ws": ("per_block", {"FP8_OUTPUT": False}, 0),
    "blackwell_fa_ws_persistent": ("persistent", PERSISTENT, 1),
    "blackwell_fa_ws_pipelined": ("per_block", {"FP8_OUTPUT": False}, 1),
    "blackwell_fa_ws_pipelined_persistent": (
        "clc",
        {**PIPELINED, "RESCALE_OPT": True, "USE_WHERE": False, "USE_WARP_BARRIER": True},
        1,
    ),
}


def kernel_text(name, grid, extra):
    path = TUTORIALS / f"{name}.py"
    if not path.is_file():
        pytest.skip(f"{name} is not installed")
    text = path.read_text()
    assert text.count(DEVICE) == 1
    text = text.replace(DEVICE, 'DEVICE = "cpu"')
    return f"{text}\nGRID = {grid!r}\nEXTRA = {extra!r}\n{HOST}"


def reference(q, k, v, causal):
    scores = torch.einsum("zhmd,zhnd->zhmn", q.double(), k.double()) * q.shape[-1] ** -0.5
    if causal:
        n = scores.shape[-1]
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
    weights = scores.softmax(-1)
    return torch.einsum("zhmn,zhnd->zhmd", weights, v.double()).numpy()


@pytest.mark.parametrize("policy", ["random", "late"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_a_public_forward_kernel_runs_right_without_a_false_report(name, causal, policy):
    grid, extra, stage = KERNELS[name]
    if causal and not stage:
        pytest.skip("has no causal mask")
    generator = torch.Generator().manual_seed(1)
    q, k, v = (
        torch.randn((1, 2, 512, 128), generator=generator).to(torch.float16) for _ in range(3)
    )
    outcome = simulate(
        kernel_text(name, grid, extra),
        inputs={"q": q, "k": k, "v": v, "stage": stage and (3 if causal else 1)},
        sms=2,
        policy=policy,
    )
    assert outcome.ok, outcome.text()
    np.testing.assert_allclose(outcome.outputs[0], reference(q, k, v, causal), atol=2e-3)
