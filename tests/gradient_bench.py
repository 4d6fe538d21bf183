"""Shared by the tests of gradients on a GPU: float64 gradients, what rounding explains, guards.

Everything runs where its tensors lie, so that the CPU tries what the GPU's tests rely on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import torch

import jfagen

#: Half an epsilon: one rounding to the type, relative.
UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
NAMES = ("dq", "dk", "dv")


def offsets(lengths, device, dtype=torch.int32):
    return torch.tensor([0, *lengths], dtype=torch.int64).cumsum(0).to(device, dtype)


def normal(shape, dtype, seed, device, *, guards=0):
    """Normal numbers; with guards rows of a fused tensor with NaN before, behind and between."""
    generator = torch.Generator(device).manual_seed(seed)
    made = torch.randn(shape, generator=generator, device=device, dtype=dtype)
    if not guards:
        return made
    first, *rest = shape
    whole = torch.full((first + 2 * guards, 2, *rest), math.nan, device=device, dtype=dtype)
    inner = whole[guards : guards + first, 1]
    inner.copy_(made)
    return inner


@dataclass(frozen=True, kw_only=True)
class Case:
    """Arguments of `attention`, and the gradients of its results."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    kv_offsets: torch.Tensor
    q_offsets: torch.Tensor | None
    dout: torch.Tensor
    dlse: torch.Tensor | None = None
    scale: float | None = None

    @cached_property
    def leaves(self):
        return [x.detach().requires_grad_() for x in (self.q, self.k, self.v)]

    @cached_property
    def factor(self):
        return self.q.shape[2] ** -0.5 if self.scale is None else self.scale

    @cached_property
    def ends(self):
        """Pairs of the rows of q and the rows of k that belong together."""
        keys = [slice(*pair) for pair in pairwise(self.kv_offsets.tolist())]
        if self.q_offsets is None:
            return [(slice(None), theirs) for theirs in keys]
        mine = [slice(*pair) for pair in pairwise(self.q_offsets.tolist())]
        return list(zip(mine, keys, strict=True))

    def forward(self):
        """Return out, or out and lse where both have gradients, of leaves."""
        given = (*self.leaves, self.kv_offsets, self.q_offsets)
        out, lse = jfagen.attention(*given, scale=self.scale, return_lse=True)
        return [out] if self.dlse is None else [out, lse]

    def gradients(self):
        """Return dq, dk and dv of `jfagen.attention`."""
        upstream = [self.dout] if self.dlse is None else [self.dout, self.dlse]
        return torch.autograd.grad(self.forward(), self.leaves, upstream)

    def change(self, **what):
        return replace(self, **what)


def make_case(
    lengths, rows, *, heads=2, head_dim=64, dtype=torch.bfloat16, seed=0, device="cpu",
    lse=False, spare=0, guards=0, scale=None,
):  # fmt: skip
    """Return a random case: `rows` of q for all sequences together, or a number for each."""
    packed = not isinstance(rows, int)
    shape = (heads, head_dim)
    queries, keys = (sum(rows) + spare if packed else rows), sum(lengths) + spare
    out = (queries,) if packed else (len(lengths), queries)
    logs = (queries, heads) if packed else (len(lengths), heads, queries)
    q, k, v, dout = (
        normal((*first, *shape), dtype, 4 * seed + place, device, guards=guards)
        for place, first in enumerate(((queries,), (keys,), (keys,), out))
    )
    return Case(
        q=q,
        k=k,
        v=v,
        kv_offsets=offsets(lengths, device),
        q_offsets=offsets(rows, device) if packed else None,
        dout=dout,
        dlse=normal(logs, torch.float32, seed, device) if lse else None,
        scale=scale,
    )


def one_sequence(case, b, *, rounded):
    """Return dq, dk, dv in float64, and the root mean square size of what each is summed from.

    With `rounded`, out, P and dS pass through the input type, as in a kernel.
    """

    def narrow(x):
        return x.to(case.q.dtype).double() if rounded else x

    mine, theirs = case.ends[b]
    at = b if case.q_offsets is None else mine
    given = (case.q[mine], case.k[theirs], case.v[theirs], case.dout[at])
    q, k, v, dout = (x.double().transpose(0, 1) for x in given)
    probs = torch.softmax(q @ k.mT * case.factor, -1)
    out = narrow(probs @ v)
    delta = (dout * out).sum(-1, keepdim=True)
    if case.dlse is not None:
        logs = case.dlse[b] if case.q_offsets is None else case.dlse[mine].T
        delta = delta - logs[..., None].double()
    dscores = narrow(probs * (dout @ v.mT - delta)) * case.factor
    gradients = dscores @ k, dscores.mT @ q, narrow(probs).mT @ dout
    squares = (dout.square() @ v.square().mT) + (dout * out).square().sum(-1, keepdim=True)
    size = (probs * case.factor).square() * (squares + delta.square())
    sizes = size @ k.square(), size.mT @ q.square(), probs.square().mT @ dout.square()
    return [[x.transpose(0, 1) for x in found] for found in (gradients, sizes)]


