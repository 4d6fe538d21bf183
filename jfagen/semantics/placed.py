"""What was placed where: the op uses of every role, as they are found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..diagnostics import Label, Note, drop
from .context import Context
from .program import OpUse, Role


@dataclass(slots=True)
class Parts:
    """The op uses of one role as they are found."""

    before: list[OpUse] = field(default_factory=list)
    loop: list[OpUse] = field(default_factory=list)
    after: list[OpUse] = field(default_factory=list)
    peel: bool = False


@dataclass(slots=True)
class Placed:
    """Every op use that was resolved.

    Attributes:
        parts: role -> its uses.
        uses: op -> group, or -1 for an op without groups -> its use.
        role_of: id of a use -> role.
        lost: ops that stand somewhere, but were refused there.
        busy: roles that have a block with ops.
    """

    parts: dict[str, Parts]
    uses: dict[str, dict[int, OpUse]] = field(default_factory=lambda: defaultdict(dict))
    role_of: dict[int, str] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)

    def lose(self, ops: Iterable[str]) -> None:
        """Remember ops that were reported, or that follow from what was."""
        self.lost |= set(ops)

    def enter(self, context: Context, use: OpUse, role: Role, all_groups: tuple[int, ...]) -> bool:
        """Enter one use; report it and return False if its op is placed already."""
        placed = self.uses[use.op.name]
        twice = [group for group in use.groups or (-1,) if group in placed]
        if not twice:
            for group in use.groups or (-1,):
                placed[group] = use
            self.role_of[id(use)] = role.name
            return True
        which = f"`{use.op.name}`"
        words = "drop one of the two"
        whole = use.whole if len(twice) == max(len(use.groups), 1) else None
        if use.op.grouped and len(twice) < len(all_groups):
            which += f" of group {', '.join(map(str, twice))}"
        context.reporter.report(
            "placed-twice",
            f"{which} is placed twice",
            use.span,
            notes=(Note(message="first here", label=Label(span=placed[twice[0]].span)),),
            helps=(drop(words, whole) if whole else words,),
        )
        return False

    def role(self, use: OpUse) -> str:
        """Return the role of a use."""
        return self.role_of[id(use)]
