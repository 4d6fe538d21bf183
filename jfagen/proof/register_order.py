"""The order of ops on values in registers: what is wrong with it, and a change that was tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..algorithm import Mode
from ..diagnostics import moved, write
from ..passes.dependences import sequential_key
from ..planning import tile_moves
from ..semantics.program import OpUse, Program, RoleProgram
from .refit import legal_placement

#: Steps of a tile in which every distance between two ops of a loop has shown itself.
MOST_STEPS = 3

#: The op and the step that wrote a value last; None for nobody.
_Maker = tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class Strange:
    """A use that finds another value in registers than in the sequential program.

    Attributes:
        wanted: who should have written it last.
        real: who did.
    """

    use: OpUse
    step: int
    value: str
    wanted: _Maker
    real: _Maker

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


def find_strange(program: Program, role_program: RoleProgram) -> Strange | None:
    """Return the first use that finds the wrong value: the others follow from it."""
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
                return Strange(use, step, value, wanted.get(read), real.get(read))
    return None


def _makers(program: Program, moves: list[tuple[OpUse, int]]) -> dict[tuple[int, int, str], _Maker]:
    """Return for every read of a register value: the op and step that wrote it last."""
    last: dict[str, tuple[str, int]] = {}
    found: dict[tuple[int, int, str], _Maker] = {}
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


def mended(program: Program, role_program: RoleProgram, found: Strange) -> str:
    """Return what sets a use right: a place or a step that was tried; empty if nothing did."""
    for uses in (role_program.loop, role_program.after):
        makers = [other for other in uses if other.op.name == found.maker[0]]
        if found.use not in uses or len(makers) != 1 or makers[0] is found.use:
            continue
        looped = uses is role_program.loop
        for order, advice in _changes(program, uses, found, makers[0], looped=looped):
            if looped:
                better = replace(role_program, loop=order)
            else:
                better = replace(role_program, after=order)
            if _is_right(program, role_program, better):
                return advice
    return ""


def _changes(
    program: Program, uses: tuple[OpUse, ...], found: Strange, maker: OpUse, *, looped: bool
) -> Iterator[tuple[tuple[OpUse, ...], str]]:
    """Yield changed orders with their advice: the use first, then who writes what it uses."""
    for one, earlier in ((found.use, found.late), (maker, not found.late)):
        yield from _moved(uses, one, earlier=earlier)
        for offset in (one.offset - 1, one.offset + 1) if looped else ():
            other = replace(one, offset=offset)
            order = tuple(other if use is one else use for use in uses)
            yield order, write(one.span, one.at(program.loop_symbol, offset))


def _moved(
    uses: tuple[OpUse, ...], one: OpUse, *, earlier: bool
) -> Iterator[tuple[tuple[OpUse, ...], str]]:
    """Yield the orders in which one op stands earlier, or later, nearest first."""
    place = uses.index(one)
    beyond = reversed(uses[:place]) if earlier else iter(uses[place + 1 :])
    rest = [use for use in uses if use is not one]
    for beside in beyond:
        at = rest.index(beside) + (not earlier)
        order = (*rest[:at], replace(one, turn=beside.turn), *rest[at:])
        words = f"place `{one.span.text}` {'before' if earlier else 'after'} `{beside.span.text}`"
        yield order, moved(words, one.whole, beside.whole, before=earlier)


def _is_right(program: Program, old: RoleProgram, new: RoleProgram) -> bool:
    """Whether a changed role would be built."""
    last = next((use.offset for use in new.loop if use.op.masks), None)
    if last is not None:
        reach = int(any(program.joins(use.op) for use in new.loop))
        if not all(abs(use.offset - last) <= reach for use in new.loop):
            return False
    programs = tuple(new if other is old else other for other in program.role_programs)
    changed = replace(program, role_programs=programs)
    if find_strange(changed, new) is not None:
        return False
    return legal_placement(changed) is not None
