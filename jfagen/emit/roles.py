"""Roles as views: op texts in order, with guards, loops, definitions and counters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..algorithm import Mode, Space
from ..passes.channels import SyncPlan
from ..planning import Move, Plan
from ..semantics.program import GroupRef, NextTile, OpUse, Program, Role, RoleProgram
from .counts import Counters
from .op_views import OpViews
from .parts import LoopPart, spelling
from .turns import turn_end, turn_pass, turn_start, turn_wait
from .view import OpView, Piece, RoleView, Segment

#: Columns of a comment above a role, which stands two levels deep.
_COMMENT_WIDTH = 110
#: Spells one op: (macro, view) -> text.
Spell = Callable[[str, OpView], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """The spelled work of one role on one tile."""

    before: tuple[Piece, ...]
    starts: str
    segments: tuple[Segment, ...]
    after: tuple[Piece, ...]
    closing: tuple[Piece, ...]

    def words(self) -> set[str]:
        """Return every word in the text, to know which definitions it needs."""
        inside = [p for s in self.segments for p in s.pieces]
        pieces = [*self.before, *inside, *self.after, *self.closing]
        lines = [line for s in self.segments for line in (s.header, *s.definitions)]
        text = [self.starts, *lines, *(p.text + p.guard for p in pieces)]
        return set(re.findall(r"\w+", "\n".join(text)))


class RoleBuilder:
    """Builds the views of all roles of one kernel."""

    def __init__(
        self,
        plan: Plan,
        sync: SyncPlan,
        spell: Spell,
        find_tile: Callable[[str, bool], str],
        coordinates: tuple[str, ...],
    ) -> None:
        """Remember what is spelled from.

        Args:
            plan: the plan.
            sync: its channels.
            spell: turns an op's view into text.
            find_tile: (names, whether the number of full steps is needed) -> lines.
            coordinates: names of a tile's coordinates, its length last.
        """
        self.plan = plan
        self.program: Program = plan.program
        self.views = OpViews(plan, sync)
        self.spell = spell
        self.find_tile = find_tile
        self.coordinates = coordinates

    def build(self, role_program: RoleProgram) -> RoleView:
        """Return the view of one role."""
        counters = Counters(
            persistent=self.program.tiles.next is not NextTile.NONE,
            shifts=self._shifts(role_program),
        )
        work = self._work(role_program, counters)
        used = work.words()
        definitions = self._definitions(counters.per_tile, used)
        used |= set(re.findall(r"\w+", "\n".join(definitions)))
        counts = [name for name in ("tile_count", "step_count") if name in used]
        role, symbol = role_program.role, self.program.tile.group_symbol
        replica = f"{symbol}: tl.constexpr = tlx.async_task_replica_id()"
        asks = self.program.tiles.asker == role.name
        return RoleView(
            comment=self._role_comment(role_program),
            arguments=self._arguments(role),
            replica=replica if role.replicas > 1 else "",
            counters=(
                *(f"{name} = 0" for name in counts),
                *turn_start(self.program, role_program),
            ),
            find_tile=self._find_tile(used),
            definitions=definitions,
            before=work.before,
            starts=work.starts,
            segments=work.segments,
            after=work.after,
            counts=tuple(
                f"{name} += {'steps' if name == 'step_count' else '1'}" for name in counts
            ),
            closing=work.closing,
            ends=(*turn_end(self.program, role_program), *_last_stores(self.program, role_program)),
            asks_first=asks and not role_program.runs_ahead,
            asks_last=asks and role_program.runs_ahead,
        )

    def _work(self, role_program: RoleProgram, counters: Counters) -> _Work:
        spelled = spelling(self.program, role_program)

        def piece(move: Move, part: LoopPart | None = None, macro: str = "") -> Piece:
            return self._piece(role_program, move, part, counters, macro)

        def start(use: OpUse) -> str:
            return self.spell(
                f"{use.op.name}_start", self.views.view(Move(use, -1), None, "0", counters)
            )

        before = _spelled(piece(move) for move in spelled.before)
        starts = "".join(
            start(use) for use in role_program.loop if use.op.keeps or self._accumulates(use)
        )
        segments: list[Segment] = []
        for part in spelled.parts:
            counters.begin(part.lap)
            pieces = _spelled(piece(move, part) for move in part.moves)
            segments.append(self._segment(part, pieces, pieces, counters))
        last = spelled.parts[-1] if spelled.parts else None
        after = _spelled(piece(move, last) for move in spelled.after)
        if last is not None and not last.header:
            pieces = segments.pop().pieces
            segments.append(self._segment(last, pieces, (*pieces, *after), counters))
        return _Work(
            before=before,
            starts=starts,
            segments=tuple(segments),
            after=after,
            closing=tuple(
                piece(Move(use, -1), None, f"{use.op.name}_empty")
                for use in role_program.uses()
                if use.op.fills
            ),
        )

    def _segment(
        self,
        part: LoopPart,
        pieces: tuple[Piece, ...],
        needing: tuple[Piece, ...],
        counters: Counters,
    ) -> Segment:
        """Return one part of a loop with the definitions that some pieces need."""
        used = set(re.findall(r"\w+", "\n".join(piece.text for piece in needing)))
        return Segment(
            under=part.under,
            comment=part.comment,
            header=part.header,
            definitions=self._definitions(counters.per_step, used),
            pieces=pieces,
        )

    def _accumulates(self, use: OpUse) -> bool:
        """Whether a matmul adds to registers that have to start from something."""
        updated = any(access.mode is Mode.UPDATE for access in use.op.accesses())
        return self.program.joins(use.op) and updated

    def _shifts(self, role_program: RoleProgram) -> dict[str, int]:
        """Return in how many different steps one lap of a role's loop touches each value."""
        most: dict[str, int] = {}
        for part in spelling(self.program, role_program).parts:
            shifts: dict[str, set[int]] = {}
            for move in part.moves:
                joined = [(join.use, join.step) for join in move.joins]
                for use, step in [(move.use, move.step), *joined]:
                    for access in use.op.accesses():
                        shifts.setdefault(access.value, set()).add(part.shift(step))
            for value, found in shifts.items():
                most[value] = max(most.get(value, 0), len(found))
        return most

    def _find_tile(self, used: set[str]) -> str:
        """Return the lines that find the tile; names that the role does not use become `_`."""
        *places, length = self.coordinates
        names = [name if name in used else "_" for name in places] + [length]
        return self.find_tile(", ".join(names), "full_steps" in used)

    def _definitions(self, table: dict[str, str], used: set[str]) -> tuple[str, ...]:
        lines: list[str] = []
        for names, expression in table.items():
            kept = [name if name in used else "_" for name in names.split(", ")]
            if set(kept) == {"_"}:
                continue
            lines.append(f"{', '.join(kept)} = {expression}")
        return tuple(lines)

    def _arguments(self, role: Role) -> str:
        if role.default:
            return '"default"'
        arguments = [f"num_warps={role.warps}", f"registers={role.registers}"]
        if role.replicas > 1:
            arguments.append("replicate=GROUPS")
        return ", ".join(arguments)

    def _piece(
        self,
        role_program: RoleProgram,
        move: Move,
        part: LoopPart | None,
        counters: Counters,
        macro: str,
    ) -> Piece:
        use, symbol = move.use, self.program.tile.group_symbol or ""
        group, loop = "0", ""
        if use.group_ref is GroupRef.ONE:
            group = str(use.groups[0])
        elif use.group_ref is GroupRef.REPLICA and role_program.role.replicas > 1:
            group = symbol
        elif use.group_ref is GroupRef.EVERY and len(use.groups) > 1:
            group, loop = symbol, f"for {symbol} in tl.static_range(GROUPS):"
        steps = part is not None and use.op.space is Space.STEP
        return Piece(
            comment=f"{self.words(use)} ({self._place(use)})",
            guard=part.lap.guard(part.shift(move.step)) if part and steps else "",
            loop=loop,
            takes=turn_wait(symbol) if move.takes_turn else "",
            text=self._text(macro or use.op.name, self.views.view(move, part, group, counters)),
            passes=turn_pass(symbol) if move.passes_turn else "",
        )

    def _text(self, macro: str, view: OpView) -> str:
        return self.spell(macro, view) + view.tail

    def words(self, use: OpUse) -> str:
        """Return an op as the schedule spells it."""
        symbol = self.program.tile.group_symbol
        group = {
            GroupRef.NONE: "",
            GroupRef.EVERY: f"[{symbol}]" if symbol else "",
            GroupRef.REPLICA: f"[{symbol}]" if symbol else "",
            GroupRef.ONE: f"[{use.groups[0]}]" if use.groups else "",
        }[use.group_ref]
        offset = f"{use.offset:+d}" if use.offset else ""
        step = f"[{self.program.loop_symbol}{offset}]" if use.op.space is Space.STEP else ""
        return f"{use.op.name}{group}{step}"

    def _place(self, use: OpUse) -> str:
        return f"{use.span.source.path.rsplit('/', 1)[-1]}:{use.span.line}"

    def _role_comment(self, role_program: RoleProgram) -> str:
        """Return a role with its ops; where they do not fit, without indices, or only the first."""
        role, uses = role_program.role, role_program.uses()
        index = f"[{self.program.tile.group_symbol}]" if role.indexed else ""
        place = f"{role.span.source.path.rsplit('/', 1)[-1]}:{role.span.line}"
        names = [use.op.name for use in uses]
        texts = [", ".join(map(self.words, uses)), ", ".join(names)]
        texts += [
            f"{', '.join(names[:count])} and {len(names) - count} more"
            for count in range(len(names) - 1, 0, -1)
        ]
        comments = [f"{role.name}{index}: {text} ({place})" for text in texts]
        return next((c for c in comments if len(c) <= _COMMENT_WIDTH), comments[-1])


def _last_stores(program: Program, role_program: RoleProgram) -> tuple[str, ...]:
    """Return the lines after the last tile: no store may still read its tile."""
    return ("tlx.async_descriptor_store_wait(0)",) if program.leaves_stores(role_program) else ()


def _spelled(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Return the ops that have any text: one that only hands registers on has none."""
    return tuple(piece for piece in pieces if piece.text.strip() or piece.takes or piece.passes)


def consumers(program: Program) -> int:
    """Return how many role instances take tiles from cluster launch control."""
    if program.tiles.next is not NextTile.CLC:
        return 0
    return sum(role.replicas for role in program.roles)
