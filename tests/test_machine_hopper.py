"""Forward kernels for Hopper that ship with the toolchain: accumulators in registers, ping-pong.

Their kernel text is run as it is; only the launch around it is ours.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_machine_public_kernels import DEVICE, TUTORIALS, attention

from jfagen.machine import simulate

HOST = """

def forward(q, k, v, sms):
    z, h, n, d = q.shape
    out = torch.empty_like(q)
    lse = torch.empty((z, h, n), dtype=torch.float32)
    describe = lambda x, rows: TensorDescriptor(x, [z * h * n, d], [d, 1], [rows, d])
    blocks = n // 128
    grid = (min(sms, blocks * z * h), 1, 1) if PERSISTENT else (blocks, z * h, 1)
    rows = 128 // SIZES["NUM_MMA_GROUPS"]
    KERNEL[grid](
        d**-0.5, lse, z, h, describe(q, rows), describe(k, BLOCK_N), describe(v, BLOCK_N),
        describe(out, rows), N_CTX=n, HEAD_DIM=d, BLOCK_M=128, BLOCK_N=BLOCK_N, FP8_OUTPUT=False,
        num_warps=4, **SIZES,
    )
    return out, lse
"""

PINGPONG = "hopper_fa_ws_pipelined_pingpong_persistent"
ONE_GROUP = {"NUM_BUFFERS": 2, "NUM_MMA_WARPS": 4, "NUM_MMA_GROUPS": 1}
TWO_GROUPS = {"NUM_BUFFERS": 2, "NUM_MMA_WARPS": 8, "NUM_MMA_GROUPS": 2}
RINGS = {"NUM_BUFFERS_Q": 1, "NUM_BUFFERS_KV": 2, "NUM_MMA_WARPS": 8, "NUM_MMA_GROUPS": 2}
#: The configurations that the files themselves tune over.
KERNELS = {
    "ws": ("hopper_fa_ws", ONE_GROUP),
    "ws of two groups": ("hopper_fa_ws", TWO_GROUPS),
    "pipelined": ("hopper_fa_ws_pipelined", ONE_GROUP),
    "pipelined of two groups": ("hopper_fa_ws_pipelined", TWO_GROUPS),
    "pingpong": ("hopper_fa_ws_pipelined_pingpong", TWO_GROUPS),
    "persistent": (PINGPONG, RINGS),
}


def hopper_text(name, block=128):
    file, sizes = KERNELS[name]
    text = (TUTORIALS / f"{file}.py").read_text()
    assert text.count(DEVICE) == 1
    text = text.replace(DEVICE, 'DEVICE = "cpu"')
    kernel = file.replace("hopper_fa", "_attn_fwd")
    return (
        f"{text}\nKERNEL, SIZES = {kernel}, {sizes!r}\n"
        f"PERSISTENT, BLOCK_N = {file == PINGPONG}, {block}\n{HOST}"
    )


def tensors(shape, dtype=torch.float16):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).to(dtype) for _ in range(3)]


def is_right(text, shape, dtype=torch.float16, **how):
    q, k, v = tensors(shape, dtype)
    outcome = simulate(text, inputs={"q": q, "k": k, "v": v}, **how)
    assert outcome.ok, outcome.text()
    assert outcome.notes == ()
    out, lse = attention(q.double(), k.double(), v.double(), False)
    bound = 2e-3 if dtype is torch.float16 else 2e-2
    np.testing.assert_allclose(outcome.outputs[0], out.numpy(), atol=bound)
    np.testing.assert_allclose(outcome.outputs[1], lse.numpy(), atol=2e-3)
    return outcome


@pytest.mark.parametrize("policy", ["random", "late", "at_once"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_public_hopper_kernel_runs_right_without_a_false_report(name, policy):
    is_right(hopper_text(name), (1, 2, 256, 128), policy=policy)
