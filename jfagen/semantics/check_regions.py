"""Checks of regions: shared places, and what must stay apart."""

from __future__ import annotations

from ..diagnostics import Label, Note
from ..syntax import ast
from ..types import Storage
from .context import Context
from .program import Arrangement, Beside, Buffer, Leaf, Over, Region


def check_regions(context: Context) -> tuple[Region, ...]:
    """Resolve every region; its buffers must have one memory and the same number of copies."""
    regions: list[Region] = []
    seen: dict[str, Leaf] = {}
    names: dict[str, ast.Region] = {}
    for node in context.tree.regions:
        if node.name.text in names:
            context.twice("region", node.name, names[node.name.text].name.span)
        names.setdefault(node.name.text, node)
        context.group_symbol(node.group)
        tree = _tree(context, node.tree)
        if tree is None:
            continue
        for leaf in _leaves(tree):
            if leaf.buffer in seen:
                context.reporter.report(
                    "placed-twice",
                    f"`{leaf.buffer}` lies in a region already",
                    leaf.span,
                    notes=(Note(message="first here", label=Label(span=seen[leaf.buffer].span)),),
                )
            seen[leaf.buffer] = leaf
        _check_members(context, node, tree)
        regions.append(Region(name=node.name.text, tree=tree, span=node.name.span))
    for together in context.tree.together:
        context.not_built("`together`", together.span, "write a `region`, or leave it to the packer")
    return tuple(regions)


def _tree(context: Context, node: ast.RegionTree) -> Arrangement | None:
    match node:
        case ast.BufferRef():
            return _leaf(context, node)
        case ast.Over():
            layers = [_tree(context, layer) for layer in node.layers]
            return Over(parts=tuple(layer for layer in layers if layer is not None))
        case ast.Beside():
            parts = [_tree(context, part) for part in node.parts]
            return Beside(parts=tuple(part for part in parts if part is not None))


def _leaf(context: Context, node: ast.BufferRef) -> Leaf | None:
    if node.index is not None:
        context.not_built("a single copy in a region", node.index.span, "name the buffer alone")
    buffer = context.buffers.get(node.name.text)
    if buffer is None:
        context.unknown("buffer", node.name, context.buffers)
        return None
    if buffer.storage is Storage.REG:
        context.reporter.report(
            "bad-region", f"`{buffer.name}` lives in registers", node.name.span
        )
        return None
    return Leaf(buffer=buffer.name, span=node.name.span)


def _leaves(tree: Arrangement) -> list[Leaf]:
    if isinstance(tree, Leaf):
        return [tree]
    return [leaf for part in tree.parts for leaf in _leaves(part)]


def _check_members(context: Context, node: ast.Region, tree: Arrangement) -> None:
    members = [(leaf, context.buffers[leaf.buffer]) for leaf in _leaves(tree)]
    if not members:
        return
    first_leaf, first = members[0]
    for leaf, buffer in members[1:]:
        if (buffer.storage, buffer.depth, buffer.grouped) != (
            first.storage,
            first.depth,
            first.grouped,
        ):
            context.reporter.report(
                "bad-region",
                f"`{buffer.name}` and `{first.name}` cannot share a place: "
                f"{_copies(buffer)} against {_copies(first)}",
                leaf.span,
                notes=(Note(message="the region's first", label=Label(span=first_leaf.span)),),
            )
    if isinstance(tree, Leaf):
        context.reporter.report(
            "bad-region",
            "a region needs at least two buffers",
            node.name.span,
            helps=("write `a over b`, or drop the region",),
        )


def _copies(buffer: Buffer) -> str:
    groups = " for each group" if buffer.grouped else ""
    return f"{buffer.storage}, depth {buffer.depth}{groups}"


def check_apart(context: Context) -> tuple[tuple[Leaf, ...], ...]:
    """Resolve what must stay apart."""
    found: list[tuple[Leaf, ...]] = []
    for node in context.tree.apart:
        leaves = [_leaf(context, reference) for reference in node.buffers]
        found.append(tuple(leaf for leaf in leaves if leaf is not None))
    return tuple(found)
