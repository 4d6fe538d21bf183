"""Aliased storage: `storage_alias_spec`, `reuse_group`, and where each member's slots lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from .memory import Buffer, Root, Storage
from .report import MachineFault


class GroupType(StrEnum):
    """How the elements of a group lie: over each other, or side by side."""

    SHARED = "shared"
    DISTINCT = "distinct"


@dataclass(slots=True, eq=False)
class Group:
    """A node of the tree of buffers that share storage."""

    elements: tuple[Group | Buffer, ...]
    group_type: GroupType
    group_size: int


@dataclass(slots=True, eq=False)
class Spec:
    """One backing allocation that several buffers join."""

    name: str
    storage: Storage
    root: Root
    size_limit: int | None = None
    members: list[Buffer] = field(default_factory=list)
    overlap: Group | None = None

    def join(self, buffer: Buffer) -> None:
        """Add a buffer at offset 0.

        Raises:
            MachineFault: it lies in another memory.
        """
        if buffer.storage is not self.storage:
            raise MachineFault("alias", f"`{buffer.name}` and `{self.name}` differ in storage")
        self.members.append(buffer)
        buffer.grow_root()

    def set_buffer_overlap(self, group: Group) -> None:
        """Lay the members out as a tree of groups says.

        Raises:
            MachineFault: the tree does not fit the members.
        """
        if self.overlap is not None:
            raise MachineFault("alias", f"`{self.name}` already has a set_buffer_overlap defined")
        self.overlap = group
        leaves = _leaves(group)
        if len({id(leaf) for leaf in leaves}) != len(leaves):
            raise MachineFault("alias", f"`{self.name}`: a buffer is twice in the tree")
        if any(leaf not in self.members for leaf in leaves):
            raise MachineFault("alias", f"`{self.name}`: a buffer was not allocated with this spec")
        if self.root.base is not None:
            raise MachineFault("alias", f"`{self.name}` is laid out after its first use")
        period = _size(group, 1)
        self.root.size = period * self.members[0].num
        _lay_out(group, offset=0, period=period, group_size=1)
        for leaf in leaves:
            leaf.grow_root()


def make_group(
    *elements: Group | Buffer, group_type: GroupType = GroupType.SHARED, group_size: int = 1
) -> Group:
    """Return a group of buffers or of further groups.

    Raises:
        MachineFault: it is empty, or holds something else.
    """
    if not elements or group_size < 1:
        raise MachineFault("alias", "a reuse_group needs elements and a positive group_size")
    if not all(isinstance(element, Group | Buffer) for element in elements):
        raise MachineFault("alias", "a reuse_group holds buffers and reuse_groups")
    return Group(elements, group_type, int(group_size))


def _leaves(node: Group | Buffer) -> list[Buffer]:
    if isinstance(node, Buffer):
        return [node]
    return [leaf for element in node.elements for leaf in _leaves(element)]


def _size(node: Group | Buffer, group_size: int) -> int:
    """Return the units that one index of a node takes."""
    if isinstance(node, Buffer):
        return node.width * group_size
    sizes = [_size(element, node.group_size * group_size) for element in node.elements]
    if node.group_type is GroupType.SHARED:
        return max(sizes)
    total = 0
    for element, size in zip(node.elements, sizes, strict=True):
        total = _align(total, element) + size
    return total


def _align(offset: int, node: Group | Buffer) -> int:
    width = max(leaf.width for leaf in _leaves(node))
    return -(-offset // width) * width


def _lay_out(node: Group | Buffer, *, offset: int, period: int, group_size: int) -> None:
    if isinstance(node, Buffer):
        between, rest = divmod(period, group_size * node.width)
        if rest or offset % node.width:
            raise MachineFault(
                "alias", f"`{node.name}`: {period} and {offset} are no multiples of {node.width}"
            )
        node.scale, node.offset, node.group = between, offset // node.width, group_size
        return
    inner = group_size * node.group_size
    for element in node.elements:
        if node.group_type is GroupType.DISTINCT:
            offset = _align(offset, element)
        _lay_out(element, offset=offset, period=period, group_size=inner)
        if node.group_type is GroupType.DISTINCT:
            offset += _size(element, inner)
