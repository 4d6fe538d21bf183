"""The shortest failing run: a smaller problem first, then an order closer to the default one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from .loader import Keep
from .problem import Problem
from .scheduler import STEP_BOUND, Policy, PolicyName
from .trial import Result, run_trial

SECONDS = 30.0
#: Budget of scheduler steps: less than the seconds on any usual machine, so that the same input
#: ends in the same run everywhere.
STEPS = 100_000
_LEAST_BOUND = 20_000

#: Rows of a sequence: of its keys, or of its keys and its queries.
_Sequence = TypeVar("_Sequence", int, tuple[int, int])

_DEFAULT = Policy(name=PolicyName.DEFAULT)
_ORDERS = (_DEFAULT, replace(_DEFAULT, late=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that decides one trial of a kernel."""

    problem: Problem
    sms: int
    seed: int
    policy: Policy
    nan_neighbours: bool = False
    step_bound: int = STEP_BOUND

    def run(self, source: str, keep: Keep = Keep.NOTHING) -> Result:
        """Return how the kernel does."""
        return run_trial(
            source,
            self.problem,
            sms=self.sms,
            seed=self.seed,
            policy=self.policy,
            nan_neighbours=self.nan_neighbours,
            step_bound=self.step_bound,
            keep=keep,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The shortest failing run found; `before` is the run that it comes from.

    `complete` tells that nothing was left untried.
    """

    case: Case
    result: Result
    before: Result
    runs: int
    complete: bool


def shrink(
    source: str,
    case: Case,
    *,
    roles: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
    steps: int = STEPS,
    seconds: float = SECONDS,
) -> Shrunk | None:
    """Return the shortest run that fails as `case` does, or nothing if it does not fail.

    `roles` are names of roles, each of which may be put off. `progress` gets a line now and then.
    """
    before = case.run(source, Keep.CHOICES)
    if not before.failure:
        return None
    # A loop without end would use up the budget; it shows as well after fewer steps.
    livelock = before.failure == "fault (livelock)"
    bound = _LEAST_BOUND if livelock else max(_LEAST_BOUND, 4 * before.outcome.steps)
    shrinker = _Shrinker(source, before.failure, progress, steps, time.monotonic() + seconds)
    case = replace(case, step_bound=min(case.step_bound, bound))
    case = shrinker.smaller_problem(case)
    case = shrinker.default_order(case, roles)
    return Shrunk(
        case=case,
        result=case.run(source, Keep.CHOICES),
        before=before,
        runs=shrinker.runs,
        complete=not shrinker.is_over(),
    )


def count_holds(result: Result) -> int:
    """Return how many choices of a run differ from the default order."""
    return sum(len(holds) for holds in result.outcome.choices)


class _Shrinker:
    """Runs a kernel again and again within a budget, and keeps what fails in the same way."""

    def __init__(
        self,
        source: str,
        failure: str,
        progress: Callable[[str], None],
        steps: int,
        deadline: float,
    ) -> None:
        self.runs = 0
        self._source = source
        self._failure = failure
        self._progress = progress
        self._steps = steps
        self._deadline = deadline

    def is_over(self) -> bool:
        """Tell whether the budget is used up."""
        return self._steps <= 0 or time.monotonic() > self._deadline

    def _run(self, case: Case) -> Result | None:
        """Return the result if the case fails in the same way."""
        if self.is_over():
            return None
        result = case.run(self._source, Keep.CHOICES)
        self.runs += 1
        self._steps -= result.outcome.steps
        return result if result.failure == self._failure else None

    def smaller_problem(self, case: Case) -> Case:
        """Return the smallest problem that still fails, in some order."""
        tried = {case}
        found: Case | None = case
        while found is not None:
            case, found = found, None
            self._progress(f"{self.runs} runs: {problem_text(case)}")
            for candidate in _smaller(case):
                if candidate not in tried and (found := self._in_some_order(candidate)):
                    break
                tried.add(candidate)
        return case

    def _in_some_order(self, case: Case) -> Case | None:
        for policy in dict.fromkeys((case.policy, *_ORDERS)):
            candidate = replace(case, policy=policy)
            if self._run(candidate):
                return candidate
        return None

    def default_order(self, case: Case, roles: Sequence[str]) -> Case:
        """Return the case with explicit holds, as few as possible."""
        orders = (*_ORDERS, case.policy, *(replace(_DEFAULT, role=role) for role in roles))
        best: Case | None = None
        for policy in dict.fromkeys(orders):
            result = self._run(replace(case, policy=policy))
            if result is None:
                continue
            holds = result.outcome.choices
            if best is None or _count(holds) < _count(best.policy.holds):
                best = replace(case, policy=replace(_DEFAULT, holds=holds))
            if not _count(holds):
                break
        if best is None:
            return case
        return self._fewer_holds(best)

    def _fewer_holds(self, case: Case) -> Case:
        """Return the case with a set of holds of which none can be left out."""
        size = _count(case.policy.holds)
        while size:
            self._progress(f"{self.runs} runs: {_count(case.policy.holds)} choices differ")
            size = min(size, _count(case.policy.holds))
            start = 0
            while start < _count(case.policy.holds):
                shorter = replace(
                    case, policy=replace(_DEFAULT, holds=_without(case.policy.holds, start, size))
                )
                result = self._run(shorter)
                if result is None:
                    start += size
                    continue
                # Holds that nothing met any more are left out too.
                if _count(result.outcome.choices) < _count(shorter.policy.holds):
                    shorter = replace(
                        shorter, policy=replace(_DEFAULT, holds=result.outcome.choices)
                    )
                case = shorter
            if self.is_over():
                break
            size //= 2
        return case


def problem_text(case: Case) -> str:
    """Return a problem as options of the command line."""
    problem = case.problem
    queries = f"--queries {problem.queries}"
    if problem.query_lengths is not None:
        queries = f"--query-lengths {_listed(problem.query_lengths)}"
    text = (
        f"--lengths {_listed(problem.lengths)} {queries} --heads {problem.heads}"
        f" --head-dim {problem.head_dim} --sms {case.sms} --seed {case.seed}"
    )
    flags = " --rising" * problem.rising + " --nan-neighbours" * case.nan_neighbours
    return text + flags


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases that are smaller in one respect, the smallest first."""
    problem = case.problem
    for fewer in _fewer_sequences(problem):
        yield replace(case, problem=fewer)
    if case.sms > 1:
        yield replace(case, sms=1)
    for heads in _lower(problem.heads):
        yield replace(case, problem=replace(problem, heads=heads))
    for shorter in _fewer_rows(problem):
        yield replace(case, problem=shorter)
    if problem.rising:
        yield replace(case, problem=replace(problem, rising=False))
    if case.nan_neighbours:
        yield replace(case, nan_neighbours=False)


def _fewer_sequences(problem: Problem) -> Iterator[Problem]:
    """Yield problems with some of the sequences, each with its keys and its own queries."""
    if problem.query_lengths is None:
        for lengths in _fewer(problem.lengths):
            yield replace(problem, lengths=lengths)
        return
    pairs = tuple(zip(problem.lengths, problem.query_lengths, strict=True))
    for kept in _fewer(pairs):
        lengths, query_lengths = zip(*kept, strict=True)
        yield replace(problem, lengths=lengths, query_lengths=query_lengths)


def _fewer_rows(problem: Problem) -> Iterator[Problem]:
    """Yield problems with fewer rows of queries, or of keys of one sequence."""
    if problem.query_lengths is None:
        for queries in _lower(problem.queries):
            yield replace(problem, queries=queries)
    else:
        for query_lengths in _one_lower(problem.query_lengths):
            yield replace(problem, query_lengths=query_lengths)
    for lengths in _one_lower(problem.lengths):
        yield replace(problem, lengths=lengths)


def _one_lower(numbers: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the numbers with one of them lower."""
    for index, number in enumerate(numbers):
        for lower in _lower(number):
            yield (*numbers[:index], lower, *numbers[index + 1 :])


def _fewer(sequences: tuple[_Sequence, ...]) -> Iterator[tuple[_Sequence, ...]]:
    """Yield each sequence alone, then what is left without a run of them."""
    if len(sequences) < 2:
        return
    for alone in sorted(set(sequences)):
        yield (alone,)
    size = len(sequences) // 2
    while size:
        for start in range(0, len(sequences), size):
            rest = sequences[:start] + sequences[start + size :]
            if rest:
                yield rest
        size //= 2


def _lower(number: int) -> Iterator[int]:
    """Yield 1, then numbers that come closer and closer from below."""
    if number > 1:
        yield 1
    step = number // 2
    while step:
        if number - step > 1:
            yield number - step
        step //= 2


def _count(holds: tuple[tuple[str, ...], ...]) -> int:
    return sum(len(part) for part in holds)


def _without(
    holds: tuple[tuple[str, ...], ...], start: int, size: int
) -> tuple[tuple[str, ...], ...]:
    """Return the holds of all launches without those from the `start`-th on."""
    result = []
    for part in holds:
        first, last = (min(max(end, 0), len(part)) for end in (start, start + size))
        result.append(part[:first] + part[last:])
        start -= len(part)
    return tuple(result)
