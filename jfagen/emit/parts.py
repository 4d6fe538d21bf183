"""The parts in which a role's loop is spelled, each with its moves, header and mask."""

from __future__ import annotations

from dataclasses import dataclass

from ..planning import Move, TileMoves, tile_moves
from ..semantics.program import Program, RoleProgram
from .laps import Base, Lap, plus


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPart:
    """One part of a loop.

    Attributes:
        lap: how it counts.
        origin: the lap of the walk that its moves are taken from, called as laps are.
        moves: what a lap of it does.
        header: the line of the loop; empty where it is one lap.
        comment: what is special about it; empty if it is the whole loop.
        mask: when a masking op has to mask: None never, "" always, or a condition.
        under: the condition under which it is spelled, `else:` for the opposite; empty if always.
    """

    lap: Lap
    origin: int
    moves: tuple[Move, ...]
    header: str
    comment: str = ""
    mask: str | None = None
    under: str = ""

    def shift(self, step: int) -> int:
        """Return a step of the walk relative to the lap; 0 for an op that runs once a tile."""
        return step - self.origin if step >= 0 else 0


@dataclass(frozen=True, slots=True)
class Spelling:
    """What is spelled of a role.

    Attributes:
        before, after: ops that run once a tile.
        parts: of its loop; empty without one.
    """

    before: tuple[Move, ...]
    parts: tuple[LoopPart, ...]
    after: tuple[Move, ...]


def spelling(program: Program, role_program: RoleProgram) -> Spelling:
    """Return the parts of a role's loop, and what stands around it."""
    offsets = [use.offset for use in role_program.loop] or [0]
    span = max(offsets) - min(offsets)
    walk = tile_moves(program, role_program, 2 * span + 4)
    if not role_program.loop:
        return Spelling(walk.before, (), walk.after)
    joins = any(program.joins(use.op) for use in role_program.loop)
    first_differs = any(a.first_step for use in role_program.loop for a in use.op.accesses())
    if joins and (span or first_differs):
        short = tile_moves(program, role_program, 1)
        found = _Ends(role_program, walk, short, first_differs=first_differs).parts()
    else:
        found = _whole(walk, span, role_program)
    return Spelling(walk.before, found, walk.after)


def _whole(walk: TileMoves, span: int, role_program: RoleProgram) -> tuple[LoopPart, ...]:
    lap = Lap(base=Base.LOOP, least=-span, guarded=True)
    moves = list(walk.laps.values())[span + 1]

    def part(header: str, comment: str, mask: str | None) -> LoopPart:
        return LoopPart(
            lap=lap, origin=span + 1, moves=moves, header=header, comment=comment, mask=mask
        )

    masks = any(use.op.masks for use in role_program.loop)
    if not (masks and role_program.peel):
        return (part(step_loop(plus("steps", span)), "", "" if masks else None),)
    return (
        part("for step in range(full_steps):", "full steps: no mask", None),
        part("for step in range(full_steps, steps):", "the masked tail", ""),
    )


class _Ends:
    """First laps, laps between, last laps: results of matmuls stay in registers.

    Ops may run a step ahead of the one that masks, and a step behind: the laps before the first
    step, and after the last one, are theirs alone.
    """

    def __init__(
        self, role_program: RoleProgram, walk: TileMoves, short: TileMoves, *, first_differs: bool
    ) -> None:
        offsets = [use.offset for use in role_program.loop]
        main = next((u.offset for u in role_program.loop if u.op.masks), max(offsets))
        self.ahead, self.behind = max(offsets) - main, main - min(offsets)
        self.walk, self.short = walk, short
        self.masks = any(use.op.masks for use in role_program.loop)
        self.peel = self.masks and role_program.peel
        self.first_differs = first_differs or self.behind > 0

    def parts(self) -> tuple[LoopPart, ...]:
        """Return the parts in order."""
        start = int(self.first_differs)
        branches = bool(self.ahead and start)
        under, fewest = ("else:", 2) if branches else ("", 1)
        found: list[LoopPart] = []
        always = "" if self.masks else None
        if self.ahead:
            found.append(self._one(Base.START, -1, "ahead of the first step"))
        if branches:
            found.append(self._only(self._mask("full_steps == 0", always)))
        if start:
            mask = self._mask("full_steps == 0", always)
            found.append(self._one(Base.START, 0, "the first step", mask, under, fewest))
        found += self._between(start, always, under, fewest)
        if self.ahead:
            mask = self._mask("full_steps < steps", always)
            found.append(self._one(Base.END, -1, "the last step", mask, under, fewest))
        found.append(self._one(Base.END, 0, "what the last step leaves" if self.behind else ""))
        return tuple(found)

    def _mask(self, condition: str, always: str | None) -> str | None:
        return condition if self.peel else always

    def _lap(self, **values: object) -> Lap:
        return Lap(least=-self.behind, most=self.ahead, **values)  # type: ignore[arg-type]

    def _between(self, start: int, always: str | None, under: str, fewest: int) -> list[LoopPart]:
        """Return the laps in which every op runs: with a mask, without, or in two loops."""
        end = plus("steps", -self.ahead)
        full = plus("full_steps", -self.ahead)
        first = str(start) if start or self.ahead else "0"

        def part(header: str, comment: str, mask: str | None) -> LoopPart:
            origin = 2
            return LoopPart(
                lap=self._lap(base=Base.LOOP, start=start, fewest=fewest),
                origin=origin,
                moves=self.walk.laps[self._first_lap(self.walk) + self.ahead + origin],
                header=header,
                comment=comment,
                mask=mask,
                under=under,
            )

        bounds = (first, end) if start else (end,)
        if not self.peel:
            return [part(step_loop(*bounds), "", always)]
        full_bounds = (first, full) if start else (full,)
        tail = f"tl.maximum({full}, {first})" if start or self.ahead else full
        return [
            part(step_loop(*full_bounds), "full steps: no mask", None),
            part(step_loop(tail, end), "the masked tail", ""),
        ]

    def _only(self, mask: str | None) -> LoopPart:
        """Return the lap of the only step."""
        moves = self.short.laps[self._first_lap(self.short) + self.ahead]
        return LoopPart(
            lap=self._lap(base=Base.START, single=True),
            origin=0,
            moves=moves,
            header="",
            comment="the only step",
            mask=mask,
            under="if steps == 1:",
        )

    def _one(
        self,
        base: Base,
        number: int,
        comment: str,
        mask: str | None = None,
        under: str = "",
        fewest: int = 1,
    ) -> LoopPart:
        """Return a lap by itself."""
        laps = list(self.walk.laps)
        steps = len(laps) - self.ahead - self.behind
        origin = number + (steps if base is Base.END else 0)
        moves = self.walk.laps.get(self._first_lap(self.walk) + self.ahead + origin, ())
        return LoopPart(
            lap=self._lap(base=base, number=number, fewest=fewest),
            origin=origin,
            moves=moves,
            header="",
            comment=comment,
            mask=mask,
            under=under,
        )

    def _first_lap(self, walk: TileMoves) -> int:
        """Return the first lap of a walk, which is called after the op furthest ahead."""
        return next(iter(walk.laps))


def step_loop(*bounds: str) -> str:
    """Return the header of a loop over steps; bounds as `range` takes them."""
    return f"for step in range({', '.join(bounds)}):"
