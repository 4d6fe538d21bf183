"""Both verdicts on a random schedule: the prover's, and that of brute force on the emitted text.

A refused schedule has no kernel. Here it gets the one that it would have: the passes run in spite
of the refusal, with a barrier for every dependence that program order alone does not keep.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product

from brute_force import Trouble, examine

from jfagen.algorithm import Engine, Mode
from jfagen.diagnostics import CompileError, SourceFile
from jfagen.driver import Compiled, compile_source
from jfagen.emit import emit
from jfagen.graph.closure import close
from jfagen.passes.channels import Channel, SyncPlan, When
from jfagen.passes.dependences import Dependence, find_dependences
from jfagen.passes.needed import Family, steady_steps, trip_counts
from jfagen.passes.placement import Placement, place
from jfagen.passes.sync import derive_sync
from jfagen.planning import Plan, make_plan, unroll
from jfagen.proof import count_resources, make_subject
from jfagen.proof.rules import live, parity, race
from jfagen.readback import ReadbackError
from jfagen.readback.compare import differences
from jfagen.readback.kernel_text import KernelText, parse_kernel
from jfagen.readback.order import order_of
from jfagen.readback.verify import judge, text_sequences, tile_walk
from jfagen.semantics import check
from jfagen.syntax import parse

#: Refusals that say that a kernel would hang or read what is not there.
PROVED_WRONG = frozenset(
    {"order-cycle", "deadlock", "race", "parity", "overlap-live", "shallow-ring", "never-written"}
)
#: Refusals of a schedule that is too large or needs what is not built: rings freed unevenly.
TOO_LARGE = frozenset(
    {"uneven-ring", "tmem-overflow", "smem-overflow", "register-overflow", "thread-overflow"}
)
MOST_STEPS = 8
PAIRED = (0, 1, 2, 3, 5, 8)
SHORT = ((1, 1, 1), (2, 1, 1), (1, 0, 1), (3, 0, 3))
#: One in so many accepted schedules is also run with a barrier for every dependence.
CALIBRATED = 5


@dataclass(slots=True)
class Verdict:
    """What the prover says of one schedule, and its kernel.

    `refused` is the id of the refusal, empty if the schedule is accepted.
    """

    text: str
    refused: str = ""
    kernel: str = ""
    compiled: Compiled | None = None


def prover_verdict(text: str) -> Verdict:
    """Compile a schedule; a refused one gets the kernel that it would have."""
    source = SourceFile(path="random.sched", text=text)
    try:
        compiled = compile_source(source)
    except CompileError as error:
        refused = error.diagnostics[0].id
        kernel = forced_kernel(source) if refused in PROVED_WRONG else ""
        return Verdict(text, refused, kernel)
    except ReadbackError as error:
        return Verdict(text, f"crash: {error.message}")
    return Verdict(text, "", compiled.kernel.text, compiled)


def forced_kernel(source: SourceFile) -> str:
    """Return the kernel of a schedule with a barrier for every dependence."""
    program = check(parse(source), source)
    plan = make_plan(program)
    placement = place(plan)
    sync = derive_sync(plan, placement.layout, every_family(plan, placement))
    named = (replace(channel, name=channel.name.replace("-", "no")) for channel in sync.channels)
    sync = replace(sync, channels=tuple(named))
    return emit(plan, placement, sync, count_resources(program, placement, sync)).text


def every_family(plan: Plan, placement: Placement) -> tuple[Family, ...]:
    """Return every dependence that program order alone does not keep."""
    families: dict[object, Family] = {}
    for trips in trip_counts(plan):
        unrolled = unroll(plan, trips)
        order = close(len(unrolled.events), unrolled.order)
        assert order is not None
        for found in find_dependences(plan, unrolled, placement.layout).found:
            if order.ordered(*found.edge) or not is_spelled(plan, found):
                continue
            (first, tile, step), (second, later_tile, later_step) = found.first, found.second
            family = families.setdefault((first, second), Family(first, second))
            earlier, later = found.earlier, found.later
            family.pairs[earlier.buffer, earlier.value, later.buffer, later.value] = None
            family.tiles.add(later_tile - tile)
            if tile == later_tile:
                family.steps.add(later_step - step)
    return tuple(sorted(families.values(), key=lambda family: (family.first, family.second)))


def is_spelled(plan: Plan, found: Dependence) -> bool:
    """Whether a text can have a barrier for a dependence.

    A load only arrives where its value is read; another write after it follows that read anyhow.
    """
    reads = found.later.mode is not Mode.WRITE and found.later.value == found.earlier.value
    return plan.engine(found.first[0]) is not Engine.LOAD or reads


# ---- Changes of a proved kernel ------------------------------------------------------------------


def changed_sync(sync: SyncPlan, choose: random.Random) -> tuple[str, SyncPlan]:
    """Return the channels with one random change of one of them, and its name."""
    channels = list(sync.channels)
    index = choose.randrange(len(channels))
    channel = channels[index]
    name, changed = choose.choice(list(changes(channel, choose)))
    channels[index : index + 1] = [changed] if changed is not None else []
    return f"{name} of {channel.name}", replace(sync, channels=tuple(channels))


def changes(channel: Channel, choose: random.Random) -> list[tuple[str, Channel | None]]:
    """Return every kind of change that alters a channel."""
    found: list[tuple[str, Channel | None]] = [("loss", None)]
    for what, ends in (("waits", channel.waits), ("signals", channel.signals)):
        index = choose.randrange(len(ends))
        found.append((f"{what} lost", replace(channel, **{what: ends[:index] + ends[index + 1 :]})))
        turned = {When.FIRST: When.LAST, When.LAST: When.FIRST}
        if ends[index].when in turned:
            other = replace(ends[index], when=turned[ends[index].when])
            new = (*ends[:index], other, *ends[index + 1 :])
            found.append((f"{what} moved", replace(channel, **{what: new})))
    if channel.lag:
        found.append(("lag lost", replace(channel, lag=0)))
        found.append(("slot more", replace(channel, slots=channel.slots + 1, lag=channel.lag + 1)))
        if channel.lag > 1:
            less = replace(channel, slots=channel.slots - 1, lag=channel.lag - 1)
            found.append(("slot less", less))
    else:
        found.append(("lag added", replace(channel, lag=channel.slots)))
        found.append(("slot more", replace(channel, slots=channel.slots + 1)))
        if channel.slots > 1:
            found.append(("slot less", replace(channel, slots=channel.slots - 1)))
    found.append(("arrival more", replace(channel, arrivals=channel.arrivals + 1)))
    if channel.arrivals > 1:
        found.append(("arrival less", replace(channel, arrivals=channel.arrivals - 1)))
    return found


@dataclass(slots=True)
class Changed:
    """A kernel with a changed channel, and what the prover's two halves say of it.

    `rules` are ids of the rules on plan and channels, None where the text is not that plan's;
    `findings` are ids of the rules on the text alone.
    """

    what: str
    kernel: str
    rules: frozenset[str] | None
    findings: frozenset[str]


def changed_kernel(compiled: Compiled, choose: random.Random) -> Changed | None:
    """Return a proved kernel with one change; None if the change has no text."""
    plan, placement = compiled.plan, compiled.placement
    what, sync = changed_sync(compiled.sync, choose)
    try:
        text = emit(plan, placement, sync, count_resources(compiled.program, placement, sync)).text
        kernel = parsed(text)
        findings = text_findings(kernel, text)
    except (ReadbackError, IndexError, KeyError, ValueError, TypeError):
        return None
    rules = None
    if is_plan(kernel, plan, placement, sync):
        subject = make_subject(plan, placement, sync)
        rules = frozenset(d.id for rule in (live, parity, race) for d in rule.check(subject))
    return Changed(what, text, rules, findings)


@lru_cache(maxsize=4)
def parsed(text: str) -> KernelText:
    """Return a kernel's text ready to be traced."""
    return parse_kernel(text)


