"""Roles as views: op texts in order, with guards, loops, definitions and counters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..algorithm import Space
from ..passes.channels import SyncPlan
from ..plan import Plan
from ..semantics.program import GroupRef, NextTile, OpUse, Program, Role, RoleProgram
from ..types import Storage
from .counts import Counters, LoopFrame, plus
from .names import depth_name, slices_name, tiles_name
from .sync_lines import OpPlace, SyncSpeller, flat_index
from .view import OpView, Piece, RoleView, Segment

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
        self.speller = SyncSpeller(plan, sync)
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
            counters=tuple(f"{name} = 0" for name in counts),
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
            asks_first=asks and not role_program.runs_ahead,
            asks_last=asks and role_program.runs_ahead,
        )

    def _work(self, role_program: RoleProgram, counters: Counters) -> _Work:
        def alone(use: OpUse) -> Piece:
            return self._piece(role_program, use, None, 0, counters, masked=False)

        def extra(use: OpUse, macro: str) -> str:
            return self.spell(macro, self._view(use, "0", 0, counters, masked=False))

        return _Work(
            before=_spelled(alone(use) for use in role_program.before),
            starts="".join(
                extra(use, f"{use.op.name}_start") for use in role_program.loop if use.op.keeps
            ),
            segments=self._segments(role_program, counters),
            after=_spelled(alone(use) for use in role_program.after),
            closing=tuple(
                self._piece(
                    role_program, use, None, 0, counters, masked=False, macro=f"{use.op.name}_empty"
                )
                for use in role_program.uses()
                if use.op.closes_empty_tiles
            ),
        )

    def _shifts(self, role_program: RoleProgram) -> dict[str, int]:
        """Return in how many different steps of its loop a role touches each value."""
        offsets: dict[str, set[int]] = {}
        for use in role_program.loop:
            for access in use.op.accesses():
                offsets.setdefault(access.value, set()).add(use.offset)
        return {value: len(found) for value, found in offsets.items()}

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

    def _segments(self, role_program: RoleProgram, counters: Counters) -> tuple[Segment, ...]:
        if not role_program.loop:
            return ()
        offsets = [use.offset for use in role_program.loop]
        shift = max(offsets)
        frame = LoopFrame(least=min(offsets) - shift)
        masks = any(use.op.masks for use in role_program.loop)
        if masks and role_program.peel:
            parts = [
                ("full steps: no mask", "for step in range(full_steps):", False),
                ("the masked tail", "for step in range(full_steps, steps):", True),
            ]
        else:
            parts = [("", f"for step in range({frame.bound}):", masks)]
        found: list[Segment] = []
        for comment, header, masked in parts:
            pieces = _spelled(
                self._piece(role_program, use, frame, shift, counters, masked=masked)
                for use in role_program.loop
            )
            used = set(re.findall(r"\w+", "\n".join(piece.text for piece in pieces)))
            found.append(
                Segment(
                    comment=comment,
                    header=header,
                    definitions=self._definitions(counters.per_step, used),
                    pieces=pieces,
                )
            )
        return tuple(found)

    def _piece(
        self,
        role_program: RoleProgram,
        use: OpUse,
        frame: LoopFrame | None,
        shift: int,
        counters: Counters,
        *,
        masked: bool,
        macro: str = "",
    ) -> Piece:
        symbol = self.program.tile.group_symbol or ""
        group, loop = "0", ""
        if use.group_ref is GroupRef.ONE:
            group = str(use.groups[0])
        elif use.group_ref is GroupRef.REPLICA and role_program.role.replicas > 1:
            group = symbol
        elif use.group_ref is GroupRef.EVERY and len(use.groups) > 1:
            group, loop = symbol, f"for {symbol} in tl.static_range(GROUPS):"
        moved = use.offset - shift if frame is not None else 0
        view = self._view(use, group, moved, counters, masked=masked and use.op.masks)
        return Piece(
            comment=f"{self.words(use)} ({self._place(use)})",
            guard=frame.guard(moved) if frame is not None else "",
            loop=loop,
            text=self.spell(macro or use.op.name, view),
        )

    def _view(
        self, use: OpUse, group: str, shift: int, counters: Counters, *, masked: bool
    ) -> OpView:
        place = OpPlace(use=use, shift=shift, group=group, counters=counters)
        values = dict.fromkeys(access.value for access in use.op.accesses())
        buffers = {value: self.program.holder(value) for value in values}
        return OpView(
            name=use.op.name,
            group=group,
            step=plus("step", shift),
            masked=masked,
            tile={
                value: self._tile(value, group, shift, counters)
                for value, buffer in buffers.items()
                if buffer.storage is not Storage.REG
            },
            slices={value: slices_name(buffer.name) for value, buffer in buffers.items()},
            registers=frozenset(
                value for value, buffer in buffers.items() if buffer.storage is Storage.REG
            ),
            sync=self.speller.of(place),
        )

    def _tile(self, value: str, group: str, shift: int, counters: Counters) -> str:
        buffer = self.program.holder(value)
        depth = depth_name(buffer.name)
        slot = ""
        if buffer.depth > 1:
            if self.program.algorithm.value(value).space is Space.TILE:
                slot, _ = counters.tile_ring(value, depth)
            else:
                rate, position = len(buffer.holds), buffer.holds.index(value)
                slot, _ = counters.step_ring(value, shift, rate, position, depth)
        grouped = buffer.grouped and self.program.tile.groups > 1
        terms = [(group if grouped else "", "GROUPS"), (slot, depth)]
        return f"{tiles_name(buffer.name)}[{flat_index([term for term in terms if term[0]])}]"

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
        role = role_program.role
        index = f"[{self.program.tile.group_symbol}]" if role.indexed else ""
        place = f"{role.span.source.path.rsplit('/', 1)[-1]}:{role.span.line}"
        ops = ", ".join(self.words(use) for use in role_program.uses())
        return f"{role.name}{index}: {ops} ({place})"


def _spelled(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Return the ops that have any text: one that only hands registers on has none."""
    return tuple(piece for piece in pieces if piece.text.strip())


def consumers(program: Program) -> int:
    """Return how many role instances take tiles from cluster launch control."""
    if program.tiles.next is not NextTile.CLC:
        return 0
    return sum(role.replicas for role in program.roles)
