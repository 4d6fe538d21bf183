"""Stand-ins for `triton` and `tl`: numbers are computed, tensors keep only their shapes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .recorder import Pointer, ReadbackError, Recorder
from .shapes import Shaped, broadcast
from .trace import ActionKind


class Constant(int):
    """A whole number that is known when the kernel is compiled."""

    @property
    def value(self) -> int:
        """Return the number."""
        return int(self)


class Fraction(float):
    """A number that is known when the kernel is compiled."""

    @property
    def value(self) -> float:
        """Return the number."""
        return float(self)


def constexpr(value: Any = 0) -> Any:  # noqa: ANN401
    """Return a compile-time number."""
    return Fraction(value) if isinstance(value, float) else Constant(value)


def make_triton(name: str = "triton") -> SimpleNamespace:
    """Return the stand-in for `triton`."""
    del name
    return SimpleNamespace(jit=_jit, cdiv=_cdiv)


def _jit(function: Any = None, **options: object) -> Any:  # noqa: ANN401
    """Return a function as it is, whether the decorator has options or not."""
    return (lambda later: later) if function is None else function


def _cdiv(one: int, other: int) -> int:
    return -(-one // other)


def _is_number(*values: object) -> bool:
    return all(isinstance(value, int | float) for value in values)


class Language:
    """The stand-in for `tl`; an unknown name is an error at its line."""

    float32, bfloat16, float16, int32, int64 = "fp32", "bf16", "fp16", "i32", "i64"
    constexpr = staticmethod(constexpr)
    static_range = staticmethod(range)
    range = staticmethod(range)
    cdiv = staticmethod(_cdiv)

    def __init__(self, recorder: Recorder) -> None:
        """Record into `recorder`."""
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        raise ReadbackError(f"`tl.{name}` cannot be read back", self._recorder.line())

    def program_id(self, axis: int) -> int:
        """Return the CTA's id."""
        return self._recorder.cta.index

    def num_programs(self, axis: int) -> int:
        """Return the number of CTAs."""
        return self._recorder.cta.number

    def arange(self, start: int, stop: int) -> Shaped:
        """Return a row of numbers."""
        return Shaped((stop - start,))

    def full(self, shape: Any, value: object, dtype: object) -> Shaped:  # noqa: ANN401
        """Return a tensor of one number."""
        return Shaped(tuple(shape))

    def zeros(self, shape: Any, dtype: object) -> Shaped:  # noqa: ANN401
        """Return a tensor of zeros."""
        return Shaped(tuple(shape))

    def minimum(self, one: Any, other: Any) -> Any:  # noqa: ANN401
        """Return the smaller one."""
        return min(one, other) if _is_number(one, other) else broadcast(one, other)

    def maximum(self, one: Any, other: Any) -> Any:  # noqa: ANN401
        """Return the larger one."""
        return max(one, other) if _is_number(one, other) else broadcast(one, other)

    def where(self, condition: object, one: object, other: object) -> Shaped:
        """Return a choice, element by element."""
        return broadcast(condition, one, other)

    def cast(self, value: int, dtype: object) -> int:
        """Return the same number in another type."""
        return value

    def exp2(self, value: object) -> Shaped:
        """Return a power of two of every element."""
        return broadcast(value)

    def log2(self, value: object) -> Shaped:
        """Return the logarithm of every element."""
        return broadcast(value)

    def _reduced(self, value: Shaped, axis: int | None = None) -> Shaped:
        value.look()
        if axis is None:
            return Shaped()
        return Shaped(tuple(e for index, e in enumerate(value.shape) if index != axis))

    max = min = sum = _reduced

    def inline_asm_elementwise(
        self, asm: str, constraints: str, args: list[object], dtype: object, **_: object
    ) -> Shaped:
        """Return the shape of an elementwise result."""
        return broadcast(*args)

    def load(self, pointer: Pointer, **_: object) -> Any:  # noqa: ANN401
        """Return a number from an array of which the contents are known."""
        if pointer.contents is None or not isinstance(pointer.offset, int):
            raise ReadbackError(
                f"a load from `{pointer.name}` cannot be read back", self._recorder.line()
            )
        if pointer.name in self._recorder.cta.tile_lists:
            self._recorder.visiting.append(int(pointer.offset))
        return Integer(pointer.contents[pointer.offset])

    def store(self, pointer: Pointer, value: object, mask: object = None) -> None:
        """Record a store to global memory."""
        self._recorder.act(ActionKind.GLOBAL, tensor=pointer.name)

    def atomic_add(
        self, pointer: Pointer, val: object, sem: str = "acq_rel", scope: str = "gpu"
    ) -> None:
        """Record adds to global memory, which every CTA must see."""
        if scope == "cta":
            said = f"adds to `{pointer.name}` with the scope of a CTA are not seen by others"
            raise ReadbackError(said, self._recorder.line())
        self._recorder.act(ActionKind.GLOBAL, tensor=pointer.name, accumulates=True)


class Integer(int):
    """A scalar of the kernel; arithmetic gives plain numbers again."""

    def to(self, dtype: object) -> Integer:
        """Return the same number in another type."""
        return self

    def __add__(self, other: Any) -> Any:  # noqa: ANN401
        return Integer(int(self) + other) if isinstance(other, int) else other + int(self)

    def __mul__(self, other: Any) -> Any:  # noqa: ANN401
        return Integer(int(self) * other) if isinstance(other, int) else other * int(self)
