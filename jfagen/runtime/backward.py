"""The operator of the gradients: dq, dk and dv behind `torch.library`."""

from __future__ import annotations

import warnings

import torch

from . import arguments
from .complaint import device_errors
from .kernels import Wanted, backward_schedule, current, load
from .operator import TMA_ALIGNMENT
from .reference import reference_backward
from .tiles import list_key_blocks


@torch.library.custom_op("jfagen::attention_backward", mutates_args=())
def attention_backward(
    dout: torch.Tensor | None,
    dlse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dq, dk and dv, with the shapes and types of q, k and v, from those of out and lse.

    Args:
        dout: gradient of out; None if it has none. Any strides.
        dlse: gradient of lse, float32; None if it has none.
        q: [M, H, D], or [T_q, H, D] with `q_offsets`, as the forward was given it.
        k: [T, H, D], likewise.
        v: [T, H, D], likewise.
        out: what the forward returned, [B, M, H, D] or [T_q, H, D].
        lse: the same, [B, H, M] or [T_q, H] float32.
        kv_offsets: [B + 1] integers.
        q_offsets: likewise, of packed queries.
        scale: factor of the scores.
    """
    schedule = backward_schedule(q.device)
    if schedule is None:
        return reference_backward(dout, dlse, q, k, v, out, lse, kv_offsets, q_offsets, scale)
    arguments.check_for_kernel(q, k, v)
    check_determinism()
    kernel = load(Wanted(schedule, q_offsets is not None, q.shape[2], q.dtype))
    offsets = (kv_offsets,) if q_offsets is None else (kv_offsets, q_offsets)
    with device_errors(), current(q.device):
        dout = torch.zeros_like(out) if dout is None else dout
        dout, q, k, v = (_aligned(tensor) for tensor in (dout, q, k, v))
        tiles = list_key_blocks(kernel, kv_offsets, q_offsets, len(k), len(q))
        given = {"scale": scale, "dlse": dlse, "tiles": tiles}
        dq, dk, dv = kernel.backward(dout, q, k, v, out, lse, *offsets, **given)
    return dq, dk, dv


def _aligned(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor without gaps from an address that TMA can begin at: itself, or a copy."""
    dense = tensor.contiguous()
    return dense if dense.data_ptr() % TMA_ALIGNMENT == 0 else dense.clone()


@attention_backward.register_fake
def _(
    dout: torch.Tensor | None,
    dlse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    kv_offsets: torch.Tensor,
    q_offsets: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def check_determinism() -> None:
    """Say that the kernels' dq is not deterministic, as torch says it of its own operators.

    Raises:
        RuntimeError: `torch.use_deterministic_algorithms(True)` is set; a warning if with
            `warn_only=True`.
    """
    if not torch.are_deterministic_algorithms_enabled():
        return
    said = (
        "the backward of jfagen.attention does not have a deterministic implementation: "
        "reduce-adds in float32 sum dq in an order that changes from run to run, but you set "
        "`torch.use_deterministic_algorithms(True)`; jfagen.runtime.reference.reference is plain "
        "torch, whose gradients are deterministic, and `warn_only=True` makes this a warning"
    )
    if not torch.is_deterministic_algorithms_warn_only_enabled():
        raise RuntimeError(said)
    warnings.warn(said, stacklevel=2)


def _no_second(context: object, *gradients: object) -> None:
    raise NotImplementedError(
        "the gradients of jfagen.attention cannot be differentiated again; "
        "jfagen.runtime.reference.reference is plain torch, which can"
    )


attention_backward.register_autograd(_no_second)
