"""Checks of the head of a schedule: algorithm, target, problem and tile."""

from __future__ import annotations

from ..algorithm import ALGORITHMS
from ..diagnostics import Span, quoted
from ..syntax import ast
from ..target import TARGETS
from ..types import DType
from .context import Context, first_word
from .program import Layout, Problem, TileShape

#: Words of the language that a later version builds.
LATER_ALGORITHMS = ("attention.backward",)

#: What matmuls and vectors are made for; query rows are the target's.
KEYS = (64, 128)
HEAD_DIMS = (64, 128)
INPUTS = (DType.BF16, DType.FP16)
MOST_GROUPS = 4


def check_algorithm(context: Context) -> None:
    """Resolve algorithm and target."""
    tree = context.tree
    if tree.algorithm is None:
        line = f"algorithm {next(iter(ALGORITHMS))}"
        _missing(context, "missing-algorithm", "algorithm", line)
    elif tree.algorithm.text in ALGORITHMS:
        context.algorithm = ALGORITHMS[tree.algorithm.text]
    elif tree.algorithm.text in LATER_ALGORITHMS:
        built = quoted(f"algorithm {name}" for name in ALGORITHMS)
        context.not_built(f"`{tree.algorithm.text}`", tree.algorithm.span, f"built: {built}")
    else:
        context.unknown("unknown-algorithm", "algorithm", tree.algorithm, ALGORITHMS)
    if tree.target is None:
        _missing(context, "missing-target", "target", "target sm_100a")
    elif tree.target.text in TARGETS:
        context.target = TARGETS[tree.target.text]
    else:
        built = quoted(f"target {name}" for name in TARGETS)
        context.not_built(f"`{tree.target.text}`", tree.target.span, f"write {built}")
    if tree.pair is not None and context.target.joins:
        context.lacks(
            "`pair` of CTAs", tree.pair.word.span, "leave it out: one CTA works on a tile"
        )
    elif tree.pair is not None:
        context.not_built("`pair`", tree.pair.word.span, "leave it out: one CTA works on a tile")


def _missing(context: Context, id: str, word: str, line: str) -> None:
    context.reporter.report(
        id,
        f"the kernel says no `{word}`",
        context.tree.name.span,
        helps=(f"add a line such as `{line}`",),
    )


def check_problem(context: Context) -> Problem | None:
    """Resolve the problem: head dimension, element type, modes and mask."""
    problem = context.tree.problem
    if problem is None:
        line = "problem { head_dim 128  dtype bf16  q broadcast  kv jagged  mask none }"
        _missing(context, "missing-problem", "problem", line)
        return None
    head_dim = _head_dim(context, problem)
    dtype = _dtype(context, problem)
    q = _chosen(context, "q", problem.q)
    for field, node, built in (("q", q, Layout), ("kv", problem.kv, (Layout.JAGGED,))):
        if node is None:
            _missing_field(context, problem, f"{field} {next(iter(built))}")
        elif node.text not in list(built):
            words = quoted([f"{field} {layout}" for layout in built])
            context.not_built(f"`{field} {node.text}`", node.span, f"write {words}")
    mask = problem.mask
    if mask is not None and mask.kind.text != "none":
        context.not_built(f"`mask {mask.kind.text}`", mask.kind.span, "write `mask none`")
    rows = Layout(q.text) if q is not None and q.text in list(Layout) else Layout.BROADCAST
    return Problem(head_dim=head_dim, dtype=dtype, q=rows, mask="none")


def _chosen(context: Context, field: str, node: ast.Name | ast.OneOf | None) -> ast.Name | None:
    """Return the word that a field says for this instance."""
    if not isinstance(node, ast.OneOf):
        return node
    word = context.instance.choose(field, node)
    assert isinstance(word, ast.Name)
    return word


def _missing_field(context: Context, problem: ast.Problem, words: str) -> None:
    context.reporter.report(
        "missing-field",
        f"the problem says no `{words.split()[0]}`",
        first_word(problem.span),
        helps=(f"add `{words}`",),
    )


