"""Names that a schedule cannot give away: Python's, and those that every kernel's text has."""

from __future__ import annotations

import keyword

from ..algorithm import ALGORITHMS, Algorithm
from ..syntax import ast
from .context import Context

#: What the text of a kernel imports and defines beside the kernel.
_TOP = frozenset(
    {"math", "torch", "triton", "tl", "tlx", "create_ragged_descriptor", "TensorDescriptor"}
    | {"add_columns", "add_f32x2", "advance_max", "any_row_rescales"}
    | {"find_tile", "fma_f32x2", "mask_columns", "mul_f32x2", "ragged_rows", "ring_slot"}
    | {"row_log_sum_exp", "scale_scores", "split_columns", "store_empty_tile", "store_lse"}
    | {"GROUPS", "BLOCK_M", "BLOCK_N", "HEAD_DIM", "EMPTY_ROWS", "RESCALE_LIMIT", "RAGGED_ROWS"}
    | {"SUM_COLUMNS", "LN2", "SIGNATURE", "CONSTEXPRS", "OPTIONS", "KERNEL", "TARGET", "BUDGET"}
)
#: What the text of a kernel calls its own variables and functions.
_INSIDE = frozenset(
    {"_", "float", "range", "blocks", "columns", "factor", "first_row", "full_steps", "head"}
    | {"heads", "key_count", "key_start", "kv_offsets", "lse", "next_tile", "order", "piece"}
    | {"queries", "row_lse", "row_sums", "scale_log2", "sequence", "sequence_tiles", "step"}
    | {"step_count", "step_phase", "steps", "tile", "tile_count", "tile_phase", "clc_phase"}
    | {"previous_phase"}
)
#: Beginnings of those names that would give a buffer's tiles or constants the same name.
_BEGINNINGS = frozenset({"sequence", "sum"})


def check_names(context: Context) -> None:
    """Report names that would clash in the kernel's text."""
    launchers = {name.rpartition(".")[-1] for name in ALGORITHMS}
    _check(context, "kernel", context.tree.name, _TOP | launchers)
    tile = context.tree.tile
    for size in tile.sizes if tile else ():
        if size.groups is not None:
            taken = _TOP | _INSIDE | _library(context.algorithm)
            _check(context, "group index", size.groups.symbol, taken)
    for node in context.tree.buffers:
        for name in node.names:
            _check(context, "buffer", name.name, _BEGINNINGS)


def _check(context: Context, kind: str, name: ast.Name, taken: frozenset[str]) -> None:
    if name.text not in taken and not keyword.iskeyword(name.text):
        return
    whose = "Python" if keyword.iskeyword(name.text) else "the kernel's text"
    context.reporter.report(
        "reserved-name",
        f"`{name.text}` cannot be the name of a {kind}: it is a word of {whose}",
        name.span,
        helps=(f"choose another name, such as `my_{name.text.lower()}`",),
    )


def _library(algorithm: Algorithm | None) -> frozenset[str]:
    """Return the names of the library that stand in the text as they are."""
    if algorithm is None:
        return frozenset()
    kept = {name for op in algorithm.ops for name in (op.name, *op.keeps, *op.inputs, *op.outputs)}
    return frozenset(kept | {value.name for value in algorithm.values})
