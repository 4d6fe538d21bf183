"""Forward kernels for Hopper that ship with the toolchain: accumulators in registers, ping-pong.

Their kernel text is run as it is; only the launch around it is ours.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_machine_kernels import edit, line_of
from test_machine_public_kernels import DEVICE, TUTORIALS, attention

from jfagen.machine import Fault, Kind, Race, simulate
from jfagen.machine.declared import declared_roles

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


#: Heads, rows, head dimension, rows of a key block, CTAs: tiles carry over uneven rings.
CARRY = [
    ((1, 2, 384, 128), 128, 1),
    ((1, 2, 384, 128), 128, 2),
    ((2, 2, 256, 64), 128, 3),
    ((1, 5, 128, 64), 128, 2),
    ((1, 3, 256, 64), 64, 1),
]


@pytest.mark.parametrize("policy", ["random", "late", "at_once"])
@pytest.mark.parametrize(("shape", "block", "sms"), CARRY)
def test_the_persistent_loop_and_the_ping_pong_carry_over_tiles(shape, block, sms, policy):
    text = hopper_text("persistent", block)
    for seed in range(3):
        outcome = is_right(text, shape, policy=policy, seed=seed, sms=sms)
        assert len(outcome.tiles) == sms


@pytest.mark.parametrize("name", KERNELS)
def test_hopper_kernels_take_bfloat16(name):
    is_right(hopper_text(name), (1, 1, 256, 128), torch.bfloat16)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_public_hopper_kernels_run_right_in_a_long_sweep(name):
    text = hopper_text(name)
    roles = [role.name for role in declared_roles(text)][:-1]
    assert len(roles) == 2
    if KERNELS[name][1]["NUM_MMA_GROUPS"] == 2:
        roles += [f"{roles[1]}[0]", f"{roles[1]}[1]"]
    for role in roles:
        is_right(text, (1, 2, 384, 128), policy=f"starve={role}", sms=1)
    for seed in range(8):
        is_right(text, (1, 2, 640, 128), seed=seed, sms=1 + seed % 4)


#: A wait for a product, the release of the slot that it reads behind it, the buffer, the load.
RELEASES = [
    ("qk = tlx.async_dot_wait(0, qk)", "k_empties[k_bufIdx]", "k_tiles"),
    ("acc = tlx.async_dot_wait(0, acc)", "v_empties[v_bufIdx]", "v_tiles"),
]


@pytest.mark.parametrize("policy", ["random", "late", "at_once"])
@pytest.mark.parametrize(("wait", "barrier", "buffer"), RELEASES)
def test_a_slot_that_is_freed_before_its_product_is_waited_for_is_a_race(
    wait, barrier, buffer, policy
):
    """The K slots of the inner loop are left out: the release of V behind it covers them too."""
    text = hopper_text("persistent")
    release = f"tlx.barrier_arrive({barrier}, 1)"
    lines = text.split("\n")
    at = next(n for n, line in enumerate(lines) if line.strip() == wait)
    assert lines[at + 2].strip() == release
    lines[at], lines[at + 2] = lines[at + 2], lines[at]
    q, k, v = tensors((1, 1, 640, 64))
    for seed in range(3):
        outcome = simulate(
            "\n".join(lines), inputs={"q": q, "k": k, "v": v}, policy=policy, seed=seed, sms=1
        )
        assert outcome.kind is Kind.RACE, outcome.text()
        (race,) = outcome.reports
        assert isinstance(race, Race)
        sides = {access.action: access.place for access in (race.first, race.second)}
        assert set(sides) == {"MMA read of B", "TMA load"}
        assert f"{buffer}[kv_bufIdx], [kv_offset, 0]" in lines[sides["TMA load"].line - 1]
        assert "= tlx.async_dot(" in lines[sides["MMA read of B"].line - 1]
        assert race.first.buffer == race.second.buffer
        assert race.first.buffer.startswith(buffer)


def test_softmax_of_scores_that_are_not_waited_for_is_a_fault_with_both_lines():
    text = edit(hopper_text("persistent"), "qk = tlx.async_dot_wait(1, qk)", "pass")
    q, k, v = tensors((1, 1, 256, 64))
    outcome = simulate(text, inputs={"q": q, "k": k, "v": v}, policy="at_once")
    (fault,) = outcome.reports
    assert isinstance(fault, Fault) and fault.rule == "unfinished-dot"
    read = text.splitlines()[fault.place.line - 1].strip()
    assert read == "m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)"
    issue = line_of(text, "# PINGPONG SYNC: Same pattern as first QK dot") + 9
    assert f"line {issue} is read, but no async_dot_wait returned it" in fault.message
