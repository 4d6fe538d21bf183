"""A gradient of the log-sum-exp adds to those of the scores, in kernels as in the reference."""

from __future__ import annotations

import pytest
import torch
from builders import compiled_instances

from jfagen.machine import Kind, simulate
from jfagen.runtime.reference import reference, reference_backward

TEXTS = {one.instance.suffix: one.kernel.text for one in compiled_instances("bwd")}
KEYS, QUERIES = [0, 5, 135, 135], [0, 70, 100, 130]


def inputs(jagged):
    generator = torch.Generator().manual_seed(3)

    def normal(*shape):
        return torch.randn(shape, generator=generator)

    q, k, v = (normal(rows, 2, 128).to(torch.bfloat16) for rows in (130, 135, 135))
    offsets = [torch.tensor(KEYS), torch.tensor(QUERIES) if jagged else None]
    out, lse = reference(q, k, v, *offsets, 0.1)
    dlse = normal(*lse.shape)
    return q, k, v, out, lse, offsets, dlse


@pytest.mark.parametrize("jagged", [False, True])
def test_a_kernel_takes_the_gradient_of_lse(jagged):
    q, k, v, out, lse, offsets, dlse = inputs(jagged)
    dout = torch.randn_like(out.float()).to(torch.bfloat16)
    wanted = reference_backward(
        dout.double(), dlse.double(), q.double(), k.double(), v.double(), out.double(),
        lse.double(), *offsets, 0.1,
    )  # fmt: skip
    given = {"dout": dout, "q": q, "k": k, "v": v, "out": out, "lse": lse, "dlse": dlse}
    given |= {"kv_offsets": offsets[0].int(), "scale": 0.1}
    given |= {"q_offsets": offsets[1].int()} if jagged else {}
    text = TEXTS["_jagged" if jagged else ""]
    outcome = simulate(text, inputs=given, entry="backward")
    assert outcome.kind is Kind.RESULTS, outcome.text()
    for found, exact in zip(outcome.outputs, wanted, strict=True):
        error = (torch.from_numpy(found).double() - exact).abs().max()
        assert error < 0.02 * exact.abs().max()
    without = simulate(text, inputs=given | {"dlse": None}, entry="backward")
    assert (torch.from_numpy(without.outputs[1]).double() - wanted[1]).abs().max() > 0.1