def all_sequences(case, *, rounded=False):
    """Return dq, dk and dv of a case in float64, and the squares of what they are summed from."""
    like = [[torch.zeros(x.shape, dtype=torch.float64, device=x.device) for x in case.leaves]
            for _ in range(2)]  # fmt: skip
    for b, (mine, theirs) in enumerate(case.ends):
        if not len(case.q[mine]) or not len(case.k[theirs]):
            continue
        for whole, (dq, dk, dv) in zip(like, one_sequence(case, b, rounded=rounded), strict=True):
            whole[0][mine] += dq
            whole[1][theirs], whole[2][theirs] = dk, dv
    return like


def check(case, found=None):
    """Hold dq, dk and dv against float64, sequence by sequence; return how near to the bound.

    Allowed is twice what rounding makes of the same sums in float64, and a rounding of what is
    summed, for sequences so small that the former may be lucky. Nobody's rows are exactly 0.
    """
    found = case.gradients() if found is None else found
    exact, sizes = all_sequences(case)
    narrow, _ = all_sequences(case, rounded=True)
    worst = 0.0
    for place, name in enumerate(NAMES):
        got = found[place]
        assert got.dtype == case.q.dtype and got.shape == exact[place].shape, name
        assert bool(torch.isfinite(got.float()).all()), name
        shared = name == "dq" and case.q_offsets is None
        parts = [slice(None)] if shared else [ends[place > 0] for ends in case.ends]
        covered = len(got) if shared else parts[-1].stop if parts else 0
        assert not bool(got[covered:].any()), f"{name} past the last offset"
        for part in parts:
            wanted, size = exact[place][part], sizes[place][part].sqrt()
            if not wanted.numel():
                continue
            rounding = (narrow[place][part].to(got.dtype).double() - wanted).abs().max()
            bound = 2 * rounding + UNIT[got.dtype] * size.max()
            error = (got[part].double() - wanted).abs().max()
            assert bool(error <= bound), (name, part, float(error), float(bound))
            worst = max(worst, float(error / bound.clamp(min=1e-30)))
    return worst


def check_directions(case, found=None, step=1e-4):
    """Hold the gradients against differences of the loss in float64 along directions."""
    from jfagen.runtime.reference import reference

    found = case.gradients() if found is None else found
    found = [x.double() for x in found]

    def loss(*moved):
        out, lse = reference(*moved, case.kv_offsets, case.q_offsets, case.factor)
        total = (out * case.dout.double()).sum()
        if case.dlse is not None:
            finite = torch.isfinite(lse)
            total = total + (lse.double()[finite] * case.dlse[finite]).sum()
        return total

    points = [x.detach().double() for x in case.leaves]
    for place, name in enumerate(NAMES):
        length = found[place].norm()
        direction = found[place] / length
        ahead, behind = (
            [x + sign * step * direction if at == place else x for at, x in enumerate(points)]
            for sign in (1, -1)
        )
        slope = (loss(*ahead) - loss(*behind)) / (2 * step)
        assert abs(float(slope / length) - 1) < 0.01, (name, float(slope), float(length))


class GuardedTorch:
    """Stands for `torch` in a kernel's host part: what it allocates lies between guards.

    Memory that is not asked to be zero is NaN, or the largest integer.
    """

    GUARD, MARK = 4096, 7.0

    def __init__(self):
        """Nothing is allocated yet."""
        self.made = []

    def __getattr__(self, name):
        return getattr(torch, name)

    def _between(self, size, dtype, device, value):
        count = math.prod(size)
        whole = torch.full((count + 2 * self.GUARD,), self.MARK, dtype=dtype, device=device)
        inner = whole[self.GUARD : self.GUARD + count].fill_(value)
        self.made.append((whole, count))
        return inner.view(size)

    def empty(self, size, *, dtype, device):
        poison = math.nan if dtype.is_floating_point else torch.iinfo(dtype).max
        return self._between(size, dtype, device, poison)

    def empty_like(self, other):
        return self.empty(other.shape, dtype=other.dtype, device=other.device)

    def zeros(self, size, *, dtype, device):
        return self._between(size, dtype, device, 0.0)

    def zeros_like(self, other):
        return self._between(other.shape, other.dtype, other.device, 0.0)

    def check(self):
        """Tell that nothing was written past the ends of what was allocated."""
        assert self.made
        for whole, count in self.made:
            ends = torch.cat([whole[: self.GUARD], whole[self.GUARD + count :]])
            assert bool((ends == self.MARK).all())