def text_findings(kernel: KernelText, text: str) -> frozenset[str]:
    """Return what `prove_text` finds; the walk over tiles is left out, no channel alters it."""
    for trips, full in text_sequences(kernel, tile_walk(text)):
        found = judge(order_of(kernel.trace(trips, full=full)))
        if found:
            return frozenset(finding.rule for finding in found)
    return frozenset()


def is_plan(kernel: KernelText, plan: Plan, placement: Placement, sync: SyncPlan) -> bool:
    """Whether a text does what changed channels say: not all changes can be spelled."""
    try:
        return not differences(plan, placement, sync, kernel.trace((steady_steps(plan),)))
    except (ReadbackError, IndexError, KeyError, ValueError):
        return False


# ---- Brute force ---------------------------------------------------------------------------------


def vectors(persistent: bool, seed: int, pairs: int, triples: int) -> list[tuple[int, ...]]:
    """Return tile sequences: every single tile, short ones that turn rings of tiles round, and as
    many random pairs and triples as asked.
    """
    singles = [(steps,) for steps in (1, 3, 8, 2, 5, 0, 4, 6, 7)]
    if not persistent:
        return singles
    choose = random.Random(seed)
    two = list(product(PAIRED, repeat=2))
    three = list(product(range(MOST_STEPS + 1), repeat=3))
    chosen = choose.sample(two, min(pairs, len(two))) + choose.sample(three, triples)
    return [*singles[:3], *SHORT, *singles[3:], *chosen]


