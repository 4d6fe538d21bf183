"""Mutation score of the prover: every mutant is refused, or shown to change nothing.

The table is printed by `pytest -m slow tests/test_mutation.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from builders import SHIPPED, STRANGERS, compiled
from equivalence import same_order
from mutation import KINDS, Mutant, mutants
from test_readme import check

from jfagen.emit import emit
from jfagen.machine.trial import Problem, run_trial
from jfagen.proof import count_resources, make_subject
from jfagen.proof.rules import RULES
from jfagen.readback import verify_text

PROBLEM = Problem(lengths=(300, 128, 517, 0), rising=True)


def refused(mutant: Mutant) -> str | None:
    """Return the rule that refuses a mutant, or None if the prover accepts it."""
    subject = make_subject(mutant.plan, mutant.placement, mutant.sync)
    for rule in RULES:
        if found := rule.check(subject):
            return found[0].id
    findings = verify_text(mutant.plan, mutant.placement, mutant.sync, text_of(mutant))
    return findings[0].rule if findings else None


def text_of(mutant: Mutant) -> str:
    resources = count_resources(mutant.plan.program, mutant.placement, mutant.sync)
    return emit(mutant.plan, mutant.placement, mutant.sync, resources).text


@pytest.mark.slow
def test_no_mutant_of_any_shipped_schedule_survives(capsys, golden):
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    survived: list[tuple[str, str, str]] = []
    for name in [*SHIPPED, *STRANGERS]:
        for mutant in mutants(name):
            rows[mutant.kind]["total"] += 1
            rule = refused(mutant)
            if rule is not None:
                assert rule != "round-trip", (name, mutant.kind, mutant.place)
                rows[mutant.kind]["killed"] += 1
                continue
            why = same_order(compiled(name), mutant, text_of(mutant))
            if why is None:
                survived.append((name, mutant.kind, mutant.place))
                rows[mutant.kind]["survived"] += 1
            else:
                rows[mutant.kind]["equivalent"] += 1
                result = run_trial(text_of(mutant), PROBLEM, policy="late", sms=1)
                assert result.right, (name, mutant.kind, mutant.place, result.outcome.text())
                with capsys.disabled():
                    print(f"\nequivalent: {name}: {mutant.kind}, {mutant.place}: {why}", end="")
        with capsys.disabled():
            print(f"\n{name}: done", end="", flush=True)
    with capsys.disabled():
        print("\n" + table(rows), end="")
    assert not survived
    check(golden, "mutation", table(rows))
    assert set(rows) == set(KINDS) and all(rows[kind]["total"] for kind in KINDS)
    total = sum(row["total"] for row in rows.values())
    assert sum(row["equivalent"] for row in rows.values()) <= total // 10


def table(rows):
    """Return kind x killed, equivalent, survived, total as lines."""
    words = ("killed", "equivalent", "survived", "total")
    lines = [f"{'mutation':26}" + "".join(f"{word:>12}" for word in words)]
    whole = Counter()
    for kind in KINDS:
        whole.update(rows[kind])
        lines.append(f"{kind:26}" + "".join(f"{rows[kind][word]:12}" for word in words))
    return "\n".join([*lines, f"{'all':26}" + "".join(f"{whole[word]:12}" for word in words)])
