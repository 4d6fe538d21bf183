"""Register tensors without numbers: only shapes, as far as the text's control flow needs them."""

from __future__ import annotations

from typing import Any


class Shaped:
    """A tensor of which only the shape is known; arithmetic broadcasts, tests are taken as true.

    A branch on data is followed: what it touches is then part of the trace.
    """

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        """Remember the shape; () is a scalar that depends on data."""
        self.shape = tuple(shape)

    def look(self) -> None:
        """Take part in arithmetic; a value that is not there yet refuses."""

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: Any) -> Shaped:  # noqa: ANN401
        items = index if isinstance(index, tuple) else (index,)
        left = list(self.shape)
        shape = [1 if item is None else left.pop(0) for item in items]
        return Shaped((*shape, *left))

    def _with(self, other: object) -> Shaped:
        return broadcast(self, other)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _with
    __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __or__ = _with
    __lt__ = __le__ = __gt__ = __ge__ = _with

    def __and__(self, other: object) -> object:
        """Return what is known to be false as false: data cannot make it true."""
        return broadcast(self, other) if other else False

    __rand__ = __and__

    def __neg__(self) -> Shaped:
        return self

    def to(self, *_: object) -> Shaped:
        """Return the same shape in another type."""
        return self

    def reshape(self, *shape: Any) -> Shaped:  # noqa: ANN401
        """Return the same elements in another shape."""
        return Shaped(tuple(shape[0]) if len(shape) == 1 else shape)

    def permute(self, *order: Any) -> Shaped:  # noqa: ANN401
        """Return the dimensions in another order."""
        dims = tuple(order[0]) if len(order) == 1 else order
        return Shaped(tuple(self.shape[dim] for dim in dims))

    def split(self) -> tuple[Shaped, Shaped]:
        """Return the two halves of a last dimension of size 2."""
        return Shaped(self.shape[:-1]), Shaped(self.shape[:-1])


def broadcast(*values: object) -> Shaped:
    """Return the shape of an elementwise result."""
    shape: tuple[int, ...] = ()
    for value in values:
        if isinstance(value, Shaped):
            value.look()
        other = value.shape if isinstance(value, Shaped) else ()
        rank = max(len(shape), len(other))
        one = (1,) * (rank - len(shape)) + shape
        two = (1,) * (rank - len(other)) + other
        shape = tuple(max(a, b) for a, b in zip(one, two, strict=True))
    return Shaped(shape)
