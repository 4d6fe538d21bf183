"""The Triton side of `guard`: imported only where a kernel can run."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def trap(flags):  # noqa: ANN001, ANN201
    """End the kernel with an error where a flag is set."""
    tl.inline_asm_elementwise(
        "{ .reg .pred p; setp.ne.s32 p, $1, 0; @p trap; mov.s32 $0, $1; }",
        "=r,r",
        [flags],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def first_wrong(offsets, sequences, rows, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """The first wrong sequence of this block; 2**31 - 1 if all are right."""
    sequence = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = sequence < sequences
    start = tl.load(offsets + sequence, mask=inside, other=0)
    stop = tl.load(offsets + sequence + 1, mask=inside, other=0)
    wrong = (stop < start) | (stop > rows) | (start < 0) | ((sequence == 0) & (start != 0))
    return tl.min(tl.where(inside & wrong, sequence, 2147483647), 0)


@triton.jit
def look_at_kv_offsets(offsets, sequences, rows, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Stop at the first wrong value of kv_offsets."""
    first = first_wrong(offsets, sequences, rows, BLOCK)
    if first < 2147483647:
        tl.device_print("jfagen: kv_offsets are wrong at sequence", first)
        trap(tl.full((32,), 1, tl.int32))


@triton.jit
def look_at_q_offsets(offsets, sequences, rows, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Stop at the first wrong value of q_offsets."""
    first = first_wrong(offsets, sequences, rows, BLOCK)
    if first < 2147483647:
        tl.device_print("jfagen: q_offsets are wrong at sequence", first)
        trap(tl.full((32,), 1, tl.int32))
