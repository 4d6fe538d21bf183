"""Checks of the tile source."""

from __future__ import annotations

from ..diagnostics import Span, drop, inside, only_choice, phrase, put, quoted, write
from ..syntax import ast
from .context import Context, first_word
from .program import Layout, NextTile, TileOrder, TileSource

_DEALS = {"zigzag": NextTile.ZIGZAG, "round_robin": NextTile.ROUND_ROBIN}
_COST = "kv_length"
#: How an order of the tile list is written.
_ORDERS = {
    TileOrder.GIVEN: "order given",
    TileOrder.LONGEST_FIRST: f"order longest_first by {_COST}",
    TileOrder.VALID: "order valid with block innermost",
    TileOrder.VALID_BY_Q_LENGTH: "order valid by q_length with block innermost",
}


def check_tiles(context: Context) -> TileSource | None:
    """Resolve where tiles come from."""
    source = _source(context)
    counted = source is not None and source.next in (NextTile.NONE, NextTile.CLC)
    if source is not None and counted and _fixed_grid(context):
        tiles = context.tree.tiles
        assert tiles is not None
        place = tiles.next.source if tiles.next is not None else tiles.residency
        assert place is not None
        static, instead = "next static deal zigzag", ""
        if source.next is NextTile.CLC and tiles.next is not None:
            instead = write(tiles.next.span, static)
        elif tiles.next is None:
            instead = write(place.span, f"persistent  {static}")
        context.not_built(
            f"`{place}` with `q jagged`, where the device counts the tiles,",
            place.span,
            instead or f"write `persistent  {static}`",
        )
    return source


def _fixed_grid(context: Context) -> bool:
    """Whether the grid cannot be what the tiles are: the device counts them, and none are skipped.

    So it is with queries of every sequence, unless ids past the last tile are left out by the text.
    """
    jagged = Layout.JAGGED in context.instance.offered.get("q", ())
    return jagged and context.algorithm is not None and not context.algorithm.skips_tiles


def _source(context: Context) -> TileSource | None:
    tiles = context.tree.tiles
    if tiles is None:
        line = "tiles { persistent  order longest_first by kv_length  next static deal zigzag }"
        context.reporter.report(
            "missing-tiles",
            "the kernel says no `tiles`",
            context.tree.name.span,
            helps=(inside(f"add a line such as `{line}`", context.tree.span, line),),
        )
        return None
    order = _order(context, tiles)
    if tiles.residency is None:
        context.reporter.report(
            "missing-field",
            "the tile source does not say how long a CTA lives",
            first_word(tiles.span),
            helps=(_lifetime_help(context, tiles),),
        )
    if tiles.residency is not None and tiles.residency.text == NextTile.NONE:
        return _once(context, tiles, order)
    if tiles.next is not None:
        return _next(context, tiles.next, order, tiles.span)
    if tiles.residency is not None:
        words = _next_words(context)
        advice = f"add {quoted(words)}"
        context.reporter.report(
            "missing-field",
            "a persistent CTA needs to know its next tile",
            tiles.residency.span,
            helps=(inside(advice, tiles.span, words[0]) if len(words) == 1 else advice,),
        )
    return None


def _lifetime_help(context: Context, tiles: ast.Tiles) -> str:
    if tiles.next is not None:
        return inside("add `persistent`", tiles.span, "persistent")
    if _fixed_grid(context):
        words = "persistent  next static deal zigzag"
        return inside(f"add `{words}`", tiles.span, words)
    return "add `persistent` or `one_per_cta`"


def _next_words(context: Context) -> list[str]:
    """Return what may be said of the next tile."""
    asks = context.target.clc and not _fixed_grid(context)
    clc = [f"next clc asked by {_asker(context)}"] if asks else []
    return ["next static deal zigzag", *clc]


