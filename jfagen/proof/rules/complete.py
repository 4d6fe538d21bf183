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

from dataclasses import dataclass, replace

from ...algorithm import Mode, Op
from ...diagnostics import Diagnostic, Label, Note, quoted
from ...passes.dependences import find_dependences, sequential_key
from ...passes.needed import Illegal
from ...planning import tile_moves
from ...semantics.program import OpUse, Program, RoleProgram
from ..refit import legal_placement
from ..subject import Subject
from ..witness import illegal_order

ID = "complete"
PROVES = "every op placed once, every value written before it is read, every output written"

#: Steps of a tile in which every distance between two ops of a loop has shown itself.
MOST_STEPS = 3


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
    if not any(op.closes_empty_tiles for op in placed):
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
        found += _out_of_order(subject.plan.program, role_program)
        found += _still_flying(subject.plan.program, role_program)
    return found


def _out_of_order(program: Program, role_program: RoleProgram) -> list[Diagnostic]:
    """A value in registers is what the sequential program has there, whenever it is used."""
    steps = MOST_STEPS + max((abs(use.offset) for use in role_program.loop), default=0)
    places = sequential_key(program.algorithm)
    moves = [(move.use, move.step) for move in tile_moves(program, role_program, steps)]

    def in_sequence(move: tuple[OpUse, int]) -> tuple[int, int, int]:
        phase, index = places[move[0].op.name]
        return (phase, move[1], index)

    wanted = _makers(program, sorted(moves, key=in_sequence))
    real = _makers(program, moves)
    for use, step in moves:
        for value in dict.fromkeys(access.value for access in use.op.accesses()):
            read = (id(use), step, value)
            if wanted.get(read) != real.get(read):
                strange = _Strange(use, step, value, wanted.get(read), real.get(read))
                return [_strange(program, role_program, strange)]  # the others follow from it
    return []


def _still_flying(program: Program, role_program: RoleProgram) -> list[Diagnostic]:
    """A matmul with its result in registers is waited for in the lap that issues it."""
    if not any(program.joins(use.op) for use in role_program.loop):
        return []
    _, *middle, _ = tile_moves(program, role_program, MOST_STEPS + 1).laps.values()
    flying: dict[int, OpUse] = {}
    for moves in middle:
        joined = {(id(join.use), join.step) for move in moves for join in move.joins}
        for move in moves:
            if program.joins(move.use.op) and (id(move.use), move.step) not in joined:
                flying.setdefault(id(move.use), move.use)
    symbol = program.loop_symbol
    return [
        Diagnostic(
            id="not-built",
            message=f"`{use.op.name}` is still in flight when its lap ends, which is not built "
            "yet: the toolchain dies of registers that a matmul owns from lap to lap",
            label=Label(span=use.span),
            helps=(
                f"let it run a step later, before the op that uses its result: "
                f"`{use.at(symbol, use.offset - 1)}`",
            ),
        )
        for use in flying.values()
    ]


def _makers(
    program: Program, moves: list[tuple[OpUse, int]]
) -> dict[tuple[int, int, str], tuple[str, int] | None]:
    """Return for every read of a register value: the op and step that wrote it last."""
    last: dict[str, tuple[str, int]] = {}
    found: dict[tuple[int, int, str], tuple[str, int] | None] = {}
    for use, step in moves:
        touched = [a for a in use.op.accesses() if a.value in program.registers_of(use.op)]
        for access in touched:
            overwrites = access.mode is Mode.UPDATE and step < access.first_read
            if access.mode is not Mode.WRITE and not overwrites:
                found[id(use), step, access.value] = last.get(access.value)
        for access in touched:
            if access.mode is not Mode.READ and step >= access.first_step - (step < 0):
                last[access.value] = (use.op.name, step)
    return found


@dataclass(frozen=True, slots=True)
class _Strange:
    """A use that finds another value in registers than in the sequential program.

    Attributes:
        wanted: the op and the step that should have written it last; None for nobody.
        real: who did.
    """

    use: OpUse
    step: int
    value: str
    wanted: tuple[str, int] | None
    real: tuple[str, int] | None

    @property
    def late(self) -> bool:
        """Whether the value has been overwritten; else it is not there yet."""
        return self.real is not None and (self.wanted is None or self.real[1] > self.wanted[1])

    @property
    def maker(self) -> tuple[str, int]:
        """The op and the step that are on the wrong side of the use."""
        maker = self.real if self.late else self.wanted
        assert maker is not None, "one of the two differs from the other"
        return maker


def _strange(program: Program, role_program: RoleProgram, found: _Strange) -> Diagnostic:
    use, (maker, step) = found.use, found.maker
    if step < 0:
        which = "the tile"
    elif found.late:
        which = "a later step"
    else:
        which = "the same step" if step == found.step else "the step before"
    mended = _mended(program, role_program, found)
    return Diagnostic(
        id="incomplete",
        message=f"`{use.op.name}` uses `{found.value}` from registers "
        f"{'after' if found.late else 'before'} `{maker}` has written it for {which}",
        label=Label(span=use.span),
        notes=(
            Note(
                message=f"`{found.value}` is in registers",
                label=Label(span=program.holder(found.value).span),
            ),
        ),
        helps=(mended or f"place it {'before' if found.late else 'after'} `{maker}`",),
    )


def _mended(program: Program, role_program: RoleProgram, found: _Strange) -> str:
    """Return the advice to place a use beside its maker, if that was tried and is legal."""
    use, where = found.use, "before" if found.late else "after"
    for uses in (role_program.loop, role_program.after):
        makers = [other for other in uses if other.op.name == found.maker[0]]
        if use not in uses or len(makers) != 1 or makers[0] is use:
            continue
        rest = [other for other in uses if other is not use]
        rest.insert(rest.index(makers[0]) + (not found.late), replace(use, turn=makers[0].turn))
        if uses is role_program.loop:
            better = replace(role_program, loop=tuple(rest))
        else:
            better = replace(role_program, after=tuple(rest))
        programs = tuple(better if p is role_program else p for p in program.role_programs)
        changed = replace(program, role_programs=programs)
        if _out_of_order(changed, better) or _still_flying(changed, better):
            continue
        if legal_placement(changed) is not None:
            return f"place `{use.span.text}` {where} `{makers[0].span.text}`"
    return ""


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
        helps=tuple(f"place it in the role `{keeper}`" for keeper, _ in keepers[:1]),
    )


def _values(subject: Subject) -> list[Diagnostic]:
    longest = max(subject.realized, key=lambda realized: sum(realized.unrolled.trips))
    for unrolled in (longest.unrolled,):
        dependences = find_dependences(subject.plan, unrolled, subject.placement.layout)
        if dependences.clobbers:
            return [illegal_order(subject.plan, Illegal(unrolled, (), (), dependences.clobbers))]
    return []
