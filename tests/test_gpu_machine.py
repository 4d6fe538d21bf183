"""The CPU machine against a GPU: one text, the same inputs, results equal but for rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gpu_bench import watchdog

import jfagen
from jfagen.machine import simulate
from jfagen.paths import data_dir
from jfagen.runtime.kernels import Wanted

pytestmark = pytest.mark.gpu

CASES = [
    (False, 128, torch.bfloat16, [0, 1, 127, 128, 129, 300], 200),
    (False, 64, torch.float16, [517, 64, 65, 0], 130),
    (True, 128, torch.bfloat16, [130, 0, 257, 5], [5, 70, 200, 0]),
    (True, 64, torch.bfloat16, [1, 640, 128], [300, 1, 64]),
    (True, 128, torch.float16, [63, 400], [129, 128]),
]
#: One rounding to the input type, relative; where a sum cancels, of the largest value of the row.
ROUNDING = {torch.bfloat16: 2**-8, torch.float16: 2**-11}


@pytest.mark.parametrize(("jagged", "head_dim", "dtype", "lengths", "rows"), CASES)
@pytest.mark.parametrize("policy", ["random", "late"])
def test_the_machine_and_the_gpu_agree(jagged, head_dim, dtype, lengths, rows, policy, capsys):
    generator = torch.Generator().manual_seed(sum(lengths))
    total = sum(rows) if jagged else rows

    def normal(count):
        return torch.randn(count, 2, head_dim, generator=generator).to(dtype)

    q, k, v = normal(total), normal(sum(lengths)), normal(sum(lengths))
    kv = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
    given = {"q": q, "k": k, "v": v, "kv_offsets": kv}
    if jagged:
        given["q_offsets"] = torch.tensor([0, *np.cumsum(rows)], dtype=torch.int32)
    name = Wanted("hopper/fwd", jagged, head_dim, dtype).name
    outcome = simulate(data_dir("generated") / f"{name}.py", inputs=given, sms=3, policy=policy)
    assert outcome.ok, outcome.text()
    with watchdog():
        on_gpu = {name: tensor.cuda() for name, tensor in given.items()}
        out, lse = jfagen.attention(**on_gpu, return_lse=True)
        out, lse = out.float().cpu().numpy(), lse.cpu().numpy()
    simulated, logs = outcome.outputs
    largest = np.maximum(np.abs(out).max(axis=-1, keepdims=True), 1e-30)
    error = float((np.abs(out - simulated) / largest).max())
    with np.errstate(invalid="ignore"):
        log_error = float(np.where(lse == logs, 0.0, np.abs(lse - logs)).max())
    with capsys.disabled():
        print(
            f"\n{name} {policy}: out {error:.2e} of the row's largest, lse {log_error:.2e}", end=""
        )
    assert error <= 2 * ROUNDING[dtype]
    assert log_error < 1e-5