def _head_dim(context: Context, problem: ast.Problem) -> int:
    node = problem.head_dim
    if node is None:
        _missing_field(context, problem, "head_dim 128")
        return 128
    if isinstance(node, ast.OneOf):
        chosen = context.instance.choose("head_dim", node)
        if isinstance(chosen, ast.Name):
            _no_value(context, "head_dim", chosen.span, quoted(map(str, HEAD_DIMS)))
            return 128
        node = chosen
    context.dims["d"] = node.value
    if node.value not in HEAD_DIMS:
        _not_among(context, "`head_dim`", node, HEAD_DIMS)
    return node.value


def _not_among(context: Context, what: str, node: ast.Number, legal: tuple[int, ...]) -> None:
    words = " or ".join(map(str, legal))
    context.reporter.report(
        "bad-size",
        f"{what} is {node.value}, but kernels are built for {words}",
        node.span,
        helps=(f"write {words}",),
    )


def _dtype(context: Context, problem: ast.Problem) -> DType:
    node = problem.dtype
    if isinstance(node, ast.OneOf):
        chosen = context.instance.choose("dtype", node)
        if isinstance(chosen, ast.Number):
            _no_value(context, "dtype", chosen.span, quoted(INPUTS))
            return DType.BF16
        node = chosen
    if node is None:
        _missing_field(context, problem, "dtype bf16")
    elif node.text not in INPUTS:
        words = quoted(f"dtype {name}" for name in INPUTS)
        context.not_built(f"`dtype {node.text}`", node.span, f"write {words}")
    else:
        return DType(node.text)
    return DType.BF16


def _no_value(context: Context, field: str, span: Span, legal: str) -> None:
    context.reporter.report(
        "bad-size",
        f"`{span.text}` is no value of `{field}`",
        span,
        helps=(f"write {legal}",),
    )


def check_tile(context: Context) -> None:
    """Resolve the tile and its groups; without them no index can be checked."""
    tile = context.tree.tile
    if tile is None:
        _missing(context, "missing-tile", "tile", "tile { m 128 x 2 as g  n 128 }")
        return
    sizes: dict[str, ast.TileSize] = {}
    for size in tile.sizes:
        first = sizes.setdefault(size.symbol.text, size)
        if first is not size:
            context.twice("size", size.symbol, first.symbol.span)
    values = {
        symbol: _size(context, tile, sizes.get(symbol), symbol, legal)
        for symbol, legal in (("m", (context.target.rows,)), ("n", KEYS))
    }
    context.dims |= {symbol: value or 128 for symbol, value in values.items()}
    for size in sizes.values():
        if size.symbol.text not in values:
            context.unknown("unknown-size", "size of the tile", size.symbol, values)
        elif size.groups is not None and size.symbol.text != "m":
            context.not_built(
                f"a tile with groups of `{size.symbol.text}`",
                size.groups.span,
                "write the groups behind `m`",
            )
    rows = sizes.get("m")
    if rows is None or values["m"] is None or not _groups_fit(context, rows):
        return
    context.tile = TileShape(
        m=values["m"],
        groups=rows.groups.count.value if rows.groups else 1,
        group_symbol=rows.groups.symbol.text if rows.groups else None,
        n=context.dims["n"],
        span=rows.span,
        symbol_span=rows.groups.symbol.span if rows.groups else None,
    )


def _size(
    context: Context,
    tile: ast.Tile,
    size: ast.TileSize | None,
    symbol: str,
    legal: tuple[int, ...],
) -> int | None:
    if size is None:
        context.reporter.report(
            "missing-size",
            f"the tile says no `{symbol}`",
            first_word(tile.span),
            helps=(
                f"add `{symbol} {legal[-1]}`"
                + (f", or `m {legal[-1]} x 2 as g`" if symbol == "m" else ""),
            ),
        )
        return None
    value = context.number(size.size, 128)
    if value not in legal and isinstance(size.size, ast.Number):
        _not_among(context, f"`{symbol}`", size.size, legal)
    return value


def _groups_fit(context: Context, rows: ast.TileSize) -> bool:
    groups = rows.groups
    if groups is None or 1 <= groups.count.value <= MOST_GROUPS:
        return True
    context.reporter.report(
        "bad-size",
        f"the tile has {groups.count.value} groups, but kernels are built for 1 to {MOST_GROUPS}",
        groups.count.span,
        helps=(f"write 1 to {MOST_GROUPS}",),
    )
    return False
