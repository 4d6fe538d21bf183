"""Checks of the head of a schedule: algorithm, target, problem and tile."""

from __future__ import annotations

from ..algorithm import ALGORITHMS
from ..diagnostics import (
    Edit,
    Fix,
    Label,
    Note,
    Span,
    below,
    drop,
    inside,
    listed,
    only_choice,
    quoted,
    removal,
    without,
    write,
)
from ..syntax import ast
from ..target import TARGETS
from ..types import DType
from .context import Context, first_word
from .instances import text_of
from .program import Layout, Problem, TileShape

MOST_GROUPS = 4
#: Field of a problem -> the values for which kernels are built; the first one is an example.
BUILT: dict[str, tuple[str, ...]] = {
    "head_dim": ("128", "64"),
    "dtype": (DType.BF16, DType.FP16),
    "q": tuple(Layout),
    "kv": (Layout.JAGGED,),
}
#: Field -> the words that the language has for it; a field without words takes numbers.
_LAYOUTS = ("broadcast", "jagged", "dense")
_WORDS: dict[str, tuple[str, ...]] = {"dtype": tuple(DType), "q": _LAYOUTS, "kv": _LAYOUTS}


def check_algorithm(context: Context) -> None:
    """Resolve algorithm and target."""
    tree = context.tree
    if tree.algorithm is None:
        line = f"algorithm {next(iter(ALGORITHMS))}"
        _missing(context, "missing-algorithm", "algorithm", line)
    elif tree.algorithm.text in ALGORITHMS:
        context.algorithm = ALGORITHMS[tree.algorithm.text]
    else:
        context.unknown("unknown-algorithm", "algorithm", tree.algorithm, ALGORITHMS)
    if tree.target is None:
        _missing(context, "missing-target", "target", "target sm_100a")
    elif tree.target.text in TARGETS:
        context.target = TARGETS[tree.target.text]
        _check_built(context, tree.target)
    else:
        built = quoted(f"target {name}" for name in TARGETS)
        instead = only_choice(f"write {built}", tree.target.span, list(TARGETS))
        context.not_built(f"`{tree.target.text}`", tree.target.span, instead)
    if tree.pair is not None:
        instead = drop("leave it out: one CTA works on a tile", tree.pair.span)
        if context.target.joins:
            context.lacks("`pair` of CTAs", tree.pair.word.span, instead)
        else:
            context.not_built("`pair`", tree.pair.word.span, instead)


def _check_built(context: Context, target: ast.Name) -> None:
    """Report a target for which an algorithm has no kernels; its check goes on with another one."""
    algorithm = context.algorithm
    if algorithm is None or target.text in algorithm.targets:
        return
    built = quoted(f"target {name}" for name in algorithm.targets)
    instead = only_choice(f"write {built}", target.span, algorithm.targets)
    context.not_built(f"`{algorithm.name}` for `{target.text}`", target.span, instead)
    context.target = TARGETS[algorithm.targets[0]]


def _missing(context: Context, id: str, word: str, line: str) -> None:
    context.reporter.report(
        id,
        f"the kernel says no `{word}`",
        context.tree.name.span,
        helps=(below(f"add a line such as `{line}`", _before(context.tree, word), line),),
    )


def _before(tree: ast.Schedule, word: str) -> Span:
    """Return what stands before an item of the head where all are in order."""
    head = {
        "algorithm": tree.algorithm,
        "target": tree.target,
        "problem": tree.problem,
        "tile": tree.tile,
    }
    earlier = list(head.values())[: list(head).index(word)]
    return next((node.span for node in reversed(earlier) if node), tree.name.span)


def check_problem(context: Context) -> Problem | None:
    """Resolve the problem: head dimension, element type, modes and mask."""
    problem = context.tree.problem
    if problem is None:
        line = "problem { head_dim 128  dtype bf16  q broadcast  kv jagged  mask none }"
        _missing(context, "missing-problem", "problem", line)
        return None
    chosen = {
        field: _value(context, problem, field, getattr(problem, field), legal)
        for field, legal in BUILT.items()
    }
    mask = problem.mask
    if mask is not None and mask.kind.text != "none":
        instead = write(mask.span, "mask none")
        context.not_built(f"`mask {mask.kind.text}`", mask.kind.span, instead)
    context.dims["d"] = int(chosen["head_dim"])
    return Problem(
        head_dim=context.dims["d"],
        dtype=DType(chosen["dtype"]),
        q=Layout(chosen["q"]),
        mask="none",
    )