def _order(context: Context, tiles: ast.Tiles) -> TileOrder:
    order = tiles.order
    orders = context.algorithm.orders if context.algorithm else tuple(TileOrder)
    if order is None:
        return TileOrder(orders[0])
    texts = [_ORDERS[TileOrder(name)] for name in reversed(orders)]
    instead = only_choice(f"write {quoted(texts)}", phrase("order", order.span), texts)
    if order.kind.text not in orders:
        name = context.algorithm.name if context.algorithm else ""
        what = f"`order {order.kind.text}` of `{name}`"
        context.not_built(what, order.kind.span, instead)
        return TileOrder(orders[0])
    if order.kind.text == TileOrder.VALID and order.by is not None:
        return TileOrder.VALID_BY_Q_LENGTH
    if order.by is not None and order.by.text != _COST:
        instead = put(f"write `by {_COST}`", order.by.span, _COST)
        context.not_built(f"`by {order.by.text}`", order.by.span, instead)
    return TileOrder(order.kind.text)


def _once(context: Context, tiles: ast.Tiles, order: TileOrder) -> TileSource:
    if tiles.next is not None:
        context.reporter.report(
            "bad-tiles",
            "a CTA of one tile has no next one",
            first_word(tiles.next.span),
            helps=(f"write `persistent`, or drop `{tiles.next.span.text}`",),
        )
    return TileSource(order=order, next=NextTile.NONE, asker=None, span=tiles.span)


def _next(context: Context, node: ast.Next, order: TileOrder, span: Span) -> TileSource | None:
    return (_clc if node.source.text == "clc" else _static)(context, node, order, span)


def _clc(context: Context, node: ast.Next, order: TileOrder, span: Span) -> TileSource | None:
    report = context.reporter.report
    asker = node.asked_by.text if node.asked_by else _asker(context)
    if not context.target.clc:
        instead = write(node.span, "next static deal zigzag")
        context.lacks("`clc`: its CTAs cannot ask for tiles", node.source.span, instead)
        return None
    if node.deal is not None:
        report(
            "bad-tiles",
            f"`{node.deal.text}` deals fixed lists, but with `clc` whoever is free takes the next "
            "tile",
            node.deal.span,
            helps=(f"write `next static deal {node.deal.text}` or `next clc asked by {asker}`",),
        )
    if node.asked_by is None:
        if node.deal is None:
            report(
                "missing-field",
                "`clc` needs a role that asks",
                node.source.span,
                helps=(write(node.span, f"next clc asked by {asker}"),),
            )
        return None
    role = context.roles.get(node.asked_by.text)
    if role is None:
        context.unknown("unknown-role", "role", node.asked_by, context.roles)
        return None
    if role.replicas > 1:
        single = _asker(context)
        words = f"name a role without replicas, such as `{single}`"
        report(
            "bad-tiles",
            f"exactly one role asks for tiles, and `{role.name}` has {role.replicas} replicas",
            node.asked_by.span,
            helps=(put(words, node.asked_by.span, single),),
        )
    return TileSource(order=order, next=NextTile.CLC, asker=role.name, span=span)


def _static(context: Context, node: ast.Next, order: TileOrder, span: Span) -> TileSource | None:
    report = context.reporter.report
    if node.asked_by is not None:
        words = f"drop `asked by {node.asked_by.text}`"
        report(
            "bad-tiles",
            "nobody asks for the tiles of a static list",
            node.asked_by.span,
            helps=(drop(words, phrase("asked", node.asked_by.span)),),
        )
    if node.deal is None:
        report(
            "missing-field",
            "a static list needs a deal",
            node.source.span,
            helps=("write `next static deal zigzag` or `next static deal round_robin`",),
        )
        return None
    return TileSource(order=order, next=_DEALS[node.deal.text], asker=None, span=span)


def _asker(context: Context) -> str:
    """Return a role that may ask for tiles: the first that runs a load."""
    single = [role for role in context.roles.values() if role.replicas == 1]
    loads = {block.role.text for block in _blocks(context.tree) if _loads(context, block)}
    chosen = [role.name for role in single if role.name in loads] or [r.name for r in single]
    return chosen[0] if chosen else "ROLE"


def _blocks(tree: ast.Schedule) -> list[ast.Block]:
    found: list[ast.Block] = []
    for item in tree.program:
        found += item.blocks if isinstance(item, ast.Loop) else (item,)
    return found


def _loads(context: Context, block: ast.Block) -> bool:
    loads = {op.name for op in context.algorithm.ops if op.inputs} if context.algorithm else set()
    ops = [
        op
        for step in block.steps
        for op in (step.ops if isinstance(step, ast.Landing) else (step,))
        if isinstance(op, ast.Op)
    ]
    return any(op.name.text in loads for op in ops)
