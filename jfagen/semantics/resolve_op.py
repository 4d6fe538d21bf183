"""One op in a role's block: which op it is, for which groups it runs, and how far from its loop."""

from __future__ import annotations

from dataclasses import dataclass

from ..algorithm import Algorithm, Op, Space
from ..diagnostics import Label, Note, near_match, only_choice, put, quoted, write
from ..syntax import ast
from .check_placement import is_before_steps
from .context import Context, first_word
from .loops import loop_of
from .placed import Placed
from .program import GroupRef, OpUse, Role

#: How far ahead or behind an op may run.
MOST_OFFSET = 8


@dataclass(frozen=True, slots=True)
class Place:
    """A block with what surrounds it: the loop's symbol, or None, and whether the loop is over."""

    block: ast.Block
    symbol: str | None
    after: bool


@dataclass(slots=True)
class OpResolver:
    """Resolves ops with what the schedule's head has said.

    Attributes:
        groups: of the tile.
        symbol: what the schedule calls their index; None where there is one.
    """

    context: Context
    algorithm: Algorithm
    placed: Placed
    groups: tuple[int, ...]
    symbol: str | None

    def use(self, node: ast.Op, role: Role, place: Place, turn: int) -> OpUse | None:
        """Return an op as it is placed; report what is wrong, None if it is lost."""
        names = [op.name for op in self.algorithm.ops]
        if node.name.text not in names:
            self.context.unknown("unknown-op", "op", node.name, names)
            match = near_match(node.name.text, names)
            self.placed.lose([match] if match else names)
            return None
        op = self.algorithm.op(node.name.text)
        if not self._is_in_place(op, node, place):
            return None
        indices = list(node.indices)
        offset = self._offset(op, node, indices, place)
        if offset is None or (op.grouped and not self.context.groups_known):
            return None
        reference = self._group(op, node, indices, role)
        if reference is None:
            return None
        for index in indices:
            plain = node.span.text.replace(index.span.text, "", 1)
            self.context.reporter.report(
                "extra-index",
                f"`{op.name}` has no such index",
                index.span,
                helps=(write(node.span, plain),),
            )
        group_ref, groups = reference
        return OpUse(
            op=op,
            group_ref=group_ref,
            groups=groups,
            offset=offset,
            span=node.span,
            turn=turn,
        )

    def _is_in_place(self, op: Op, node: ast.Op, place: Place) -> bool:
        """Whether an op stands on the right side of the loop's brackets; report it if not."""
        inside = place.symbol is not None
        if (op.space is Space.STEP) == inside:
            return True
        loop = loop_of(self.context.tree)
        if loop is not None:
            where = self._side(op)
            self.context.reporter.report(
                "wrong-place",
                f"`{op.name}` runs once a {op.space}, so it belongs {where} the loop",
                node.name.span,
                notes=(Note(message="the loop", label=Label(span=first_word(loop.span))),),
                helps=(f"move it to a block of `{place.block.role.text}` {where} the loop",),
            )
        return False

    def _side(self, op: Op) -> str:
        """Return on which side of the loop's brackets an op belongs."""
        if op.space is Space.STEP:
            return "inside"
        return "before" if is_before_steps(self.algorithm, op) else "after"

    def _offset(self, op: Op, node: ast.Op, indices: list[ast.Index], place: Place) -> int | None:
        """Take the loop index, the last one, off the list and return its offset."""
        if op.space is Space.TILE:
            return 0
        last = indices[-1] if indices else None
        if last is None or last.symbol is None or last.symbol.text in (self.symbol, place.symbol):
            if last is None or last.symbol is None or last.symbol.text != place.symbol:
                self.context.reporter.report(
                    "missing-index",
                    f"`{op.name}` runs once a step: its last index is that of the loop",
                    node.span,
                    helps=(write(node.span, f"{node.span.text}[{place.symbol}]"),),
                )
                return None
        else:
            said = f"[{place.symbol}]"
            self.context.reporter.report(
                "unknown-index",
                f"the loop counts `{place.symbol}`, not `{last.symbol.text}`",
                last.span,
                helps=(f"write `{said}`" if last.offset else write(last.span, said),),
            )
            return None
        indices.pop()
        if abs(last.offset) > MOST_OFFSET:
            side = "ahead of" if last.offset > 0 else "behind"
            self.context.reporter.report(
                "bad-offset",
                f"`{op.name}` runs {abs(last.offset)} steps {side} the loop, at most {MOST_OFFSET} "
                "are built",
                last.span,
                helps=("let it run closer, and the ops that wait for it too",),
            )
        return last.offset

    def _group(
        self, op: Op, node: ast.Op, indices: list[ast.Index], role: Role
    ) -> tuple[GroupRef, tuple[int, ...]] | None:
        """Take the group index off the list and return what it means."""
        if not op.grouped:
            if role.replicas > 1:
                self.context.reporter.report(
                    "run-twice",
                    f"`{op.name}` is for all groups, but each of the {role.replicas} replicas of "
                    f"`{role.name}` would run it",
                    node.name.span,
                    notes=(Note(message="the role", label=Label(span=role.span)),),
                    helps=("place it in a role without replicas",),
                )
                return None
            return GroupRef.NONE, ()
        if not indices:
            if len(self.groups) == 1:
                return GroupRef.EVERY, self.groups
            whole = node.span.text.replace(op.name, f"{op.name}[{self.symbol}]", 1)
            self.context.reporter.report(
                "missing-index",
                f"`{op.name}` runs for every group: its first index is the group",
                node.span,
                helps=(write(node.span, whole),),
            )
            return None
        index = indices.pop(0)
        if index.symbol is None:
            return self._one_group(index, role)
        self.context.group_symbol(index.symbol)
        if index.offset:
            self.context.reporter.report(
                "bad-group",
                "a group has no offset",
                index.span,
                helps=(f"write `[{self.symbol}]`, or the number of one group",),
            )
            return None
        return (GroupRef.REPLICA if role.replicas > 1 else GroupRef.EVERY), self.groups

    def _one_group(self, index: ast.Index, role: Role) -> tuple[GroupRef, tuple[int, ...]] | None:
        if index.offset not in self.groups:
            texts = [f"[{group}]" for group in self.groups]
            self.context.reporter.report(
                "bad-group",
                f"there is no group {index.offset}, the last one is {self.groups[-1]}",
                index.span,
                helps=(only_choice(f"write {quoted(texts)}", index.span, texts),),
            )
            return None
        if role.replicas > 1:
            words = f"write `[{self.symbol}]`: each replica runs its own group"
            instead = put(words, index.span, f"[{self.symbol}]")
            self.context.not_built("one group in a role over the groups", index.span, instead)
            return None
        return GroupRef.ONE, (index.offset,)
