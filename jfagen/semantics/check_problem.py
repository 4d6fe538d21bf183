"""Checks of the head of a schedule: algorithm, target, problem and tile."""

from __future__ import annotations

from ..algorithm import ALGORITHMS
from ..syntax import ast
from ..target import TARGETS
from ..types import DType
from .context import Context
from .program import Problem, TileShape

#: Words of the language that a later version builds.
LATER_ALGORITHMS = ("attention.backward",)
LATER_TARGETS = ("sm_90a",)
LATER_DTYPES = ("fp16",)
LATER_MASKS = ("causal", "window")

#: What MMA tiles and vectors of this target are made for.
ROWS = (128,)
KEYS = (64, 128)
HEAD_DIMS = (64, 128)


def check_algorithm(context: Context) -> None:
    """Resolve algorithm and target."""
    tree = context.tree
    if tree.algorithm is None:
        _missing(context, "algorithm attention.forward")
    elif tree.algorithm.text in ALGORITHMS:
        context.algorithm = ALGORITHMS[tree.algorithm.text]
    elif tree.algorithm.text in LATER_ALGORITHMS:
        context.not_built(f"`{tree.algorithm.text}`", tree.algorithm.span)
    else:
        context.unknown("algorithm", tree.algorithm, ALGORITHMS)
    if tree.target is None:
        _missing(context, "target sm_100a")
    elif tree.target.text in TARGETS:
        context.target = TARGETS[tree.target.text]
    elif tree.target.text in LATER_TARGETS:
        context.not_built(f"target `{tree.target.text}`", tree.target.span)
    else:
        context.unknown("target", tree.target, TARGETS)
    if tree.pair is not None:
        context.not_built("`pair`", tree.pair.word.span)


def _missing(context: Context, line: str) -> None:
    word = line.split()[0]
    context.reporter.report(
        f"missing-{word}",
        f"the kernel says no `{word}`",
        context.tree.name.span,
        helps=(f"add a line such as `{line}`",),
    )


def check_problem(context: Context) -> Problem | None:
    """Resolve the problem: head dimension, element type, modes and mask."""
    problem = context.tree.problem
    if problem is None:
        line = "problem { head_dim 128  dtype bf16  q broadcast  kv jagged  mask none }"
        _missing(context, line)
        return None
    head_dim = _head_dim(context, problem)
    dtype = _dtype(context, problem)
    for field, node, built, later in (
        ("q", problem.q, "broadcast", ("jagged", "dense")),
        ("kv", problem.kv, "jagged", ("dense",)),
    ):
        if node is None:
            _missing_field(context, problem, f"{field} {built}")
        elif node.text in later:
            context.not_built(f"`{field} {node.text}`", node.span, f"write `{field} {built}`")
        elif node.text != built:
            context.unknown(f"mode of {field}", node, (built, *later))
    mask = problem.mask
    if mask is not None and mask.kind.text in LATER_MASKS:
        context.not_built(f"`mask {mask.kind.text}`", mask.kind.span, "write `mask none`")
    elif mask is not None and mask.kind.text != "none":
        context.unknown("mask", mask.kind, ("none", *LATER_MASKS))
    return Problem(head_dim=head_dim, dtype=dtype, mask="none")


def _missing_field(context: Context, problem: ast.Problem, words: str) -> None:
    context.reporter.report(
        "missing-field",
        f"the problem says no `{words.split()[0]}`",
        problem.span,
        helps=(f"add `{words}`",),
    )


def _head_dim(context: Context, problem: ast.Problem) -> int:
    node = problem.head_dim
    if node is None:
        _missing_field(context, problem, "head_dim 128")
        return 128
    if isinstance(node, ast.OneOf):
        context.not_built("more than one instance", node.span, "write one number")
        return 128
    context.dims["d"] = node.value
    if node.value not in HEAD_DIMS:
        _not_among(context, "head_dim", node, HEAD_DIMS)
    return node.value


def _not_among(context: Context, what: str, node: ast.Number, legal: tuple[int, ...]) -> None:
    words = " or ".join(map(str, legal))
    context.reporter.report(
        "bad-size", f"{what} is {node.value}, built for {words}", node.span, helps=(f"write {words}",)
    )


def _dtype(context: Context, problem: ast.Problem) -> DType:
    node = problem.dtype
    if node is None:
        _missing_field(context, problem, "dtype bf16")
    elif isinstance(node, ast.OneOf):
        context.not_built("more than one instance", node.span, "write one type")
    elif node.text in LATER_DTYPES:
        context.not_built(f"`dtype {node.text}`", node.span, "write `dtype bf16`")
    elif node.text != DType.BF16:
        context.unknown("element type", node, (DType.BF16.value, *LATER_DTYPES))
    return DType.BF16


def check_tile(context: Context) -> None:
    """Resolve the tile and its groups."""
    tile = context.tree.tile
    if tile is None:
        _missing(context, "tile { m 128 x 2 as g  n 128 }")
        return
    sizes = {size.symbol.text: size for size in tile.sizes}
    values: dict[str, int] = {}
    for symbol, legal in (("m", ROWS), ("n", KEYS)):
        size = sizes.get(symbol)
        if size is None:
            context.reporter.report(
                "missing-size",
                f"the tile says no `{symbol}`",
                tile.span,
                helps=(f"add `{symbol} 128`",),
            )
            continue
        values[symbol] = context.number(size.size, 128)
        if values[symbol] not in legal and isinstance(size.size, ast.Number):
            _not_among(context, f"`{symbol}`", size.size, legal)
    for size in tile.sizes:
        if size.symbol.text not in ("m", "n"):
            context.unknown("size of the tile", size.symbol, ("m", "n"))
        elif size.groups is not None and size.symbol.text != "m":
            context.not_built(f"groups of `{size.symbol.text}`", size.groups.span)
    groups = sizes["m"].groups if "m" in sizes else None
    count = groups.count.value if groups else 1
    if groups and not 1 <= count <= 4:
        context.reporter.report(
            "bad-size", f"{count} groups, built for 1 to 4", groups.count.span
        )
        count = 1
    context.dims |= values
    context.tile = TileShape(
        m=values.get("m", 128),
        groups=count,
        group_symbol=groups.symbol.text if groups else None,
        n=values.get("n", 128),
        span=tile.span,
    )
