"""The forward operator with its gradients: what is kept, and who is asked for what."""

from __future__ import annotations

from typing import Any

import torch

from .backward import attention_backward
from .operator import attention_forward

__all__ = ["attention_forward"]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:  # noqa: ANN401
    """Remember what the gradients need: arguments and results, no scores."""
    q, k, v, kv_offsets, q_offsets, scale, tiles, _ = inputs
    ctx.save_for_backward(q, k, v, *output, kv_offsets, q_offsets)
    ctx.scale, ctx.tiles = scale, len(tiles)
    ctx.set_materialize_grads(False)


def _gradients(
    ctx: Any,  # noqa: ANN401
    dout: torch.Tensor | None,
    dlse: torch.Tensor | None,
) -> tuple[Any, ...]:
    """Return the gradients of q, k and v that are asked for; the other arguments have none."""
    q, k, v, out, lse, kv_offsets, q_offsets = ctx.saved_tensors
    found: tuple[torch.Tensor | None, ...] = (None, None, None)
    if dout is not None or dlse is not None:
        found = attention_backward(dout, dlse, q, k, v, out, lse, kv_offsets, q_offsets, ctx.scale)
    asked = zip(found, ctx.needs_input_grad[:3], strict=True)
    kept = (gradient if needed else None for gradient, needed in asked)
    return (*kept, None, None, None, [None] * ctx.tiles, None)


attention_forward.register_autograd(_gradients, setup_context=_keep)
