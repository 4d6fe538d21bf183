"""Every arrive, wait and phase of a public kernel matters to the machine, or provably not at all.

Each is deleted or flipped alone in a copy of the text. What no order shows has to be redundant: the
same accesses are ordered as in the original, and no wait depends on luck. The table is printed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from test_machine_public_kernels import KERNELS, attention, kernel_text, tensors

from jfagen.machine import simulate
from jfagen.machine.loader import Keep
from jfagen.machine.order_log import OrderLog, difference

TEXT = kernel_text(*KERNELS["ws"])
#: Six tiles of six steps: twelve loads fill the ring of three slots four times.
ROWS = 768
ORDERS = (("late", 0, 1), ("at_once", 0, 1), ("random", 0, 2), ("random", 1, 1), ("random", 2, 1))

STATEMENT = re.compile(r"tlx\.(barrier_arrive|barrier_expect_bytes|tcgen05_commit)\(.*\)")
COMPLETION = re.compile(r"mBarriers=\[(.*)\],$")
WAIT = re.compile(r"tlx\.barrier_wait\((.*), ([^,]+)\)$")


@dataclass(frozen=True)
class Mutant:
    """The kernel with one line changed."""

    line: int
    kind: str
    what: str
    text: str


def mutants():
    """Yield the kernel function with one arrive, commit or wait deleted, or one phase flipped."""
    lines = TEXT.split("\n")
    first = lines.index(next(line for line in lines if line.startswith("def _attn_fwd_ws")))
    last = next(n for n in range(first + 1, len(lines)) if lines[n].startswith("class "))
    for index in range(first, last):
        for kind, what, old, new in changes(lines[index].strip()):
            changed = [*lines[:index], lines[index].replace(old, new), *lines[index + 1 :]]
            yield Mutant(line=index + 1, kind=kind, what=what, text="\n".join(changed))


def changes(line):
    if found := STATEMENT.match(line):
        yield f"{found[1]} deleted", found[0], found[0], "pass"
    elif found := COMPLETION.match(line):
        barriers = re.findall(r"\w+\[[^\]]*\]", found[1])
        for barrier in barriers:
            rest = ", ".join(other for other in barriers if other != barrier)
            new = f"mBarriers=[{rest}]," if rest else "force_async=True,"
            yield "barrier of an MMA deleted", barrier, line, new
    elif found := WAIT.match(line):
        yield "phase flipped", found[0], found[0], f"tlx.barrier_wait({found[1]}, ({found[2]}) ^ 1)"
        yield "barrier_wait deleted", found[0], found[0], "pass"


@cache
def problem():
    q, k, v = tensors(3, ROWS)
    out, lse = attention(q.double(), k.double(), v.double(), False)
    return {"q": q, "k": k, "v": v, "stage": 0}, (out.numpy(), lse.numpy())


def run(text, policy, seed, sms, keep=Keep.NOTHING):
    return simulate(text, inputs=problem()[0], sms=sms, seed=seed, policy=policy, keep=keep)


def verdict(text):
    """Return how the machine objects, or None if no order shows anything."""
    for order in ORDERS:
        outcome = run(text, *order)
        if not outcome.ok:
            return str(outcome.kind)
        pairs = zip(outcome.outputs, problem()[1], strict=True)
        if not all(np.allclose(given, exact, atol=2e-3) for given, exact in pairs):
            return "wrong result"
    return None


def reason(text):
    """Return why a text orders otherwise than the original, or an empty text."""
    for policy, seed in (("late", 0), ("random", 1)):
        logs = [run(other, policy, seed, 1, Keep.ORDER).order for other in (TEXT, text)]
        if why := difference(*logs):
            return why
    return ""


def test_the_kernel_itself_is_right_and_none_of_its_waits_depends_on_luck():
    assert verdict(TEXT) is None
    (log,) = run(TEXT, "random", 0, 1, Keep.ORDER).order
    assert log.passages and log.loose_waits() == [] and log.loose_slots() == []
    assert len(log.ordered_pairs()) > len(log.touches) > 100


def test_every_change_is_noticed_or_redundant(capsys):
    found = [(mutant, verdict(mutant.text)) for mutant in mutants()]
    quiet = [mutant for mutant, how in found if how is None]
    why = {mutant: reason(mutant.text) for mutant in quiet}
    total = Counter(mutant.kind for mutant, _ in found)
    redundant = Counter(mutant.kind for mutant in quiet if not why[mutant])
    noticed = Counter(mutant.kind for mutant, how in found if how is not None)
    with capsys.disabled():
        print(
            f"\nblackwell_fa_ws: {len(found)} changes{'noticed':>18}{'redundant':>12}{'total':>8}"
        )
        for kind in total:
            counts = f"{noticed[kind]:>12}{redundant[kind]:>12}{total[kind]:>8}"
            print(f"  {kind:34}{counts}")
        for mutant in quiet:
            print(f"  line {mutant.line}: {mutant.what}: {why[mutant] or SAME}")
    assert not any(why.values()), why
    assert noticed + redundant == total
    assert {mutant.kind for mutant in quiet} <= {"barrier_wait deleted"}
    assert total == EXPECTED


SAME = "redundant: all conflicting accesses are ordered as before, every phase is exact"
EXPECTED = {
    "barrier_arrive deleted": 5,
    "barrier_expect_bytes deleted": 3,
    "barrier of an MMA deleted": 6,
    "phase flipped": 12,
    "barrier_wait deleted": 12,
}


def test_what_orders_otherwise_is_not_called_redundant():
    (log,) = run(TEXT, "late", 0, 1, Keep.ORDER).order
    fewer = [touch for touch in log.touches if touch.name[3] != 1]
    broken = OrderLog(touches=fewer, passages=log.passages)
    assert "is ordered in one of both only" in difference((log,), (broken,))
    early = [replace(passage, before=0) for passage in log.passages]
    assert "is not exact" in difference((log,), (OrderLog(touches=log.touches, passages=early),))
    late = [replace(passage, number=10**6) for passage in log.passages]
    assert "is not exact" in difference((log,), (OrderLog(touches=log.touches, passages=late),))
    slot = next(slot for slot in log.slots if slot.completed > 1)
    hasty = replace(slot, arrivals=[*slot.arrivals, (1, 0)])
    twice = OrderLog(touches=log.touches, passages=log.passages, slots=[hasty])
    assert "may count to an earlier phase" in difference((log,), (twice,))
