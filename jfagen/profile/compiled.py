"""Figures of the machine code: spills, registers, SMEM, and the instructions of hot loops."""

from __future__ import annotations

from collections import Counter

from ..toolchain import Compiled
from ..toolchain.figures import Family
from ..toolchain.records import LoopFigures
from .parts import Part, Place
from .records import Block, How, Row
from .subjects import Subject

_SPILLS = (Family.LDL, Family.STL)


def compiled_block(subject: Subject, compiled: Compiled) -> Block:
    """Return the figures of a kernel that was compiled, nothing of which was run."""
    spilling = _spilling(subject, compiled)
    registers = subject.parts[Part.REGISTERS]
    spills, resources = compiled.spills, compiled.resources
    rows = [
        _row("spill_bytes_stored", "spills stored, bytes a thread", spills.store_bytes, spilling),
        _row("spill_bytes_loaded", "spills loaded, bytes a thread", spills.load_bytes, spilling),
        _row(
            "registers_at_launch",
            "registers a thread at launch",
            resources.registers_per_thread,
            registers,
        ),
        _row("smem_bytes", "SMEM, bytes", resources.smem_bytes, subject.parts[Part.BUFFERS]),
        *_loop_rows(subject, compiled.loops),
    ]
    return Block(
        kernel=subject.kernel,
        file=subject.name,
        schedule=subject.schedule,
        arch=subject.arch,
        how=How.COMPILED,
        scheduled=True,
        rows=tuple(rows),
    )


def _row(key: str, words: str, value: int, points: tuple[Place, ...]) -> Row:
    return Row(key=key, words=words, values={"": float(value)}, points=points, digits=0)


def _spilling(subject: Subject, compiled: Compiled) -> tuple[Place, ...]:
    """Return the roles whose loops spill; where none does, all that execute ops."""
    guilty = {
        loop.role
        for loop in compiled.loops
        if any(loop.counts.get(family, 0) for family in _SPILLS)
    }
    registers = subject.parts[Part.REGISTERS]
    return tuple(place for place in registers if place.owner in guilty) or registers


def _loop_rows(subject: Subject, loops: tuple[LoopFigures, ...]) -> list[Row]:
    """Return a row for every hot loop; those of one role are numbered, as the text has them."""
    seen: Counter[str] = Counter()
    rows = []
    for loop in loops:
        if not loop.innermost or loop.role is None:
            continue
        seen[loop.role] += 1
        rows.append(
            _row(
                f"loop_{loop.role}_{seen[loop.role]}",
                f"loop {seen[loop.role]} of {loop.role}, instructions a lap",
                loop.instructions,
                subject.loops.get(loop.role, ()),
            )
        )
    return rows
