"""Results of matmuls that are still in flight: nothing may look at them."""

from __future__ import annotations

from typing import Any

from .recorder import ReadbackError, Recorder
from .shapes import Shaped


class Pending(Shaped):
    """The register result of a matmul that nobody has waited for; only another matmul may take it.

    Attributes:
        number: of the matmul among those of its role, counted from 1.
    """

    __slots__ = ("_recorder", "number")

    def __init__(self, shape: tuple[int, ...], recorder: Recorder, number: int) -> None:
        """Remember which matmul it is."""
        super().__init__(shape)
        self._recorder = recorder
        self.number = number

    def refuse(self) -> None:
        """Report that somebody looks at it."""
        raise ReadbackError(
            "the result of a matmul is used before the role has waited for it",
            self._recorder.line(),
        )

    def look(self) -> None:
        """Refuse to take part in arithmetic."""
        self.refuse()

    def __bool__(self) -> bool:
        self.refuse()
        raise AssertionError

    def __getitem__(self, index: Any) -> Shaped:  # noqa: ANN401
        self.refuse()
        raise AssertionError

    def to(self, *types: object) -> Shaped:
        """Refuse to convert it."""
        self.refuse()
        raise AssertionError

    reshape = permute = to
