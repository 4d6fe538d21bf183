"""How kernels of one algorithm are tried, as values: what they get, return, and may differ by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..reference import Float
from .problem import Inputs, Owner, Problem, input_type, owned_indices
from .values import Value

#: Relative distance of neighbouring numbers of an input type.
_SPACING = {"bf16": 2.0**-7, "fp16": 2.0**-10}
#: Part of its bound by which a result that is summed in any order may differ between two runs.
_ORDER_PART = 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """How far one result is from float64 where it is worst, NaN where the result is NaN.

    Attributes:
        error: the absolute difference that is the largest part of what is allowed there.
        bound: what is allowed there.
        bound_decimals: how the bound is printed: one that is a constant has none.
    """

    name: str
    error: float
    bound: float
    bound_decimals: int = 2

    @property
    def within(self) -> bool:
        """Tell whether the result is right: a NaN is not."""
        return self.error <= self.bound

    def text(self) -> str:
        """Return `out 2.61e-03 (bound 5.24e-03)`."""
        return f"{self.name} {self.error:.2e} (bound {self.bound:.{self.bound_decimals}e})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What one result should be in float64, and by how much it may differ.

    Attributes:
        exact: the result.
        bound: absolute and of every element: any shape that broadcasts to that of the result.
    """

    exact: Float
    bound: Float


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One result of a kernel.

    Attributes:
        owner: whose its rows are.
        any_order: whether it is summed in an order that the schedule decides, so that two runs
            may differ in the last bits.
        bound_decimals: how its bound is printed.
    """

    name: str
    owner: Owner
    any_order: bool = False
    bound_decimals: int = 2

    def error(self, result: Value, expected: Expected) -> Error:
        """Return how far a result is from what is expected; NaN if it has another shape."""
        given = np.asarray(result, np.float64)
        error, bound = float("nan"), float(expected.bound.max(initial=0.0))
        if given.shape == expected.exact.shape:
            error, bound = _worst(differences(given, expected.exact), expected.bound)
        return Error(name=self.name, error=error, bound=bound, bound_decimals=self.bound_decimals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """How the kernels of one algorithm are tried.

    Attributes:
        entry: the host function that is called.
        make_inputs: (problem, seed) -> its arguments by name.
        expect: (inputs, factor) -> what to expect of each output; a bound is `factor` times the
            error that rounding to the input type alone makes, and a little.
        owners: the inputs that a sequence has rows of.
        outputs: what the function returns, in order.
    """

    entry: str
    make_inputs: Callable[[Problem, int], Inputs]
    expect: Callable[[Inputs, float], Sequence[Expected]]
    owners: dict[str, Owner]
    outputs: tuple[Output, ...]

    def compare(self, results: Sequence[Value], inputs: Inputs, factor: float) -> tuple[Error, ...]:
        """Return the error of each output; all are NaN if there are more or fewer results."""
        expected = self.expect(inputs, factor)
        missing = [None] * len(self.outputs)
        given = results if len(results) == len(self.outputs) else missing
        return tuple(
            output.error(result, wanted)
            for output, result, wanted in zip(self.outputs, given, expected, strict=True)
        )

    def poison(self, inputs: Inputs) -> tuple[Inputs, list[int]]:
        """Return inputs with NaN in every other sequence with keys, and the sequences without."""
        offsets = inputs["kv_offsets"].tolist()
        sequences = range(len(offsets) - 1)
        poisoned = [b for b in sequences if offsets[b] < offsets[b + 1]][1::2]
        result = dict(inputs)
        for name, owner in self.owners.items():
            result[name] = inputs[name].clone()
            result[name][owned_indices(owner, inputs, poisoned)] = float("nan")
        return result, [b for b in sequences if b not in poisoned]

    def agree(
        self,
        first: Sequence[Value],
        second: Sequence[Value],
        inputs: Inputs,
        sequences: Sequence[int],
        errors: Sequence[Error],
    ) -> bool:
        """Tell whether two runs gave these sequences the same, bit for bit.

        What is summed in any order may differ by one step of the input type, or by a small part
        of its bound in `errors`. What all sequences share is no single one's, so it is left out:
        dq of one q for all is their sum, and NaN where any of them is.
        """
        spacing = _SPACING[input_type(inputs)]
        for i, output in enumerate(self.outputs):
            kept = owned_indices(output.owner, inputs, sequences)
            before, after = first[i][kept], second[i][kept]
            slack = (spacing, _ORDER_PART * errors[i].bound) if output.any_order else (0.0, 0.0)
            if not np.allclose(after, before, *slack):
                return False
        return True


def differences(values: Float, exact: Float) -> Float:
    """Return the absolute differences; equal infinities differ by 0."""
    with np.errstate(invalid="ignore"):
        return np.where(values == exact, 0.0, np.abs(values - exact))


def _worst(difference: Float, bound: Float) -> tuple[float, float]:
    """Return the difference that is the largest part of its bound, a NaN first; and that bound."""
    if not difference.size:
        return 0.0, float(bound.max(initial=0.0))
    allowed = np.broadcast_to(bound, difference.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(difference == 0, 0.0, difference / allowed)
    place = np.unravel_index(np.argmax(part), part.shape)
    return float(difference[place]), float(allowed[place])
