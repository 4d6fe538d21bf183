"""complete: every op placed, every value written before it is read, every output written.

What: every op of the algorithm stands in exactly one role; a value in registers is kept by an
earlier op of the same role; in the sequential program every read finds the value of its own use;
every output is written, also for a tile without steps.

Why: a kernel that forgets an output or reads what another value has overwritten runs to its end
and is wrong.

Example: `region r { acc over row_sum }` - row_sum is written while acc still accumulates, so finish
would read it in acc's place.

Fix: place the missing op; keep buffers apart that are alive together.

Assumes: the table of ops says truly what each op touches; the round trip holds the text to it.
"""

from __future__ import annotations

from ...algorithm import Op
from ...diagnostics import Diagnostic, Label, Note, moved, quoted
from ...passes.dependences import find_dependences
from ...passes.needed import Illegal
from ...semantics.program import OpUse, Program, RoleProgram
from ..register_order import find_strange, mended
from ..subject import Subject
from ..witness import illegal_order

ID = "complete"
PROVES = "every op placed once, every value written before it is read, every output written"


def check(subject: Subject) -> list[Diagnostic]:
    """Return what is missing."""
    program = subject.plan.program
    placed = [use.op for rp in program.role_programs for use in rp.uses()]
    return [*_outputs(subject, placed), *_registers(subject), *_values(subject)]


def _outputs(subject: Subject, placed: list[Op]) -> list[Diagnostic]:
    program = subject.plan.program
    found: list[Diagnostic] = []
    for output in program.algorithm.outputs:
        if not any(output in op.outputs for op in placed):
            found.append(_at_top(subject, f"nothing writes the output `{output}`"))
    if not any(op.fills for op in placed):
        found.append(_at_top(subject, "nothing writes the outputs of a tile without steps"))
    return found


def _at_top(subject: Subject, message: str) -> Diagnostic:
    return Diagnostic(
        id="incomplete", message=message, label=Label(span=subject.plan.program.tile.span)
    )


def _registers(subject: Subject) -> list[Diagnostic]:
    """Values in registers must be left by an earlier op of the same role."""
    found: list[Diagnostic] = []
    for role_program in subject.plan.program.role_programs:
        kept: set[str] = set()
        for use in role_program.uses():
            lacking = [value for value in use.op.takes if value not in kept]
            if lacking:
                found.append(_not_kept(subject, use, role_program.role.name, lacking))
            kept |= set(use.op.keeps)
        program = subject.plan.program
        found += _out_of_order(program, role_program)
    return found


def _out_of_order(program: Program, role_program: RoleProgram) -> list[Diagnostic]:
    """A value in registers is what the sequential program has there, whenever it is used."""
    found = find_strange(program, role_program)
    if found is None:
        return []
    use, (maker, step) = found.use, found.maker
    if step < 0:
        which = "the tile"
    elif found.late:
        which = "a later step"
    else:
        which = "the same step" if step == found.step else "the step before"
    side = "after" if found.late else "before"
    advice = mended(program, role_program, found)
    return [
        Diagnostic(
            id="incomplete",
            message=f"`{use.op.name}` uses `{found.value}` from registers {side} `{maker}` has "
            f"written it for {which}",
            label=Label(span=use.span),
            notes=(
                Note(
                    message=f"`{found.value}` is in registers",
                    label=Label(span=program.holder(found.value).span),
                ),
            ),
            helps=(advice or f"place it {'before' if found.late else 'after'} `{maker}`",),
        )
    ]


def _not_kept(subject: Subject, use: OpUse, role: str, lacking: list[str]) -> Diagnostic:
    keepers = [
        (program.role.name, other)
        for program in subject.plan.program.role_programs
        for other in program.uses()
        if set(lacking) & set(other.op.keeps)
    ]
    return Diagnostic(
        id="incomplete",
        message=f"`{use.op.name}` takes {quoted(lacking, 'and')} from registers, which no earlier "
        f"op of `{role}` keeps",
        label=Label(span=use.span),
        notes=tuple(
            Note(message=f"`{keeper}` keeps them", label=Label(span=other.span))
            for keeper, other in keepers
        ),
        helps=tuple(
            moved(f"place `{other.span.text}` before it", other.whole, use.whole, before=True)
            if keeper == role
            else f"place it in the role `{keeper}`"
            for keeper, other in keepers[:1]
        ),
    )


def _values(subject: Subject) -> list[Diagnostic]:
    longest = max(subject.realized, key=lambda realized: sum(realized.unrolled.trips))
    for unrolled in (longest.unrolled,):
        dependences = find_dependences(subject.plan, unrolled, subject.placement.layout)
        if dependences.clobbers:
            return [illegal_order(subject.plan, Illegal(unrolled, (), (), dependences.clobbers))]
    return []
