"""Every arrive, wait, phase and named barrier of the ping-pong kernel matters, or provably not.

Each is deleted, flipped or weakened alone in a copy of the text. What no order shows has to be
redundant: the same accesses are ordered as in the original, and no wait depends on luck. The table
is printed.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import numpy as np
import pytest
from test_machine_hopper import RINGS, attention, hopper_text, tensors
from test_machine_public_mutants import SAME, Mutant, changes

from jfagen.machine import Kind, simulate
from jfagen.machine.loader import Keep
from jfagen.machine.order_log import difference

TEXT = hopper_text("persistent")
#: Three tiles of three steps, so that rings of two turn unevenly; four of two, three of one step.
SHAPES = ((1, 1, 384, 64), (1, 2, 256, 64), (1, 3, 128, 64))
ORDERS = (("late", 0, 1), ("at_once", 0, 1), ("random", 0, 2), ("random", 1, 1), ("random", 2, 1))

V_WAIT = "tlx.barrier_wait(v_empties[kv_bufIdx], kv_phase ^ 1)"
Q_WAIT = "acc = tlx.async_dot_wait(1, acc)"
#: What no order shows, and why.
REDUNDANT = {
    ("barrier_wait deleted", V_WAIT): "the first V of a tile follows the wait for both Q slots,"
    " which are freed once all but the last product with V are done; a ring of two asks no more",
    ("async_dot_wait deleted", Q_WAIT): "only the last product with V is under way there",
    ("async_dot_wait weakened", Q_WAIT): "only the last product with V is under way there",
}
EXPECTED = {
    "barrier_wait deleted": 11,
    "phase flipped": 11,
    "barrier_expect_bytes deleted": 6,
    "barrier_arrive deleted": 5,
    "named_barrier_wait deleted": 4,
    "named_barrier_arrive deleted": 5,
    "async_dot_wait deleted": 5,
    "async_dot_wait weakened": 5,
}

NAMED = re.compile(r"tlx\.(named_barrier_wait|named_barrier_arrive)\(.*\)$")
DOT_WAIT = re.compile(r"(\w+) = tlx\.async_dot_wait\((\d), \1\)$")


def mutants():
    lines = TEXT.split("\n")
    start = next(n for n, line in enumerate(lines) if line.startswith("def _attn_fwd_ws"))
    stop = next(n for n in range(start, len(lines)) if lines[n].startswith("class "))
    for index in range(start, stop):
        line = lines[index].strip()
        for kind, what, old, new in (*changes(line), *hopper_changes(line)):
            changed = [*lines[:index], lines[index].replace(old, new), *lines[index + 1 :]]
            yield Mutant(line=index + 1, kind=kind, what=what, text="\n".join(changed))


def hopper_changes(line):
    if found := NAMED.match(line):
        yield f"{found[1]} deleted", line, line, "pass"
    elif found := DOT_WAIT.match(line):
        yield "async_dot_wait deleted", line, line, "pass"
        weaker = f"{found[1]} = tlx.async_dot_wait({int(found[2]) + 1}, {found[1]})"
        yield "async_dot_wait weakened", line, line, weaker


@cache
def problem(shape):
    q, k, v = tensors(shape)
    out, lse = attention(q.double(), k.double(), v.double(), False)
    return {"q": q, "k": k, "v": v}, (out.numpy(), lse.numpy())


def run(text, shape, policy, seed, sms, keep=Keep.NOTHING):
    inputs = problem(shape)[0]
    return simulate(text, inputs=inputs, sms=sms, seed=seed, policy=policy, keep=keep)


def verdict(text):
    """Return how the machine objects, or an empty text if no order shows anything."""
    for shape in SHAPES:
        for order in ORDERS:
            outcome = run(text, shape, *order)
            if not outcome.ok:
                return str(outcome.kind)
            pairs = zip(outcome.outputs, problem(shape)[1], strict=True)
            if not all(np.allclose(given, exact, atol=2e-3) for given, exact in pairs):
                return "wrong result"
    return ""


def reason(text):
    """Return why a text orders otherwise than the original, or an empty text."""
    for shape in SHAPES:
        for policy, seed in (("late", 0), ("random", 1)):
            logs = [run(other, shape, policy, seed, 1, Keep.ORDER).order for other in (TEXT, text)]
            if why := difference(*logs):
                return why
    return ""


def test_the_kernel_itself_is_right_and_none_of_its_waits_depends_on_luck():
    assert verdict(TEXT) == ""
    for shape in SHAPES:
        (log,) = run(TEXT, shape, "random", 0, 1, Keep.ORDER).order
        assert log.passages and log.loose_waits() == [] and log.loose_slots() == []
        assert len(log.ordered_pairs()) > len(log.touches) >= 30


def test_every_change_is_noticed_or_redundant(capsys):
    found = [(mutant, verdict(mutant.text)) for mutant in mutants()]
    quiet = [mutant for mutant, how in found if not how]
    why = {mutant: reason(mutant.text) for mutant in quiet}
    total = Counter(mutant.kind for mutant, _ in found)
    redundant = Counter(mutant.kind for mutant in quiet)
    noticed = Counter(mutant.kind for mutant, how in found if how)
    with capsys.disabled():
        print(
            f"\nhopper pingpong: {len(found)} changes{'noticed':>18}{'redundant':>12}{'total':>8}"
        )
        for kind in total:
            counts = f"{noticed[kind]:>12}{redundant[kind]:>12}{total[kind]:>8}"
            print(f"  {kind:34}{counts}")
        for mutant in quiet:
            print(f"  line {mutant.line}: {mutant.what}: {why[mutant] or SAME}")
            print(f"    {REDUNDANT.get((mutant.kind, mutant.what), 'not explained')}")
    assert not any(why.values()), why
    assert {(mutant.kind, mutant.what) for mutant in quiet} == set(REDUNDANT)
    assert len(quiet) == len(REDUNDANT)
    assert total == EXPECTED


@pytest.mark.parametrize("ring", [{"NUM_BUFFERS_KV": 1}, {"NUM_BUFFERS_Q": 2}])
def test_the_redundant_wait_for_v_matters_with_other_rings(ring):
    """With one V slot the last product counts; with two Q slots the tile before does not."""
    text = TEXT.replace(repr(RINGS), repr(RINGS | ring))
    assert text != TEXT
    for shape in SHAPES:
        for order in ORDERS[:3]:
            assert run(text, shape, *order).ok
    lines = text.split("\n")
    first = next(n for n, line in enumerate(lines) if line.strip() == V_WAIT)
    lines[first] = lines[first].replace(V_WAIT, "pass")
    for policy in ("late", "at_once", "random"):
        outcome = run("\n".join(lines), SHAPES[0], policy, 0, 1)
        assert outcome.kind is Kind.RACE, outcome.text()
        (race,) = outcome.reports
        assert "TMA load" in (race.first.action, race.second.action)
        assert race.first.buffer.startswith("v_tiles")
