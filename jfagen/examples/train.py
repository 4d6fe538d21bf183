"""Train one model twice, with `jfagen.attention` and with padded attention in plain torch.

`python -m jfagen.examples.train` prints both curves of the loss; it exits with 1 if they part, or
if nothing was learned. bfloat16 (autocast) on a GPU; float32 and smaller on a CPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional

import jfagen

from .taste import Attention, Batch, Sizes, Taste, make_batch, padded_attention

SIZES = {
    "cuda": Sizes(users=256, longest=1024, queries=32, heads=2, head_dim=128, width=128),
    "cpu": Sizes(users=64, longest=48, queries=8, heads=2, head_dim=16, width=32),
}
LEARNING_RATE = {"cuda": 3e-4, "cpu": 3e-3}
#: How far the curves may be apart at any step, as a part of the first loss.
TOLERANCE = 0.02
#: By which factor the loss has to fall in that many steps; shorter runs only have to fall.
FALL, FALL_STEPS = 4.0, 200
_SHOWN_EVERY = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The loss of every step, the median time of a step, and how many graphs were compiled."""

    losses: list[float]
    step_ms: float
    graphs: int

    @property
    def fall(self) -> float:
        """Return the first loss over the mean of the last ten."""
        return self.losses[0] / statistics.mean(self.losses[-10:])


def train(attention: Attention, device: torch.device, steps: int, *, compiled: bool) -> Curve:
    """Train the model from the same start on the same batches as every other call."""
    sizes = SIZES[device.type]
    torch.manual_seed(0)
    model = Taste(sizes, attention).to(device)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    # In this process: torch 2.11's workers do not find the GPU with fbtriton's driver.
    options = {"compile_threads": 1}
    call = torch.compile(model, fullgraph=True, options=options) if compiled else model
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE[device.type])
    losses, times = [], []
    for step in range(steps):
        batch = make_batch(sizes, step, device)
        if compiled:
            # One graph for all batches: they have as many users, but never as many items.
            for packed in (batch.genres, batch.ratings, batch.users):
                torch._dynamo.mark_dynamic(packed, 0)
        started = time.perf_counter()
        loss = _loss(call, batch, device)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(1e3 * (time.perf_counter() - started))
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    return Curve(losses=losses, step_ms=statistics.median(times), graphs=graphs)


def _loss(model: torch.nn.Module, batch: Batch, device: torch.device) -> torch.Tensor:
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        found = model(*batch.inputs)
    return functional.mse_loss(found.float(), batch.taste)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train both, print what is found, and return 0 only if they agree and the model learned."""
    options = _options(arguments)
    device = torch.device(options.device)
    padded = partial(padded_attention, longest=SIZES[device.type].longest)
    ours, theirs = (
        train(attention, device, options.steps, compiled=options.compile)
        for attention in (jfagen.attention, padded)
    )
    print("step    jfagen  reference")
    for step in sorted({*range(0, options.steps, _SHOWN_EVERY), options.steps - 1}):
        print(f"{step:4}  {ours.losses[step]:8.5f}   {theirs.losses[step]:8.5f}")
    # torch's maximum is NaN if any loss is, and then nothing below is allowed.
    difference = torch.tensor(ours.losses) - torch.tensor(theirs.losses)
    apart = float(difference.abs().max()) / theirs.losses[0]
    least = FALL if options.steps >= FALL_STEPS else 1.0
    print(f"apart by {apart:.2%} of the first loss at most; {TOLERANCE:.0%} are allowed")
    print(f"the loss fell by {ours.fall:.1f} and {theirs.fall:.1f}; at least {least:.0f} is asked")
    print(f"a step took {ours.step_ms:.1f} and {theirs.step_ms:.1f} ms (median)")
    if options.compile:
        print(f"graphs compiled for all lengths: {ours.graphs} and {theirs.graphs}")
    if options.json:
        found = {"jfagen": asdict(ours), "reference": asdict(theirs), "apart": apart}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        _plot(ours, theirs, options.plot)
    return 0 if apart <= TOLERANCE and min(ours.fall, theirs.fall) >= least else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    here = "cuda" if torch.cuda.is_available() else "cpu"
    parser = argparse.ArgumentParser(prog="python -m jfagen.examples.train", description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default=here, help="default: %(default)s")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw both curves")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write both curves")
    return parser.parse_args(arguments)


def _plot(ours: Curve, theirs: Curve, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(theirs.losses, label="padded, plain torch", linewidth=3, alpha=0.4)
    axes.semilogy(ours.losses, label="jfagen.attention", linewidth=1)
    axes.set(xlabel="step", ylabel="loss")
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main())
