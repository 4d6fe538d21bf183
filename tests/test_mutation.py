"""Mutation score of the prover: every mutant is refused, or shown to change nothing.

The table is printed by `pytest -m slow tests/test_mutation.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from builders import SHIPPED, STRANGERS, compiled
from equivalence import same_order
from mutation import KINDS, Mutant, mutants

from jfagen.emit import emit
from jfagen.proof import count_resources, make_subject
from jfagen.proof.rules import RULES
from jfagen.readback import verify_text


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
def test_no_mutant_of_any_shipped_schedule_survives(capsys):
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
                with capsys.disabled():
                    print(f"\nequivalent: {name}: {mutant.kind}, {mutant.place}: {why}", end="")
        with capsys.disabled():
            print(f"\n{name}: done", end="", flush=True)
    with capsys.disabled():
        print_table(rows)
    assert not survived
    assert set(rows) == set(KINDS) and all(rows[kind]["total"] for kind in KINDS)
    total = sum(row["total"] for row in rows.values())
    assert sum(row["equivalent"] for row in rows.values()) <= total // 10


def print_table(rows):
    print(f"\n{'mutation':26}{'killed':>8}{'equivalent':>12}{'survived':>10}{'total':>7}")
    for kind in KINDS:
        row = rows[kind]
        print(
            f"{kind:26}{row['killed']:8}{row['equivalent']:12}{row['survived']:10}{row['total']:7}"
        )
    print(f"{'all':26}{sum(r['killed'] for r in rows.values()):8}", end="")
    print(f"{sum(r['equivalent'] for r in rows.values()):12}", end="")
    print(f"{sum(r['survived'] for r in rows.values()):10}", end="")
    print(f"{sum(r['total'] for r in rows.values()):7}")
