"""The parts in which a role's loop is spelled, each with its moves, header and mask."""

from __future__ import annotations

from dataclasses import dataclass

from ..planning import Move, TileMoves, tile_moves
from ..semantics.program import Program, RoleProgram
from .counts import plus
from .laps import Lap, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPart:
    """One part of a loop.

    Attributes:
        lap: how it counts.
        origin: the lap of the walk that its moves are taken from.
        moves: what a lap of it does.
        header: the line of the loop; empty where it is one lap.
        comment: what is special about it; empty if it is the whole loop.
        mask: when a masking op has to mask: None never, "" always, or a condition.
    """

    lap: Lap
    origin: int
    moves: tuple[Move, ...]
    header: str
    comment: str = ""
    mask: str | None = None

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
    steps = 2 * span + 4
    walk = tile_moves(program, role_program, steps)
    if not role_program.loop:
        return Spelling(walk.before, (), walk.after)
    masks = any(use.op.masks for use in role_program.loop)
    peel = masks and role_program.peel
    joins = any(program.joins(use.op) for use in role_program.loop)
    found = _with_ends(walk, span, masks, peel) if joins else _whole(walk, span, masks, peel)
    return Spelling(walk.before, found, walk.after)


def _whole(walk: TileMoves, span: int, masks: bool, peel: bool) -> tuple[LoopPart, ...]:
    lap = Lap(part=Part.WHOLE, least=-span)
    moves = _lap(walk, span + 1)

    def part(header: str, comment: str, mask: str | None) -> LoopPart:
        return LoopPart(
            lap=lap, origin=span + 1, moves=moves, header=header, comment=comment, mask=mask
        )

    if not peel:
        return (part(step_loop(plus("steps", span)), "", "" if masks else None),)
    return (
        part("for step in range(full_steps):", "full steps: no mask", None),
        part("for step in range(full_steps, steps):", "the masked tail", ""),
    )


def _with_ends(walk: TileMoves, span: int, masks: bool, peel: bool) -> tuple[LoopPart, ...]:
    """Return first lap, laps between, last lap: results of matmuls stay in registers."""
    middle = _lap(walk, span + 1)
    last = len(walk.laps) - 1

    def part(
        which: Part, origin: int, header: str, comment: str = "", mask: str | None = None
    ) -> LoopPart:
        lap = Lap(part=which, least=-span)
        moves = middle if which is Part.MIDDLE else _lap(walk, origin)
        if which is Part.LAST and not span:
            moves = ()
        return LoopPart(
            lap=lap, origin=origin, moves=moves, header=header, comment=comment, mask=mask
        )

    always = "" if masks else None
    first = part(Part.FIRST, 0, "", "the first step", "full_steps == 0" if peel else always)
    end = part(Part.LAST, last, "", "what the last step leaves" if span else "")
    if not peel:
        return (first, part(Part.MIDDLE, span + 1, step_loop("1", "steps"), "", always), end)
    return (
        first,
        part(Part.MIDDLE, span + 1, step_loop("1", "full_steps"), "full steps: no mask"),
        part(
            Part.MIDDLE,
            span + 1,
            step_loop("tl.maximum(full_steps, 1)", "steps"),
            "the masked tail",
            "",
        ),
        end,
    )


def step_loop(*bounds: str) -> str:
    """Return the header of a loop over steps; bounds as `range` takes them."""
    return f"for step in range({', '.join(bounds)}):"


def _lap(walk: TileMoves, index: int) -> tuple[Move, ...]:
    """Return the moves of one lap, counted from 0."""
    return list(walk.laps.values())[index]
