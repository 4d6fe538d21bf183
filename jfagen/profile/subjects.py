"""Which kernels a request is about: emitted files, what their hosts launch, and their schedules."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..bench.records import Dtype
from ..bench.shapes import Direction, Shape
from ..diagnostics import SourceFile
from ..driver import find_schedule, shown_path
from ..kernels import BACKWARDS, FORWARDS, kernel_name
from ..paths import data_dir
from ..semantics import check
from ..semantics.instances import instances
from ..semantics.program import Program
from ..syntax import parse
from ..toolchain import Arch
from ..toolchain.emitted import read_emitted
from .parts import Parts, Place, loops_of, parts_of

_ARCHS = {(arch.capability // 10, arch.capability % 10): arch for arch in Arch}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One emitted file and the shapes that it computes.

    Attributes:
        name: of the file, below `generated/` without suffix.
        kernel: the kernel that the schedule describes.
        launched: all kernels of one call, in the order of their launch; the host launches those
            before and after it that have no schedule.
        loops: role -> the ops of its loop.
    """

    name: str
    schedule: str
    arch: Arch
    text: str
    kernel: str
    launched: tuple[str, ...]
    shapes: tuple[Shape, ...]
    parts: Parts
    loops: dict[str, tuple[Place, ...]]


def archs_of(direction: Direction) -> tuple[Arch, ...]:
    """Return the targets that have a kernel for a direction."""
    return tuple(_ARCHS[capability] for capability in _schedules(direction))


def arch_of(capability: tuple[int, int]) -> Arch | None:
    """Return the target of a GPU; None if kernels are made for no such GPU."""
    return _ARCHS.get(capability)


def subjects_of(
    shapes: Sequence[Shape], direction: Direction, dtype: Dtype, arch: Arch
) -> tuple[tuple[Subject, ...], dict[str, str]]:
    """Return the kernels that compute the shapes, and why other shapes have none, by name."""
    capability = next(key for key, value in _ARCHS.items() if value is arch)
    schedule = _schedules(direction)[capability]
    files: dict[str, list[Shape]] = {}
    for shape in shapes:
        name = kernel_name(
            schedule,
            jagged=shape.queries is None,
            head_dim=shape.head_dim,
            dtype=str(dtype),
        )
        files.setdefault(name, []).append(shape)
    missing = {
        shape.name: f"no generated kernel `{name}` for {arch}"
        for name, those in files.items()
        if not _file(name).is_file()
        for shape in those
    }
    found = tuple(
        _subject(name, schedule, arch, tuple(those))
        for name, those in files.items()
        if _file(name).is_file()
    )
    return found, missing


def launched_by(text: str) -> tuple[str, ...]:
    """Return the kernels that an emitted file launches as `name[grid](...)`, in text order."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    names = [
        call.func.value.id
        for call in sorted(calls, key=lambda node: node.lineno)
        if isinstance(call.func, ast.Subscript) and isinstance(call.func.value, ast.Name)
    ]
    return tuple(dict.fromkeys(names))


def program_of(name: str, schedule: str) -> Program:
    """Return the checked instance of a schedule that makes the file of this name."""
    path = find_schedule(schedule)
    source = SourceFile.from_path(path, shown_path(path))
    tree = parse(source)
    suffix = name.removeprefix(schedule)
    instance = next(one for one in instances(tree) if one.suffix == suffix)
    return check(tree, source, instance)


def _subject(name: str, schedule: str, arch: Arch, shapes: tuple[Shape, ...]) -> Subject:
    text = _file(name).read_text(encoding="utf-8")
    emitted = read_emitted(text)
    program = program_of(name, schedule)
    return Subject(
        name=name,
        schedule=program.source.path,
        arch=arch,
        text=text,
        kernel=emitted.kernel,
        launched=launched_by(text),
        shapes=shapes,
        parts=parts_of(program, emitted.budget.registers),
        loops=loops_of(program),
    )


def _schedules(direction: Direction) -> dict[tuple[int, int], str]:
    return FORWARDS if direction is Direction.FORWARD else BACKWARDS


def _file(name: str) -> Path:
    return data_dir("generated") / f"{name}.py"
