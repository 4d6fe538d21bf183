"""Checks of regions: shared places, and what must stay apart."""

from __future__ import annotations

from itertools import combinations

from ..algorithm import Algorithm
from ..diagnostics import Fix, Label, Note, Span, drop, put, without
from ..syntax import ast
from ..types import Storage
from .context import Context, first_word
from .program import Buffer
from .regions import Arrangement, Beside, Leaf, Over, Region, leaves


def check_regions(context: Context) -> tuple[Region, ...]:
    """Resolve every region; its buffers must have one memory and the same number of copies."""
    regions: list[Region] = []
    seen: dict[str, Leaf] = {}
    names: dict[str, ast.Region] = {}
    if context.algorithm is None:
        return ()
    for node in context.tree.regions:
        if node.name.text in names:
            context.twice("region", node.name, node.span, names[node.name.text].name.span)
            continue
        names[node.name.text] = node
        grouped = context.group_symbol(node.group)
        tree = _tree(context, node.tree)
        if tree is None:
            continue
        for leaf in leaves(tree):
            if leaf.buffer in seen:
                context.reporter.report(
                    "region-twice",
                    f"`{leaf.buffer}` lies in a region already",
                    leaf.span,
                    notes=(Note(message="first here", label=Label(span=seen[leaf.buffer].span)),),
                    helps=(_keep_one(node.tree, leaf),),
                )
            seen.setdefault(leaf.buffer, leaf)
        _check_members(context, node, tree, grouped)
        region = Region(name=node.name.text, tree=tree, span=node.name.span, whole=node.span)
        regions.append(region)
    return tuple(regions)


def _keep_one(tree: ast.RegionTree, leaf: Leaf) -> str:
    """Return the advice to keep one of two: this one goes, if it stands beside others."""
    spans = [part.span for part in tree.parts] if isinstance(tree, ast.Beside) else []
    if len(spans) > 1 and leaf.span in spans:
        return without("keep one of the two", leaf.span, spans)
    parts = () if isinstance(tree, ast.BufferRef) else _parts(tree)
    advices = (_keep_one(part, leaf) for part in parts)
    return next((advice for advice in advices if isinstance(advice, Fix)), "keep one of the two")


def _parts(tree: ast.Over | ast.Beside) -> tuple[ast.RegionTree, ...]:
    return tree.layers if isinstance(tree, ast.Over) else tree.parts


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
        instead = put(f"write `{node.name.text}`: all its copies", node.span, node.name.text)
        context.not_built("a single copy of a buffer", node.index.span, instead)
    buffer = context.buffers.get(node.name.text)
    if buffer is None:
        _unknown_buffer(context, node.name)
        return None
    if buffer.storage is Storage.REG:
        context.reporter.report(
            "bad-region",
            f"`{buffer.name}` lives in registers, which have no place to share",
            node.name.span,
            notes=(Note(message="declared here", label=Label(span=buffer.span)),),
            helps=(f"take `{buffer.name}` out, or declare it as `tmem`",),
        )
        return None
    return Leaf(buffer=buffer.name, span=node.name.span)


def _unknown_buffer(context: Context, name: ast.Name) -> None:
    """Report a name that no buffer has, unless a finding about its declaration says so already."""
    values = context.algorithm.values if context.algorithm else ()
    held = {value for buffer in context.buffers.values() for value in buffer.holds}
    undeclared = {value.name for value in values} - held
    if not context.broken and name.text not in undeclared:
        context.unknown("unknown-buffer", "buffer", name, context.buffers)


def _check_members(context: Context, node: ast.Region, tree: Arrangement, grouped: bool) -> None:
    members = [(leaf, context.buffers[leaf.buffer]) for leaf in leaves(tree)]
    if isinstance(tree, Leaf):
        context.reporter.report(
            "bad-region",
            f"a region needs at least two buffers, `{node.name.text}` has one",
            tree.span,
            helps=("write `a over b`, or drop the region",),
        )
    if not members:
        return
    first = members[0][1]
    for leaf, buffer in members[1:]:
        why = _difference(first, buffer) or _rhythms(context, first, buffer)
        if why:
            context.reporter.report(
                "bad-region",
                f"`{buffer.name}` cannot share a place with `{first.name}`: {why}",
                leaf.span,
                notes=tuple(
                    Note(message=f"`{one.name}` is declared here", label=Label(span=one.span))
                    for one in (first, buffer)
                ),
                helps=("buffers of a region have one memory, one depth and the same index",),
            )
            return
    if len({leaf.buffer for leaf, _ in members}) == len(members):
        _check_sizes(context, tree)
    if node.group is not None and grouped and not first.grouped:
        words = f"write `region {node.name.text}`"
        name = node.span.source.span(node.span.start, node.group.span.end + len("]"))
        context.reporter.report(
            "extra-index",
            f"the buffers of `{node.name.text}` are the same for all groups",
            node.group.span,
            helps=(put(words, name, f"region {node.name.text}"),),
        )


