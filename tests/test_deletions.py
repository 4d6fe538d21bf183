"""Every wait and arrive of the kernels' text is needed: without it the machine objects.

The same holds for the tests' own schedules. The table is printed by the test run.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import pytest
from builders import STRANGERS, compiled

from jfagen.machine.trial import Problem, run_trial
from jfagen.readback import verify_text

#: Enough tiles and steps to wrap every ring, with scores that make the accumulator rescale.
PROBLEM = Problem(lengths=(300, 128, 517, 0, 129, 260), rising=True)
ORDERS = (("late", 0, 1), ("at_once", 0, 1), ("random", 0, 2), ("random", 1, 1), ("random", 2, 1))

STATEMENT = re.compile(
    r"tlx\.(barrier_wait|barrier_arrive|tcgen05_commit|barrier_expect_bytes"
    r"|named_barrier_wait|named_barrier_arrive)\((.*)\)$"
)
COMPLETION = re.compile(r"mBarriers=\[(.*)\],$")


@dataclass(frozen=True)
class Deletion:
    """One line of the kernel without its wait or arrive."""

    line: int
    kind: str
    barrier: str
    text: str


def deletions(text):
    """Yield every kernel that lacks one wait or one arrive."""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        bare = line.strip()
        if found := STATEMENT.match(bare):
            barrier = re.split(r"\[| \+|,", found[2])[0]
            yield changed(lines, index, found[1], barrier, line.replace(bare, "pass"))
        elif found := COMPLETION.match(bare):
            barriers = re.findall(r"\w+\[[^\]]*\]", found[1])
            for barrier in barriers:
                rest = ", ".join(other for other in barriers if other != barrier)
                new = f"mBarriers=[{rest}]," if rest else "force_async=True,"
                yield changed(
                    lines, index, "commit", barrier.split("[")[0], line.replace(bare, new)
                )


def changed(lines, index, kind, barrier, line):
    text = "\n".join([*lines[:index], line, *lines[index + 1 :]])
    return Deletion(line=index + 1, kind=kind, barrier=barrier, text=text)


def verdict(text, problem=PROBLEM):
    """Return how the machine objects, or None if no order shows anything."""
    for policy, seed, sms in ORDERS:
        result = run_trial(text, problem, policy=policy, seed=seed, sms=sms)
        if not result.outcome.ok:
            return str(result.outcome.kind)
        if not result.right:
            return "wrong result"
    return None


#: Query rows of several steps, the last one not full, for blocks of keys with and without a mask.
GRADIENTS = Problem(lengths=(300, 128, 129, 0, 1), queries=200, heads=1)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("fwd", PROBLEM), ("bwd", GRADIENTS), *((name, PROBLEM) for name in STRANGERS)],
)
def test_every_deleted_wait_or_arrive_is_noticed(name, problem, capsys):
    text = compiled(name).kernel.text
    assert verdict(text, problem) is None
    found = [(deletion, verdict(deletion.text, problem)) for deletion in deletions(text)]
    with capsys.disabled():
        print(f"\n{name}: {len(found)} deletions")
        for deletion, how in found:
            print(f"  {deletion.line:4} {deletion.kind:20} {deletion.barrier:28} {how}")
    named = {deletion.barrier for deletion, _ in found}
    meetings = {name for name in re.findall(r"^(\w+_BARRIER) = ", text, re.M)}
    assert named == {channel.name for channel in compiled(name).sync.channels} | meetings
    assert [deletion for deletion, how in found if how is None] == []


def test_every_deletion_on_hopper_is_noticed_but_the_wait_after_the_last_tile(capsys):
    """That wait takes in a turn that nobody passes on any more; the round trip misses it."""
    one = compiled("hopper/fwd")
    text = one.kernel.text
    # Steps without a mask at the end of a sequence: there the last lap gives back q.
    problem = Problem(lengths=(*PROBLEM.lengths, 384), rising=True)
    assert verdict(text, problem) is None
    found = [(deletion, verdict(deletion.text, problem)) for deletion in deletions(text)]
    with capsys.disabled():
        print(f"\nhopper/fwd: {len(found)} deletions, {dict(Counter(how for _, how in found))}")
    named = {deletion.barrier for deletion, _ in found}
    channels = {channel.name for channel in one.sync.channels}
    assert named == {*channels, "TURN_BARRIER"}
    (unnoticed,) = [deletion for deletion, how in found if how is None]
    waits = [d for d, _ in found if d.kind == "named_barrier_wait"]
    assert unnoticed == waits[-1]
    assert verify_text(one.plan, one.placement, one.sync, unnoticed.text), "the text has to agree"


#: Tiles of four steps, of one and of two.
STEPS = tuple(
    Problem(lengths=GRADIENTS.lengths, queries=queries, heads=1) for queries in (200, 60, 128)
)


def first_verdict(text):
    """Return how the machine objects to the first problem that shows anything."""
    return next(filter(None, (verdict(text, problem) for problem in STEPS)), None)


def test_every_deletion_in_hopper_s_backward_is_noticed_but_two_that_k_implies(capsys):
    """A tile's first write of dS waits for slots that both consumers had read when k was loaded."""
    one = compiled("hopper/bwd")
    text = one.kernel.text
    assert first_verdict(text) is None
    found = [(deletion, first_verdict(deletion.text)) for deletion in deletions(text)]
    with capsys.disabled():
        print(f"\nhopper/bwd: {len(found)} deletions, {dict(Counter(how for _, how in found))}")
    assert {deletion.barrier for deletion, _ in found} == {c.name for c in one.sync.channels}
    waits = [d for d, _ in found if (d.kind, d.barrier) == ("barrier_wait", "ds_empty")]
    unnoticed = [deletion for deletion, how in found if how is None]
    # Where a tile has only one step, and where it has more.
    assert unnoticed == waits[:2]
    for deletion in unnoticed:
        assert verify_text(one.plan, one.placement, one.sync, deletion.text)
