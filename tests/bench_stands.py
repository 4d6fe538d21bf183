"""Shared by tests of the bench: small cases, a clock that never looks at the time, CPU kernels."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from jfagen.bench.inputs import make_inputs
from jfagen.bench.providers import Operands, Provider
from jfagen.bench.records import Case, Lap
from jfagen.bench.session import Stand
from jfagen.bench.shapes import Direction, Mode, Shape


def small_shape(*, name="small", mode=Mode.SELF, batch=5, queries=None):
    """A shape of few rows; in broadcast mode of 24 queries."""
    if mode is Mode.BROADCAST:
        queries = queries or 24
    return Shape(
        name=name, mode=mode, batch=batch, longest=90, density=0.5, heads=2, head_dim=16,
        queries=queries,
    )  # fmt: skip


def small_case(lengths=(40, 1, 0, 90, 33), *, mode=Mode.SELF, direction=Direction.FORWARD):
    shape = small_shape(mode=mode, batch=len(lengths))
    return Case(shape=shape, seed=3, lengths=tuple(lengths), direction=direction)


def attend(q, k, v, q_lengths, kv_lengths, *, mistake=""):
    """Attention of packed rows in float32, rounded as a kernel rounds, with a mistake or without.

    The weights pass through bfloat16 as they do on the way into a matrix unit.
    """
    parts, first, start = [], 0, 0
    for rows, keys in zip(q_lengths, kv_lengths, strict=True):
        window = slice(start, start + keys)
        if mistake == "loses the last key" and keys > 1:
            window = slice(start, start + keys - 1)
        if mistake == "loses the first key" and keys > 1:
            window = slice(start + 1, start + keys)
        if mistake == "takes a row of its neighbour":
            window = slice(start, min(start + keys + 1, len(k)))
        part = [
            one.float().transpose(0, 1) for one in (q[first : first + rows], k[window], v[window])
        ]
        scores = part[0] @ part[1].transpose(1, 2) * q.shape[-1] ** -0.5
        weights = torch.exp(scores - (scores.amax(-1, keepdim=True) if keys else 0))
        out = weights.bfloat16().float() @ part[2]
        total = weights.sum(-1, keepdim=True)
        out = out / torch.where(total > 0, total, 1.0)
        if not keys and mistake == "leaves empty sequences as they were":
            out = out + 1e-3
        parts.append(out.transpose(0, 1))
        first, start = first + rows, start + keys
    out = torch.cat(parts)
    if mistake == "exchanges heads":
        out = out.flip(1)
    if mistake == "is NaN somewhere":
        out[7, 1, 3] = float("nan")
    if mistake == "is three per cent off":
        out = out * 1.03
    return out.to(q.dtype)


@dataclass
class Ticks:
    """A clock: calls say themselves how long they take; every burst is remembered."""

    now_ms: float = 0.0
    bursts: list = field(default_factory=list)
    calls: list = field(default_factory=list)

    def burst(self, lead, calls):
        lead()
        laps, before = [], len(self.calls)
        for call in calls:
            began = self.now_ms
            call()
            laps.append(Lap(device_ms=self.now_ms - began, host_ms=0.01))
        self.bursts.append(tuple(self.calls[before:]))
        return tuple(laps)


class OnCpu(Provider):
    """A kernel of the tests: takes `ms`, makes a mistake from the given call on."""

    def __init__(self, name, ms=1.0, *, ticks=None, mistake="", after=0, error=None, unfit=None):
        self.name, self.ms, self.ticks = name, ms, ticks or Ticks()
        self.mistake, self.after, self.error, self.reason = mistake, after, error, unfit
        self.count, self.prepared = 0, 0

    def available(self):
        return None

    def unfit(self, case, capability):
        return self.reason

    def operands(self, inputs):
        number, self.prepared = self.prepared, self.prepared + 1
        case = inputs.case

        def timed(q, k, v):
            self.ticks.calls.append((self.name, number))
            self.ticks.now_ms += self.ms
            self.count += 1
            if self.error is not None and self.count > self.after:
                raise self.error
            mistake = self.mistake if self.count > self.after else ""
            return attend(q, k, v, case.query_lengths, case.lengths, mistake=mistake)

        leaves = (inputs.packed_q, inputs.k, inputs.v)
        return Operands(leaves=leaves, attend=timed, pack=lambda x: x, unpack=lambda x: x)


def cpu_stand(ticks, *, rounds=3, free_bytes=2**40, l2_bytes=0, release=lambda: None):
    return Stand(
        device="cpu", clock=ticks, l2_bytes=l2_bytes, capability=None,
        free_bytes=lambda: free_bytes, release=release, rounds=rounds, warm_up_ms=0.0,
    )  # fmt: skip


def cpu_inputs(case, number=0):
    return make_inputs(case, number, "cpu")