def _check_sizes(context: Context, tree: Arrangement) -> None:
    """What lies over a buffer fits into its place: the widest comes first."""
    if isinstance(tree, Leaf):
        return
    for part in tree.parts:
        _check_sizes(context, part)
    first, *others = tree.parts if isinstance(tree, Over) else (tree,)
    for part in others:
        room, needed = _width(context, first), _width(context, part)
        if needed <= room:
            continue
        wide, host = leaves(part)[0], leaves(first)[0]
        words = f"{wide.buffer} over {host.buffer}"
        advice = f"write the widest first: `{words}`"
        if isinstance(part, Leaf) and isinstance(first, Leaf) and len(others) == 1:
            advice = put(advice, host.span.to(wide.span), words)
        unit = "columns" if context.buffers[host.buffer].storage is Storage.TMEM else "bytes"
        context.reporter.report(
            "bad-region",
            f"`{wide.buffer}` needs {needed:,} {unit}, and the place of `{host.buffer}` has "
            f"{room:,}",
            wide.span,
            helps=(advice,),
        )


def _width(context: Context, tree: Arrangement) -> int:
    """Return the columns or bytes that an arrangement takes."""
    match tree:
        case Leaf():
            buffer = context.buffers[tree.buffer]
            return buffer.columns if buffer.storage is Storage.TMEM else buffer.bytes
        case Over():
            return max(_width(context, part) for part in tree.parts)
        case Beside():
            return sum(_width(context, part) for part in tree.parts)


def _difference(first: Buffer, second: Buffer) -> str:
    if first.storage is not second.storage:
        return f"one lies in `{first.storage}`, the other in `{second.storage}`"
    if first.grouped != second.grouped:
        one = first if first.grouped else second
        return f"only `{one.name}` is one for every group"
    if first.depth != second.depth:
        return f"`{first.name}` has {_slots(first)} and `{second.name}` {_slots(second)}"
    return ""


def _rhythms(context: Context, first: Buffer, second: Buffer) -> str:
    """With several slots it matters which of one ring meets which of the other."""
    if first.depth == 1 or context.algorithm is None:
        return ""
    one, other = (_rhythm(context.algorithm, buffer) for buffer in (first, second))
    if one == other:
        return ""
    return f"their slots turn differently: {one} of `{first.name}` and {other} of `{second.name}`"


def _rhythm(algorithm: Algorithm, buffer: Buffer) -> str:
    space = algorithm.value(buffer.holds[0]).space
    return f"{len(buffer.holds)} a {space}"


def _slots(buffer: Buffer) -> str:
    return f"{buffer.depth} slot" + ("s" if buffer.depth > 1 else "")


def check_apart(context: Context, regions: tuple[Region, ...]) -> tuple[tuple[Leaf, ...], ...]:
    """Resolve what must stay apart; a region cannot ask for the opposite."""
    found = [_group(context, node, "stay apart from") for node in context.tree.apart]
    for node, group in zip(context.tree.apart, found, strict=False):
        whole = node.span if len(group) == len(node.buffers) == 2 else None
        for one, other in combinations(group, 2):
            for region in regions if one.buffer != other.buffer else ():
                _check_overlap(context, region, one, other, whole)
    return tuple(found)


def check_together(
    context: Context, regions: tuple[Region, ...], apart: tuple[tuple[Leaf, ...], ...]
) -> tuple[tuple[Leaf, ...], ...]:
    """Resolve what must share columns in an arrangement that the packer finds."""
    found: list[tuple[Leaf, ...]] = []
    inside = {leaf.buffer: leaf for region in regions for leaf in leaves(region.tree)}
    for node in context.tree.together:
        group = _group(context, node, "share its place with")
        free = all(_is_free(context, leaf, inside) for leaf in group)
        for one, other in combinations(group, 2) if free else ():
            _check_pair(context, one, other, apart, node.span if len(group) == 2 else None)
        inside |= {leaf.buffer: leaf for leaf in group}
        found.append(group)
    return tuple(found)


