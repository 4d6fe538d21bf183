"""Checks of the tile source."""

from __future__ import annotations

from ..diagnostics import Span
from ..syntax import ast
from .context import Context
from .program import NextTile, TileOrder, TileSource

_DEALS = {"zigzag": NextTile.ZIGZAG, "round_robin": NextTile.ROUND_ROBIN}


def check_tiles(context: Context) -> TileSource | None:
    """Resolve where tiles come from."""
    tiles = context.tree.tiles
    if tiles is None:
        context.reporter.report(
            "missing-tiles",
            "the kernel says no `tiles`",
            context.tree.name.span,
            helps=("add `tiles { persistent  order longest_first by kv_length  next static deal zigzag }`",),
        )
        return None
    order = _order(context, tiles)
    once = tiles.residency is not None and tiles.residency.text == NextTile.NONE
    if tiles.residency is None:
        context.reporter.report(
            "missing-field",
            "the tile source does not say how long a CTA lives",
            tiles.span,
            helps=("add `persistent` or `one_per_cta`",),
        )
    if once:
        if tiles.next is not None:
            context.reporter.report(
                "bad-tiles",
                "a CTA with one tile asks for no next one",
                tiles.next.span,
                helps=("write `persistent`, or drop `next`",),
            )
        return TileSource(order=order, next=NextTile.NONE, asker=None, span=tiles.span)
    if tiles.next is None:
        context.reporter.report(
            "missing-field",
            "a persistent CTA needs to know its next tile",
            tiles.residency.span if tiles.residency else tiles.span,
            helps=("add `next static deal zigzag` or `next clc asked by ROLE`",),
        )
        return None
    return _next(context, tiles.next, order, tiles.span)


def _order(context: Context, tiles: ast.Tiles) -> TileOrder:
    order = tiles.order
    if order is None:
        return TileOrder.GIVEN
    if order.kind.text == "valid":
        context.not_built("`order valid`", order.kind.span, "write `order longest_first by kv_length`")
        return TileOrder.GIVEN
    if order.kind.text not in list(TileOrder):
        context.unknown("order of tiles", order.kind, list(TileOrder))
        return TileOrder.GIVEN
    if order.by is not None and order.by.text != "kv_length":
        context.unknown("cost of a tile", order.by, ("kv_length",))
    return TileOrder(order.kind.text)


def _next(context: Context, node: ast.Next, order: TileOrder, span: Span) -> TileSource | None:
    report = context.reporter.report
    if node.source.text == "clc":
        if not context.target.clc:
            report("no-clc", f"`{context.target.name}` has no cluster launch control", node.source.span)
        if node.deal is not None:
            report(
                "bad-tiles",
                f"`{node.deal.text}` deals fixed lists, `clc` gives the next tile to whoever is free",
                node.deal.span,
                helps=("write `next static deal zigzag`, or `next clc asked by ROLE` without a deal",),
            )
        if node.asked_by is None:
            report(
                "missing-field",
                "`clc` needs a role that asks",
                node.source.span,
                helps=("write `next clc asked by load`",),
            )
            return None
        if node.asked_by.text not in context.roles:
            context.unknown("role", node.asked_by, context.roles)
            return None
        asker = context.roles[node.asked_by.text]
        if asker.replicas > 1:
            report(
                "bad-tiles",
                f"exactly one role asks, `{asker.name}` has {asker.replicas} replicas",
                node.asked_by.span,
            )
        return TileSource(order=order, next=NextTile.CLC, asker=asker.name, span=span)
    if node.source.text != "static":
        context.unknown("source of tiles", node.source, ("static", "clc"))
        return None
    if node.deal is None:
        report(
            "missing-field",
            "a static list needs a deal",
            node.source.span,
            helps=("write `next static deal zigzag` or `next static deal round_robin`",),
        )
        return None
    if node.deal.text not in _DEALS:
        context.unknown("deal", node.deal, _DEALS)
        return None
    if node.asked_by is not None:
        report("bad-tiles", "nobody asks for a static list", node.asked_by.span)
    return TileSource(order=order, next=_DEALS[node.deal.text], asker=None, span=span)
