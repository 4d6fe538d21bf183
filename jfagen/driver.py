"""The pipeline, once: from the text of a schedule to a proved kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from .diagnostics import CompileError, Diagnostic, Label, Note, SourceFile, near_match
from .emit import Emitted, clashes, emit
from .passes.channels import SyncPlan
from .passes.needed import Family, Illegal, needed_families
from .passes.placement import Placement, place
from .passes.sync import derive_sync
from .paths import data_dir
from .planning import Plan, make_plan
from .proof import Proof, Resources, Subject, count_resources, make_subject, prove, verdict
from .proof.witness import illegal_order
from .readback import TEXT_RULES, Finding, ReadbackError, verify_text
from .semantics import check
from .semantics.instances import Instance, instances
from .semantics.program import Program
from .syntax import ast, parse

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """Everything that is known about one schedule.

    Attributes:
        instance: which kernel of the text it is.
        seconds: pass -> wall time.
    """

    instance: Instance
    program: Program
    plan: Plan
    placement: Placement
    families: tuple[Family, ...]
    sync: SyncPlan
    subject: Subject
    proof: Proof
    resources: Resources
    kernel: Emitted
    seconds: dict[str, float]


#: Told the name of every pass before it runs; what it raises ends the compilation.
Watch = Callable[[str], None]


@dataclass(slots=True)
class _Clock:
    """Times passes by name."""

    seconds: dict[str, float] = field(default_factory=dict)
    watch: Watch | None = None

    def __call__(self, name: str, work: Callable[[], T]) -> T:
        if self.watch is not None:
            self.watch(name)
        start = time.perf_counter()
        result = work()
        self.seconds[name] = time.perf_counter() - start
        return result


def compile_source(source: SourceFile) -> Compiled:
    """Compile a schedule to the text of one proved kernel: its first instance.

    Raises:
        CompileError: with every finding of the first pass that refuses.
    """
    clock = _Clock()
    tree = clock("parse", lambda: parse(source))
    return _compile(source, tree, instances(tree)[0], clock)


def compile_instances(source: SourceFile) -> tuple[Compiled, ...]:
    """Compile every instance of a schedule; as `compile_source`."""
    return tuple(each_instance(source))


def each_instance(source: SourceFile, watch: Watch | None = None) -> Iterator[Compiled]:
    """Compile the instances of a schedule one by one; as `compile_source`."""
    clock = _Clock(watch=watch)
    tree = clock("parse", lambda: parse(source))
    for instance in instances(tree):
        yield compile_instance(source, tree, instance, clock)
        clock = _Clock(watch=watch)


def compile_instance(
    source: SourceFile, tree: ast.Schedule, instance: Instance, clock: _Clock | None = None
) -> Compiled:
    """Compile an instance; findings say which one, where it is not the text's first.

    Args:
        source: the schedule.
        tree: what it parses to.
        instance: one of the tree's.
        clock: that times the passes; a new one if None.
    """
    try:
        return _compile(source, tree, instance, clock or _Clock())
    except CompileError as error:
        if not instance.suffix:
            raise
        which = Note(message=f"in the kernel with {instance.differs}")
        raise CompileError(
            [replace(found, notes=(which, *found.notes)) for found in error.diagnostics]
        ) from None


def _compile(source: SourceFile, tree: ast.Schedule, instance: Instance, clock: _Clock) -> Compiled:
    program = clock("check", lambda: check(tree, source, instance))
    plan = clock("plan", lambda: make_plan(program))
    placement = clock("place", lambda: place(plan))
    families = clock("depend", lambda: _legal(plan, needed_families(plan, placement.layout)))
    sync = clock("sync", lambda: derive_sync(plan, placement.layout, families))
    subject = clock("realize", lambda: make_subject(plan, placement, sync))
    proof = clock("prove", lambda: prove(subject))
    resources = count_resources(program, placement, sync)
    kernel = clock("emit", lambda: emit(plan, placement, sync, resources))
    if taken := clashes(program, kernel.text):
        raise CompileError(taken)
    findings = clock("read back", lambda: _read_back(plan, placement, sync, kernel.text))
    if findings:
        raise CompileError([_text_finding(program, kernel.text, found) for found in findings])
    return Compiled(
        instance=instance,
        program=program,
        plan=plan,
        placement=placement,
        families=families,
        sync=sync,
        subject=subject,
        proof=Proof(proof.verdicts | {rule.ID: verdict(rule) for rule in TEXT_RULES}),
        resources=resources,
        kernel=kernel,
        seconds=clock.seconds,
    )


def _read_back(plan: Plan, placement: Placement, sync: SyncPlan, text: str) -> list[Finding]:
    try:
        return verify_text(plan, placement, sync, text)
    except ReadbackError as error:
        return [Finding("round-trip", (error.line,), error.message)]


def _text_finding(program: Program, text: str, found: Finding) -> Diagnostic:
    """Return a finding on the emitted text; it is ours to mend, so the text's line is shown."""
    line = found.lines[0]
    words = text.split("\n")[line - 1].strip() if line else ""
    return Diagnostic(
        id=found.rule,
        message=found.message,
        label=Label(span=program.tile.span, message="while compiling this kernel"),
        notes=(Note(message=f"line {line} of the emitted text: `{words}`"),) if line else (),
        helps=("this is a mistake of the compiler or of its templates, not of the schedule",),
    )


def _legal(plan: Plan, result: T | Illegal) -> T:
    if isinstance(result, Illegal):
        raise CompileError([illegal_order(plan, result)])
    return result


class NoSuchSchedule(Exception):
    """Neither a file nor a bundled schedule has this name.

    Attributes:
        name: as it was given.
        near: a bundled schedule that was probably meant, or None.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
        self.near = near_match(name.removesuffix(".sched"), bundled_schedules())


def bundled_schedules() -> list[str]:
    """Return the names of the schedules that come with the package."""
    root = data_dir("schedules")
    return sorted(
        path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.sched")
    )


def find_schedule(name: str) -> Path:
    """Return the file that a command line names: a path, or a bundled schedule without suffix.

    Raises:
        NoSuchSchedule: there is neither.
    """
    path = Path(name)
    if path.is_file():
        return path
    bundled = data_dir("schedules") / f"{name.removesuffix('.sched')}.sched"
    if bundled.is_file():
        return bundled
    raise NoSuchSchedule(name)


def shown_path(path: Path) -> str:
    """Return how a schedule is named in messages and headers: never with a folder of this machine.

    Below the bundled schedules it is `schedules/...`, elsewhere the file's own name.
    """
    resolved = path.resolve()
    bundled = data_dir("schedules").resolve()
    if resolved.is_relative_to(bundled):
        return f"schedules/{resolved.relative_to(bundled).as_posix()}"
    return path.name


def compile_file(path: Path) -> Compiled:
    """Compile the schedule in a file; as `compile_source`, and OSError if it cannot be read."""
    return compile_source(SourceFile.from_path(path, shown_path(path)))


def compile_all_of(path: Path) -> tuple[Compiled, ...]:
    """Compile every instance of the schedule in a file; as `compile_file`."""
    return compile_instances(SourceFile.from_path(path, shown_path(path)))


def emit_text(path: Path) -> str:
    """Return the kernel's text for a schedule: a file, or the name of a bundled one."""
    return compile_file(find_schedule(str(path))).kernel.text