def _group(context: Context, node: ast.Apart | ast.Together, relation: str) -> tuple[Leaf, ...]:
    """Return the buffers that a line names; report one that it names twice."""
    if context.algorithm is None:
        return ()
    group: list[Leaf] = []
    for leaf in (_leaf(context, reference) for reference in node.buffers):
        if leaf is None:
            continue
        if any(other.buffer == leaf.buffer for other in group):
            context.reporter.report(
                "named-twice",
                f"`{leaf.buffer}` cannot {relation} itself",
                leaf.span,
                helps=(f"drop one `{leaf.buffer}`, or name another buffer",),
            )
        group.append(leaf)
    if len(node.buffers) < 2 and group:
        context.reporter.report(
            "bad-region",
            f"`{group[0].buffer}` alone cannot {relation.rsplit(' ', 1)[0]}",
            first_word(node.span),
            helps=("name another buffer, or drop the line",),
        )
    return tuple(group)


def _is_free(context: Context, leaf: Leaf, inside: dict[str, Leaf]) -> bool:
    """Whether the packer can move a buffer; report one in SMEM, or with a place already."""
    buffer = context.buffers[leaf.buffer]
    if buffer.storage is not Storage.TMEM:
        context.reporter.report(
            "bad-region",
            f"`{leaf.buffer}` lies in `{buffer.storage}`, where the packer moves nothing",
            leaf.span,
            helps=("write a `region`: sharing it makes roles wait for each other",),
        )
        return False
    if leaf.buffer in inside:
        context.reporter.report(
            "region-twice",
            f"the place of `{leaf.buffer}` is said already",
            leaf.span,
            notes=(Note(message="first here", label=Label(span=inside[leaf.buffer].span)),),
            helps=("keep one of the two",),
        )
        return False
    return True


def _check_pair(
    context: Context,
    one: Leaf,
    other: Leaf,
    apart: tuple[tuple[Leaf, ...], ...],
    whole: Span | None,
) -> None:
    first, second = context.buffers[one.buffer], context.buffers[other.buffer]
    why = _difference(first, second) or _rhythms(context, first, second)
    if why and first is not second:
        context.reporter.report(
            "bad-region",
            f"`{other.buffer}` cannot share a place with `{one.buffer}`: {why}",
            other.span,
            helps=("buffers of a place have one memory, one depth and the same index",),
        )
    for group in apart:
        names = {leaf.buffer: leaf for leaf in group}
        if first is not second and one.buffer in names and other.buffer in names:
            context.reporter.report(
                "region-apart",
                f"`{one.buffer}` and `{other.buffer}` are to share a place and to stay apart",
                other.span,
                notes=(Note(message="apart here", label=Label(span=names[other.buffer].span)),),
                helps=(_drop_demand(whole),),
            )


def _drop_demand(whole: Span | None) -> str:
    """Return the advice to drop one of two demands: this one, if it is all that its line says."""
    words = "drop one of the two demands"
    return drop(words, whole) if whole else words


def _check_overlap(
    context: Context, region: Region, one: Leaf, other: Leaf, whole: Span | None
) -> None:
    places = _overlap(region.tree, one.buffer, other.buffer)
    if places is None:
        return
    context.reporter.report(
        "region-apart",
        f"`{one.buffer}` and `{other.buffer}` are to stay apart, but `region {region.name}` lays "
        "one over the other",
        other.span,
        notes=(Note(message="the region", label=Label(span=places)),),
        helps=(_drop_demand(whole),),
    )


def _overlap(tree: Arrangement, one: str, other: str) -> Span | None:
    """Return the place of `other` if the two lie in different layers of a tree, else None."""
    if isinstance(tree, Leaf):
        return None
    for first, second in combinations(tree.parts, 2):
        names = [{leaf.buffer: leaf for leaf in leaves(part)} for part in (first, second)]
        for mine, theirs in (names, names[::-1]):
            if one in mine and other in theirs:
                return theirs[other].span if isinstance(tree, Over) else None
    return next((s for part in tree.parts if (s := _overlap(part, one, other))), None)