def _value(
    context: Context,
    problem: ast.Problem,
    field: str,
    node: ast.Name | ast.Number | ast.OneOf | None,
    legal: tuple[str, ...],
) -> str:
    """Return what a field says for this instance; report every value that it cannot have."""
    if node is None:
        _missing_field(context, problem, f"{field} {legal[0]}")
        return legal[0]
    values = node.values if isinstance(node, ast.OneOf) else (node,)
    seen: dict[str, ast.Name | ast.Number] = {}
    for value in values:
        text = text_of(value)
        first = seen.setdefault(text, value)
        if first is not value:
            context.reporter.report(
                "said-twice",
                f"`{field}` offers `{text}` twice",
                value.span,
                notes=(Note(message="first given here", label=Label(span=first.span)),),
                helps=(without("keep one of the two", value.span, [v.span for v in values]),),
            )
        elif not _is_of_field(field, value):
            _no_value(context, field, value, legal)
            break
        elif text not in legal:
            free = [word for word in legal if word not in map(text_of, values)]
            _no_kernel(context, field, value, free, values)
    chosen = context.instance.values.get(field, text_of(values[0]))
    return chosen if chosen in legal else legal[0]


def _is_of_field(field: str, value: ast.Name | ast.Number) -> bool:
    """Whether the language has a value for a field, built or not."""
    words = _WORDS.get(field)
    return text_of(value) in words if words else isinstance(value, ast.Number)


def _no_value(
    context: Context, field: str, value: ast.Name | ast.Number, legal: tuple[str, ...]
) -> None:
    context.reporter.report(
        "bad-value",
        f"`{value.span.text}` is no value of `{field}`",
        value.span,
        helps=(only_choice(f"write {quoted(legal)}", value.span, legal),),
    )


def _no_kernel(
    context: Context,
    field: str,
    value: ast.Name | ast.Number,
    free: list[str],
    values: tuple[ast.Name | ast.Number, ...],
) -> None:
    """Report a value for which no kernels are built; in a set it may also be left out."""
    alone = len(values) == 1
    if isinstance(value, ast.Number):
        said = listed(sorted(free, key=int)) if free else ""
        built = listed(sorted(BUILT[field], key=int))
        message = f"`{field}` is {value.value}, but kernels are built for {built}"
    else:
        said = quoted(f"{field} {word}" if alone else word for word in free) if free else ""
        message = f"`{field} {value.text}` is not built yet"
    if alone:
        advice = only_choice(f"write {said}", value.span, free)
    elif free:
        advice = f"write {said}, or leave it out"
    else:
        advice = without("leave it out", value.span, [one.span for one in values])
    id = "bad-size" if isinstance(value, ast.Number) else "not-built"
    context.reporter.report(id, message, value.span, helps=(advice,))


def _missing_field(context: Context, problem: ast.Problem, words: str) -> None:
    context.reporter.report(
        "missing-field",
        f"the problem says no `{words.split()[0]}`",
        first_word(problem.span),
        helps=(inside(f"add `{words}`", problem.span, words),),
    )


def _not_among(context: Context, what: str, node: ast.Number, legal: tuple[int, ...]) -> None:
    words = " or ".join(map(str, legal))
    context.reporter.report(
        "bad-size",
        f"{what} is {node.value}, but kernels for `{context.target.name}` are built for {words}",
        node.span,
        helps=(only_choice(f"write {words}", node.span, [*map(str, legal)]),),
    )


