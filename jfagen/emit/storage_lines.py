"""Allocations as text: constants, tiles, shared regions, barriers."""

from __future__ import annotations

from ..passes.channels import Arrival, SyncPlan
from ..passes.layout import leaves
from ..passes.placement import Placement
from ..semantics.program import Arrangement, Beside, Buffer, Leaf, Program
from ..types import Storage
from .names import (
    ELEMENTS,
    barriers_text,
    bytes_name,
    copies_text,
    depth_name,
    shape_text,
    slices_name,
    tiles_name,
)
from .turns import turn_constants
from .view import Constant


def constants(program: Program, sync: SyncPlan) -> tuple[Constant, ...]:
    """Return the named numbers of a kernel."""
    tile = program.tile
    found: list[Constant] = []
    if tile.groups > 1:
        found.append(
            Constant(name="GROUPS", value=str(tile.groups), comment="query groups of a tile")
        )
    found += [
        Constant(name="BLOCK_M", value=str(tile.m), comment="query rows of a group"),
        Constant(name="BLOCK_N", value=str(tile.n), comment="key rows of a step"),
        Constant(name="HEAD_DIM", value=str(program.problem.head_dim), comment=""),
    ]
    for buffer in program.buffers:
        if buffer.depth > 1:
            held = (
                f"slots for {' and '.join(buffer.holds)} in turn"
                if len(buffer.holds) > 1
                else "slots"
            )
            found.append(
                Constant(name=depth_name(buffer.name), value=str(buffer.depth), comment=held)
            )
        sliceable = any(program.algorithm.value(value).sliceable for value in buffer.holds)
        if sliceable and buffer.storage is not Storage.REG:
            found.append(
                Constant(
                    name=slices_name(buffer.name),
                    value=str(buffer.slices),
                    comment="column slices, handed over one by one",
                )
            )
    loaded = {c.buffers[0]: c.bytes for c in sync.channels if c.arrival is Arrival.BYTES}
    found += [
        Constant(
            name=bytes_name(buffer.name),
            value=str(loaded[buffer.name]),
            comment=f"{' x '.join(map(str, buffer.shape))} {buffer.dtype}",
        )
        for buffer in program.buffers
        if buffer.name in loaded
    ]
    return (*found, *turn_constants(program))


def allocations(program: Program, placement: Placement) -> tuple[str, ...]:
    """Return the lines that allocate every buffer, members of one region together."""
    lines: list[str] = []
    trees = {leaves(tree)[0].buffer: tree for tree in placement.layout.trees}
    for tree in trees.values():
        if isinstance(tree, Leaf):
            lines.append(_allocation(program, program.buffer(tree.buffer), ""))
            continue
        space = space_name(program, tree)
        storage = program.buffer(leaves(tree)[0].buffer).storage
        lines.append(f"{space} = tlx.storage_alias_spec(storage=tlx.storage_kind.{storage})")
        lines += [_allocation(program, program.buffer(leaf.buffer), space) for leaf in leaves(tree)]
        lines += [f"{space}.set_buffer_overlap(", *_group(tree, 1, last=True), ")"]
    return tuple(lines)


def space_name(program: Program, tree: Arrangement) -> str:
    """Return the name of a shared place: its region's, or its first buffer's."""
    for region in program.regions:
        if region.tree == tree:
            return f"{region.name}_space"
    return f"{leaves(tree)[0].buffer}_space"


def _allocation(program: Program, buffer: Buffer, space: str) -> str:
    arguments = [shape_text(buffer), ELEMENTS[buffer.dtype], copies_text(program, buffer)]
    if buffer.storage is Storage.TMEM:
        arguments.append("tlx.storage_kind.tmem")
    if space:
        arguments.append(f"reuse={space}")
    return f"{tiles_name(buffer.name)} = tlx.local_alloc({', '.join(arguments)})"


def _group(tree: Arrangement, depth: int, *, last: bool = False) -> list[str]:
    """Return a tree as nested `reuse_group` calls, one part a line."""
    margin = "    " * depth
    end = "" if last else ","
    if isinstance(tree, Leaf):
        return [f"{margin}{tiles_name(tree.buffer)}{end}"]
    kind = "distinct" if isinstance(tree, Beside) else "shared"
    lines = [f"{margin}tlx.reuse_group("]
    for part in tree.parts:
        lines += _group(part, depth + 1)
    lines.append(f"{margin}    group_type=tlx.reuse_group_type.{kind},")
    return [*lines, f"{margin}){end}"]


def barrier_lines(program: Program, sync: SyncPlan) -> tuple[str, ...]:
    """Return the lines that allocate every barrier."""
    lines: list[str] = []
    for channel in sync.channels:
        number = barriers_text(program, channel)
        if channel.arrival is Arrival.THREADS:
            more = f", num_arrivals={channel.arrivals}" if channel.arrivals > 1 else ""
            call = f"tlx.alloc_warp_barrier({number}, num_warps={channel.warps}{more})"
        else:
            more = f", arrive_count={channel.arrivals}" if channel.arrivals > 1 else ""
            call = f"tlx.alloc_barriers({number}{more})"
        lines.append(f"{channel.name} = {call}")
    return tuple(lines)
