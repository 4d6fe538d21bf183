"""Short words for the tables of algorithms."""

from __future__ import annotations

from ..types import Storage
from .model import Access, Element, Mode, Space, Value

#: Tiles that TMA and the tensor core exchange with warps.
SMEM = frozenset({Storage.SMEM})
#: Tiles and vectors that matmuls and warps exchange, or that warps keep.
ROWS = frozenset({Storage.TMEM, Storage.REG})


def read(value: str, *, every_group: bool = False) -> Access:
    """Return an access that reads."""
    return Access(value=value, mode=Mode.READ, every_group=every_group)


def write(value: str) -> Access:
    """Return an access that writes."""
    return Access(value=value, mode=Mode.WRITE)


def update(value: str, *, first_step: int = 0, first_read: int = 0) -> Access:
    """Return an access that adds to what is there, or multiplies it."""
    return Access(
        value=value, mode=Mode.UPDATE, first_step=first_step, first_read=max(first_step, first_read)
    )


def value(
    name: str,
    dims: tuple[str, ...],
    element: Element,
    space: Space,
    storages: frozenset[Storage],
    *,
    grouped: bool = True,
    sliceable: bool = False,
    staging: bool = False,
    split: str = "",
) -> Value:
    """Return a value; one for every group of rows if nothing else is said."""
    return Value(
        name=name,
        dims=dims,
        element=element,
        space=space,
        grouped=grouped,
        storages=storages,
        sliceable=sliceable,
        staging=staging,
        split=split,
    )