def check_tile(context: Context) -> None:
    """Resolve the tile and its groups; without them no index can be checked."""
    tile, legal = context.tree.tile, _sizes(context)
    if tile is None:
        said = {"m": str(legal["m"][0]), "n": str(legal["n"][-1])}
        said |= {dim: f"{said[dim]} x 2 as g" for dim in (_grouped(context),) if dim}
        line = f"tile {{ m {said['m']}  n {said['n']} }}"
        _missing(context, "missing-tile", "tile", line)
        return
    sizes: dict[str, ast.TileSize] = {}
    for size in tile.sizes:
        first = sizes.setdefault(size.symbol.text, size)
        if first is not size:
            context.twice("size", size.symbol, size.span, first.symbol.span)
    values = {
        symbol: _size(context, tile, sizes.get(symbol), symbol, found)
        for symbol, found in legal.items()
    }
    context.dims |= {symbol: value or 128 for symbol, value in values.items()}
    for size in sizes.values():
        if size.symbol.text not in values:
            context.unknown("unknown-size", "size of the tile", size.symbol, values)
    grouped = [size for size in sizes.values() if size.groups and size.symbol.text in values]
    fit = all([_groups_fit(context, size) for size in grouped])
    grouped.sort(key=lambda size: size.symbol.text != _grouped(context))
    place = grouped[0] if grouped else sizes.get("m")
    if place is None or values[place.symbol.text] is None or not fit:
        return
    groups = place.groups
    context.tile = TileShape(
        m=context.dims["m"],
        groups=groups.count.value if groups else 1,
        group_dim=place.symbol.text if groups else "m",
        group_symbol=groups.symbol.text if groups else None,
        n=context.dims["n"],
        span=place.span,
        symbol_span=groups.symbol.span if groups else None,
    )


def _sizes(context: Context) -> dict[str, tuple[int, ...]]:
    """Return the sizes that kernels are built for: symbol -> sizes, smallest first."""
    algorithm = context.algorithm or next(iter(ALGORITHMS.values()))
    target = context.target.name
    return {symbol: extent.sizes[target] for symbol, extent in algorithm.extents.items()}


def _grouped(context: Context) -> str | None:
    """Return the dimension of which the tile may have several groups."""
    algorithm = context.algorithm or next(iter(ALGORITHMS.values()))
    return algorithm.grouped_dim(context.target.name)


def _size(
    context: Context,
    tile: ast.Tile,
    size: ast.TileSize | None,
    symbol: str,
    legal: tuple[int, ...],
) -> int | None:
    if size is None:
        words = f"{symbol} {legal[-1]}"
        context.reporter.report(
            "missing-size",
            f"the tile says no `{symbol}`",
            first_word(tile.span),
            helps=(
                f"add `{words}`, or `{words} x 2 as g`"
                if symbol == _grouped(context)
                else inside(f"add `{words}`", tile.span, words),
            ),
        )
        return None
    value = context.number(size.size, 128)
    if value not in legal and isinstance(size.size, ast.Number | ast.Cases):
        _not_among(context, f"`{symbol}`", context.chosen(size.size), legal)
    return value


def _groups_fit(context: Context, size: ast.TileSize) -> bool:
    groups, dim = size.groups, _grouped(context)
    assert groups is not None
    if dim is None:
        assert context.algorithm is not None
        rows = {"m": "query rows", "n": "key rows"}[size.symbol.text]
        context.not_built(
            f"`{context.algorithm.name}` with groups of {rows}",
            groups.span,
            write(size.span, f"{size.symbol.text} {size.size.span.text}"),
        )
        return False
    if dim != size.symbol.text:
        context.not_built(
            f"a tile with groups of `{size.symbol.text}`",
            groups.span,
            _behind(context, groups, dim),
        )
        return True
    if 1 <= groups.count.value <= MOST_GROUPS:
        return True
    context.reporter.report(
        "bad-size",
        f"the tile has {groups.count.value} groups, but kernels are built for 1 to {MOST_GROUPS}",
        groups.count.span,
        helps=(f"write 1 to {MOST_GROUPS}",),
    )
    return False


def _behind(context: Context, groups: ast.Groups, dim: str) -> str:
    """Return the advice to write groups behind the size of another dimension."""
    words = f"write the groups behind `{dim}`"
    sizes = context.tree.tile.sizes if context.tree.tile else ()
    place = next((one.span for one in sizes if one.symbol.text == dim and not one.groups), None)
    if place is None:
        return words
    end = place.source.span(place.end, place.end)
    return Fix(words, removal(groups.span), Edit(end, f" {groups.span.text}"))
