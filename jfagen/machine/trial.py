"""One trial of an attention kernel: random inputs, a simulated run, a comparison in float64."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from .backward_trial import BACKWARD
from .forward_trial import FORWARD
from .loader import Keep
from .problem import Inputs, Problem
from .procedure import Error, Procedure
from .report import Fault, Kind, Outcome
from .scheduler import STEP_BOUND, Policy
from .simulate import simulate

#: How the kernels of each algorithm are tried, by what their text calls `ALGORITHM`.
PROCEDURES = {"attention.forward": FORWARD, "attention.backward": BACKWARD}

_FACTOR = 2.0
#: A kernel that skips rescales rounds the largest weight too, which is exactly 1 in the reference;
#: where scores keep rising a few weights are all of the sum, so its rounding is not averaged out.
_RISING_FACTOR = 4.0


class UnknownAlgorithm(ValueError):
    """The text is a kernel of an algorithm that no procedure tries; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one trial ended; `errors` has one of each output if the run ended in results."""

    outcome: Outcome
    errors: tuple[Error, ...] = ()
    leak: bool = False

    @property
    def right(self) -> bool:
        """Tell whether the run ended in results and all of them are right."""
        close = all(error.within for error in self.errors)
        return self.outcome.kind is Kind.RESULTS and close and not self.leak

    @property
    def failure(self) -> str:
        """Return the kind of failure, faults with their rule; an empty text if all is right."""
        if self.right:
            return ""
        if self.outcome.kind is Kind.RESULTS:
            return "neighbours leak" if self.leak else "wrong result"
        faults = [report for report in self.outcome.reports if isinstance(report, Fault)]
        return f"fault ({faults[0].rule})" if faults else str(self.outcome.kind)


@lru_cache(maxsize=32)
def procedure_of(text: str) -> Procedure:
    """Return how a kernel text is tried.

    A text that names no algorithm is a forward; so is one that is no Python, which the run says.

    Raises:
        UnknownAlgorithm: it names another one than those of `PROCEDURES`.
    """
    name = _algorithm(text)
    if name not in PROCEDURES:
        known = " and ".join(f"`{known}`" for known in PROCEDURES)
        raise UnknownAlgorithm(f"no kernel of `{name}` can be tried, only of {known}")
    return PROCEDURES[name]


def _algorithm(text: str) -> str:
    """Return what the text assigns to `ALGORITHM`, last if more than once."""
    try:
        nodes = ast.parse(text).body
    except (SyntaxError, ValueError):
        nodes = []
    found = "attention.forward"
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id="ALGORITHM")], value=ast.Constant(value=value)):
                found = str(value)
            case ast.Assign(targets=[ast.Name(id="ALGORITHM")], value=value):
                found = ast.unparse(value)
    return found


def run_trial(
    source: str,
    problem: Problem,
    *,
    sms: int = 2,
    seed: int = 0,
    policy: str | Policy = "random",
    nan_neighbours: bool = False,
    step_bound: int = STEP_BOUND,
    keep: Keep = Keep.NOTHING,
) -> Result:
    """Return how a kernel, a path or its text, does on one random instance of a problem.

    With `nan_neighbours` the kernel runs twice, the second time with NaN in every other sequence;
    the sequences in between must come out bit for bit the same.

    Raises:
        UnknownAlgorithm: the text names an algorithm that no procedure tries.
    """
    text = source if "\n" in source else Path(source).read_text(encoding="utf-8")
    procedure = procedure_of(text)

    def run(given: Inputs) -> Outcome:
        return simulate(
            source,
            inputs=given,
            sms=sms,
            seed=seed,
            policy=policy,
            entry=procedure.entry,
            step_bound=step_bound,
            keep=keep,
        )

    inputs = procedure.make_inputs(problem, seed)
    outcome = run(inputs)
    if outcome.kind is not Kind.RESULTS:
        return Result(outcome=outcome)
    factor = _RISING_FACTOR if problem.rising else _FACTOR
    errors = procedure.compare(outcome.outputs, inputs, factor)
    result = Result(outcome=outcome, errors=errors)
    if not nan_neighbours or not result.right:
        return result
    poisoned, kept = procedure.poison(inputs)
    second = run(poisoned)
    if second.kind is not Kind.RESULTS:
        return Result(outcome=second)
    same = procedure.agree(outcome.outputs, second.outputs, inputs, kept, errors)
    return replace(result, outcome=second, leak=not same)
