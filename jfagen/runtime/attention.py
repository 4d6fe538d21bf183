"""`attention`: the function, its checks and its contract at the edges."""

from __future__ import annotations

from typing import Literal, overload

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _get_current_dispatch_mode

from . import arguments
from .autograd import attention_forward
from .operator import compute
from .plan import Plan


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None = ...,
    *,
    scale: float | None = ...,
    return_lse: Literal[False] = ...,
    plan: Plan | None = ...,
    check: bool = ...,
) -> torch.Tensor: ...


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None = ...,
    *,
    scale: float | None = ...,
    return_lse: Literal[True],
    plan: Plan | None = ...,
    check: bool = ...,
) -> tuple[torch.Tensor, torch.Tensor]: ...


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    return_lse: bool = False,
    plan: Plan | None = None,
    check: bool = True,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Attention over sequences that lie packed, out = softmax(scale * q k^T) v; nothing is padded.

    On GPUs that a generated kernel is built for (Hopper, B200) the kernel runs, without a host
    synchronisation; elsewhere a slower reference in plain torch. out and lse of a sequence do not
    depend on its neighbours, bit for bit. Differentiable once, in q, k and v; a gradient of lse
    counts too. On a GPU dq is summed in float32 in an order that changes from run to run, and the
    last bits of dk and dv may follow from the batch.

    Args:
        q: [M, H, D], the same queries for every sequence (broadcast mode); with `q_offsets`
            [T_q, H, D], packed. bf16 or fp16 and D 64 or 128 on a GPU with a kernel.
        k: [T, H, D] of q's type, the keys of the sequences one after the other.
        v: the same of the values.
        kv_offsets: [B + 1] int32 or int64; sequence b has the rows kv_offsets[b] to
            kv_offsets[b + 1] of k and v. Rows past the last offset belong to nobody.
        q_offsets: the same of packed queries; rows of q past its last value get 0 and -inf.
        scale: positive factor of the scores; 1 / sqrt(D) if None.
        return_lse: return the log-sum-exp of every row too.
        plan: what `plan` returned for these offsets; made here if None.
        check: look at the values of the offsets, unless a plan is given, which was checked.

    Returns:
        out [B, M, H, D], or [T_q, H, D], of q's type; with `return_lse` also lse [B, H, M], or
        [T_q, H], float32, natural logarithm. A sequence without keys gives 0 and -inf.

    Raises:
        TypeError, ValueError: with the tensor, its value and the rule, before anything is launched.
            Values of offsets on a GPU are looked at there: wrong ones trap.
        NotImplementedError: inside a transform of `torch.func`, or with forward-mode derivatives.
        RuntimeError: wrong values of offsets on a GPU, where a later call learns of the trap; in
            the backward of a kernel, if torch is told to use deterministic algorithms.
    """
    arguments.check_tensors(q, k, v)
    _refuse_transforms(q, k, v)
    arguments.check_offsets("kv_offsets", kv_offsets, q.device)
    if q_offsets is not None:
        arguments.check_offsets("q_offsets", q_offsets, q.device)
        arguments.check_same_batch(kv_offsets, q_offsets)
    factor = arguments.checked_scale(scale, q.shape[2])
    total_queries = None if q_offsets is None else q.shape[0]
    if plan is not None:
        _check_plan(plan, kv_offsets, total_queries, k.shape[0])
    tiles = [] if plan is None else list(plan.tiles)
    looks = check and (plan is None or plan.total_keys is None)
    # Nobody watches: the way through the dispatcher would cost the host as much as a launch.
    call = compute if _is_eager(q, k, v) else attention_forward
    out, lse = call(q, k, v, kv_offsets, q_offsets, factor, tiles, looks)
    return (out, lse) if return_lse else out


def _is_eager(*tensors: torch.Tensor) -> bool:
    """Whether plain tensors are computed with: nothing traces, and no gradient is asked for."""
    if tensors[0].is_meta:
        return False
    if torch.compiler.is_compiling() or _get_current_dispatch_mode() is not None:
        return False
    asked = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return not asked and all(type(tensor) is torch.Tensor for tensor in tensors)


def _refuse_transforms(*tensors: torch.Tensor) -> None:
    """A kernel sees through wrapped tensors and loses what they carry, so none is let in."""
    if torch.compiler.is_compiling():
        return
    if torch._C._are_functorch_transforms_active() or (
        forward_ad._current_level >= 0
        and any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)
    ):
        raise NotImplementedError(
            "jfagen.attention is not built for torch.func (vmap, grad, jvp) and forward-mode "
            "derivatives; jfagen.runtime.reference.reference is plain torch, which takes them"
        )


def _check_plan(
    plan: Plan, kv_offsets: torch.Tensor, total_queries: int | None, total_keys: int
) -> None:
    if not isinstance(plan, Plan):
        raise TypeError(f"plan is a {type(plan).__name__}, not what `jfagen.plan` returns")
    if plan.sequences != kv_offsets.numel() - 1:
        raise ValueError(
            f"the plan is for {plan.sequences} sequences, kv_offsets for {kv_offsets.numel() - 1}"
        )
    if plan.total_queries != total_queries:
        made, given = _rows(plan.total_queries), _rows(total_queries)
        raise ValueError(f"the plan is for {made} of q, this q has {given}")
    if plan.tiles and plan.tiles[0].device != kv_offsets.device:
        raise ValueError(
            f"the plan is on {plan.tiles[0].device}, kv_offsets on {kv_offsets.device}"
        )
    if plan.total_keys is not None and plan.total_keys > total_keys:
        raise ValueError(f"the plan is for {plan.total_keys} rows of k, k has {total_keys}")


def _rows(total_queries: int | None) -> str:
    return "shared rows" if total_queries is None else f"{total_queries} packed rows"
