"""The CPU machine against a GPU, backward: one text, the same inputs, gradients equal to rounding.

The differences are written as JSON, a file for each case, to the folder that `OUT` names.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from gpu_bench import watchdog
from gradient_bench import NAMES, UNIT, make_case

import jfagen
from jfagen.kernels import BACKWARDS
from jfagen.machine import simulate
from jfagen.paths import data_dir
from jfagen.runtime.backward import attention_backward
from jfagen.runtime.kernels import Wanted

pytestmark = pytest.mark.gpu

CASES = [
    (False, 128, torch.bfloat16, [0, 1, 127, 128, 129, 300], 130),
    (False, 128, torch.float16, [63, 400], 65),
    (False, 64, torch.bfloat16, [256, 1, 90], 200),
    (False, 64, torch.float16, [517, 64, 65, 0], 130),
    (True, 128, torch.bfloat16, [130, 0, 257, 5], [5, 70, 200, 0]),
    (True, 128, torch.float16, [63, 400], [129, 128]),
    (True, 64, torch.bfloat16, [1, 640, 128], [300, 1, 64]),
    (True, 64, torch.float16, [129, 128, 0], [64, 65, 3]),
]


def difference(one, other):
    """The largest difference, relative to the largest of a row; a small row counts as a fifth."""
    rows = np.abs(one).max(axis=-1, keepdims=True)
    sizes = np.maximum(rows, 0.2 * rows.mean())
    return float((np.abs(one - other) / np.maximum(sizes, 1e-30)).max(initial=0.0))


def inputs_of(jagged, head_dim, dtype, lengths, rows, lse):
    """What the host function of a backward takes, on the CPU; out and lse are the GPU's."""
    how = {"head_dim": head_dim, "dtype": dtype, "seed": sum(lengths), "lse": lse, "spare": 3}
    case = make_case(lengths, rows, **how)
    given = {"q": case.q, "k": case.k, "v": case.v, "kv_offsets": case.kv_offsets}
    if jagged:
        given["q_offsets"] = case.q_offsets
    with watchdog():
        on_gpu = {name: tensor.cuda() for name, tensor in given.items()}
        out, log = (x.cpu() for x in jfagen.attention(**on_gpu, return_lse=True))
    given |= {"dout": case.dout, "out": out, "lse": log, "scale": case.factor}
    return given | ({"dlse": case.dlse} if lse else {})


def on_the_gpu(given):
    named = {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in given.items()}
    with watchdog():
        found = attention_backward(**{"dlse": None, "q_offsets": None} | named)
        return [x.float().cpu().numpy() for x in found]


@pytest.mark.parametrize("policy", ["random", "late"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def test_the_machine_and_the_gpu_agree(case, policy, tmp_path, capsys):
    jagged, head_dim, dtype, *_ = case
    given = inputs_of(*case, lse=policy == "late")
    schedule = BACKWARDS[torch.cuda.get_device_capability()]
    name = Wanted(schedule, jagged, head_dim, dtype).name
    kernel = data_dir("generated") / f"{name}.py"
    outcome = simulate(kernel, inputs=given, entry="backward", sms=3, policy=policy)
    assert outcome.ok, outcome.text()
    pairs = zip(NAMES, on_the_gpu(given), outcome.outputs, strict=True)
    found = {which: difference(one, other) for which, one, other in pairs}
    table = {"kernel": name, "policy": policy, "rounding": UNIT[dtype], **found}
    folder = Path(os.environ.get("OUT", tmp_path))
    file = folder / f"machine-{name.replace('/', '-')}-{policy}.json"
    file.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    with capsys.disabled():
        words = ", ".join(f"{which} {error:.2e}" for which, error in found.items())
        print(f"\n{name} {policy}, of the row's largest: {words}", end="")
    assert all(error <= 4 * UNIT[dtype] for error in found.values()), found