def brute_verdict(text: str, seed: int, pairs: int, triples: int) -> Trouble | None:
    """Return what brute force finds in a kernel's text, or None."""
    kernel = parsed(text)
    persistent = "tl.num_programs" in text or "tlx.clc_consumer" in text
    return examine(kernel, vectors(persistent, seed, pairs, triples), seed)


@dataclass(slots=True)
class Tally:
    """What was compared, and where the two disagreed."""

    counts: Counter = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)

    def disagree(self, kind: str, text: str, words: object) -> None:
        """Remember a disagreement."""
        self.counts["disagreements"] += 1
        self.disagreements.append(f"{kind}: {words}\n{text}")

    def lines(self) -> str:
        """Return the counts, one a line."""
        return "\n".join(f"  {count:6} {name}" for name, count in sorted(self.counts.items()))


def compare(text: str, tally: Tally, seed: int, pairs: int = 6, triples: int = 4) -> Verdict:
    """Compare both verdicts on a schedule, and on a change of its kernel if it is accepted."""
    tally.counts["schedules"] += 1
    verdict = prover_verdict(text)
    if verdict.refused and verdict.refused not in PROVED_WRONG:
        kind = "too large" if verdict.refused in TOO_LARGE else "refused by the checker"
        if verdict.refused == "round-trip" or verdict.refused.startswith("crash"):
            kind = "mistakes of the compiler"
            tally.disagree("the compiler cannot emit it", text, verdict.refused)
        tally.counts[kind] += 1
        return verdict
    tally.counts["accepted" if not verdict.refused else f"refused: {verdict.refused}"] += 1
    try:
        trouble = brute_verdict(verdict.kernel, seed, pairs, triples)
    except ReadbackError as error:
        assert verdict.refused, error.message
        tally.counts["refused, without a text"] += 1
        return verdict
    tally.counts["texts"] += 1
    if trouble is not None:
        tally.counts["texts that fail"] += 1
        tally.counts[f"texts that fail: {trouble.kind}"] += 1
    if (trouble is None) is bool(verdict.refused):
        tally.disagree(verdict.refused or "accepted", text, trouble)
        return verdict
    if verdict.compiled is not None:
        compare_change(verdict, tally, seed, pairs, triples)
        if not seed % CALIBRATED:
            calibrate(text, tally, seed)
    return verdict


def calibrate(text: str, tally: Tally, seed: int) -> None:
    """See that the barriers that refused schedules are given do not make an accepted one hang."""
    source = SourceFile(path="random.sched", text=text)
    trouble = brute_verdict(forced_kernel(source), seed, 4, 2)
    tally.counts["accepted, again with a barrier for every dependence"] += 1
    if trouble is not None:
        tally.disagree("accepted, but not with a barrier for every dependence", text, trouble)


def compare_change(verdict: Verdict, tally: Tally, seed: int, pairs: int, triples: int) -> None:
    """Compare both verdicts on an accepted kernel with one change."""
    assert verdict.compiled is not None
    changed = changed_kernel(verdict.compiled, random.Random(seed))
    if changed is None:
        tally.counts["changes without a text"] += 1
        return
    tally.counts["changed kernels"] += 1
    tally.counts["texts"] += 1
    trouble = brute_verdict(changed.kernel, seed, pairs, triples)
    if trouble is not None:
        tally.counts["texts that fail"] += 1
        tally.counts[f"texts that fail: {trouble.kind}"] += 1
    if (trouble is None) is bool(changed.findings):
        words = f"{changed.what}: text rules {sorted(changed.findings)}, brute force {trouble}"
        tally.disagree("changed kernel", verdict.text, words)
    if changed.rules is None:
        tally.counts["changes that the plan cannot say"] += 1
    elif trouble is None and changed.rules == {"parity"} and changed.what.startswith("slot "):
        tally.counts["barriers with other slots than their ring, refused on purpose"] += 1
    elif (trouble is None) is bool(changed.rules):
        words = f"{changed.what}: plan rules {sorted(changed.rules)}, brute force {trouble}"
        tally.disagree("changed plan", verdict.text, words)
