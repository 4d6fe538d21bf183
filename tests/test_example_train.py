"""The training example, small on the CPU and whole on a GPU: the curves agree, the loss falls."""

from __future__ import annotations

import json
import math
from functools import partial

import pytest
import torch
from gpu_bench import watchdog
from torch._dynamo.testing import CompileCounterWithBackend

import jfagen
from jfagen.examples import train
from jfagen.examples.taste import Sizes, Taste, make_batch, padded_attention

SMALL = Sizes(users=5, longest=9, queries=3, heads=2, head_dim=4, width=8)
CPU = torch.device("cpu")
STEPS = 12


@pytest.fixture(autouse=True)
def _one_thread():
    """Others wait longer to be woken than such small products take."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(*more):
    return train.main(["--device", "cpu", "--no-compile", "--steps", str(STEPS), *map(str, more)])


def test_a_short_run_agrees_with_the_reference_and_writes_what_is_asked_for(tmp_path, capsys):
    curves, picture = tmp_path / "curves.json", tmp_path / "curves.png"
    assert run("--json", curves, "--plot", picture) == 0
    found = json.loads(curves.read_text())
    ours, theirs = (found[name]["losses"] for name in ("jfagen", "reference"))
    assert len(ours) == len(theirs) == STEPS and ours[-1] < 0.8 * ours[0]
    assert all(math.isclose(a, b, rel_tol=1e-3) for a, b in zip(ours, theirs, strict=True))
    assert picture.read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr().out
    assert f"   0  {ours[0]:8.5f}   {theirs[0]:8.5f}\n" in said and f"{STEPS - 1:4} " in said
    assert "apart by 0.00% of the first loss at most; 2% are allowed" in said


@pytest.mark.gpu
def test_200_steps_on_a_gpu_follow_the_reference_in_one_graph(tmp_path):
    curves = tmp_path / "curves.json"
    with watchdog(300):
        assert train.main(["--json", str(curves)]) == 0
    found = json.loads(curves.read_text())
    assert found["jfagen"]["graphs"] == found["reference"]["graphs"] == 1
    assert len(found["jfagen"]["losses"]) == 200


@pytest.mark.parametrize("factor", [-1, math.nan])
def test_curves_that_part_end_in_1(monkeypatch, factor):
    def wrong(q, *others, **how):
        return padded_attention(factor * q, *others, **how)

    monkeypatch.setattr(train, "padded_attention", wrong)
    assert run() == 1


def test_a_loss_that_does_not_fall_ends_in_1(monkeypatch):
    monkeypatch.setattr(train, "FALL_STEPS", STEPS)
    assert run() == 1


@pytest.mark.parametrize("step", range(4))
def test_a_batch_is_packed_has_an_empty_history_and_is_the_same_again(step):
    batch, again = (make_batch(SMALL, step, CPU) for _ in range(2))
    lengths = batch.kv_offsets.diff()
    assert len(lengths) == SMALL.users and lengths[step % SMALL.users] == 0
    assert lengths.max() <= SMALL.longest
    assert torch.equal(torch.bincount(batch.users, minlength=SMALL.users), lengths)
    assert len(batch.genres) == len(batch.ratings) == lengths.sum()
    assert not batch.taste[step % SMALL.users].any()
    for one, other in zip(batch.inputs, again.inputs, strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(lengths, make_batch(SMALL, step + 1, CPU).kv_offsets.diff())


def test_padded_attention_is_attention_gradients_included():
    offsets = torch.tensor([0, 0, 4, 9, 9])
    found = []
    for attention in (jfagen.attention, partial(padded_attention, longest=7)):
        generator = torch.Generator().manual_seed(1)
        given = [
            torch.randn(rows, 2, 8, generator=generator).requires_grad_() for rows in (3, 9, 9)
        ]
        out = attention(*given, offsets)
        found.append([out, *torch.autograd.grad(out.square().sum(), given)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_one_graph_serves_batches_of_all_lengths():
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    model = Taste(SMALL, jfagen.attention)
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    for step in range(3):
        batch = make_batch(SMALL, step, CPU)
        for packed in batch.inputs[:3]:
            torch._dynamo.mark_dynamic(packed, 0)
        found = compiled(*batch.inputs)
        torch.testing.assert_close(found, model(*batch.inputs))
        found.sum().backward()
    assert counter.frame_count == 1
