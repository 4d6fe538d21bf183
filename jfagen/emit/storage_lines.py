"""Allocations as text: constants, tiles, shared regions, barriers."""

from __future__ import annotations

from collections.abc import Iterator

from ..passes.channels import Arrival, SyncPlan
from ..passes.placement import Placement
from ..proof.resources import rendezvous_barriers
from ..semantics.program import Buffer, Program
from ..semantics.regions import Arrangement, Beside, Leaf, leaves
from ..target import WARP_THREADS
from ..types import Storage
from .names import (
    ELEMENTS,
    barriers_text,
    bytes_name,
    columns_name,
    copies_text,
    depth_name,
    held_name,
    meeting_name,
    shape_text,
    slices_name,
    threads_name,
    tiles_name,
)
from .turns import turn_constants
from .view import Constant


def constants(program: Program, sync: SyncPlan) -> tuple[Constant, ...]:
    """Return the named numbers of a kernel."""
    found = list(_sizes(program))
    for buffer in program.buffers:
        found += _buffer_constants(program, buffer)
    loaded = {
        name: size for c in sync.channels for name, size in zip(c.buffers, c.bytes, strict=False)
    }
    found += [
        Constant(
            name=bytes_name(buffer.name),
            value=str(loaded[buffer.name]),
            comment=f"{' x '.join(map(str, buffer.shape))} {buffer.dtype}",
        )
        for buffer in program.buffers
        if buffer.name in loaded
    ]
    return (*found, *turn_constants(program), *_meetings(program, sync))


def extent_words(program: Program) -> dict[str, str]:
    """Return dimension -> what is counted by it, for example `key rows of a step`."""
    rows = {dim: extent.words for dim, extent in program.algorithm.extents.items()}
    if program.tile.groups > 1:
        what, _, _ = rows[program.tile.group_dim].partition(" rows of ")
        rows[program.tile.group_dim] = f"{what} rows of a group"
    return rows


def _sizes(program: Program) -> Iterator[Constant]:
    tile, rows = program.tile, extent_words(program)
    if tile.groups > 1:
        what, _, _ = rows[tile.group_dim].partition(" rows of ")
        comment = f"{what} groups of a tile"
        yield Constant(name="GROUPS", value=str(tile.groups), comment=comment)
    yield Constant(name="BLOCK_M", value=str(tile.m), comment=rows["m"])
    yield Constant(name="BLOCK_N", value=str(tile.n), comment=rows["n"])
    yield Constant(name="HEAD_DIM", value=str(program.problem.head_dim), comment="")


def _buffer_constants(program: Program, buffer: Buffer) -> Iterator[Constant]:
    stagings = [rp.staging for rp in program.role_programs if rp.staging is not None]
    staging = next((one for one in stagings if one.buffer == buffer.name), None)
    if buffer.depth > 1 or staging is not None:
        held = f"slots for {' and '.join(buffer.holds)} in turn" if len(buffer.holds) > 1 else ""
        yield Constant(
            name=depth_name(buffer.name), value=str(buffer.depth), comment=held or "slots"
        )
    if staging is not None and not buffer.flat:
        comment = "columns of a slice on its way out"
        yield Constant(name=columns_name(buffer.name), value=str(buffer.shape[1]), comment=comment)
        comment = "last slices, read into registers before they are staged"
        if staging.hold:
            yield Constant(name=held_name(buffer.name), value=str(staging.hold), comment=comment)
    values = [program.algorithm.value(value) for value in buffer.holds]
    sent = _is_sent(program, buffer)
    if (any(v.sliceable for v in values) or sent) and buffer.storage is not Storage.REG:
        how = "sent out" if sent else "handed over"
        yield Constant(
            name=slices_name(buffer.name),
            value=str(buffer.slices),
            comment=f"column slices, {how} one by one",
        )


def _is_sent(program: Program, buffer: Buffer) -> bool:
    """Whether an op sends a buffer's tile out in slices."""
    return buffer.turns == 1 and any(
        access.value in buffer.holds
        for op in program.algorithm.ops
        if op.staged
        for access in op.points[0].accesses
    )


def _meetings(program: Program, sync: SyncPlan) -> Iterator[Constant]:
    warps = {role.name: role.warps for role in program.roles}
    for role, barrier in rendezvous_barriers(program, sync).items():
        yield Constant(
            name=meeting_name(role),
            value=str(barrier),
            comment=f"named barrier of the {warps[role]} warps of {role}",
        )
        yield Constant(name=threads_name(role), value=str(warps[role] * WARP_THREADS), comment="")


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
