"""What the parts of the checker share: the reporter and what is known so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..algorithm import Algorithm
from ..diagnostics import Reporter, Span, did_you_mean, quoted
from ..syntax import ast
from ..target import SM_100A, Target
from .program import Buffer, Role, TileShape

#: Numbers that a count may be, by what is counted.
ROLE_WARPS = (1, 2, 4, 8, 16)


@dataclass(slots=True)
class Context:
    """The state of one check; every part adds what it has resolved."""

    reporter: Reporter
    tree: ast.Schedule
    algorithm: Algorithm | None = None
    target: Target = SM_100A
    tile: TileShape | None = None
    dims: dict[str, int] = field(default_factory=dict)
    roles: dict[str, Role] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)

    def unknown(self, kind: str, name: ast.Name, known: Iterable[str]) -> None:
        """Report a name that nothing has, with the near match."""
        known = list(known)
        helps = did_you_mean(name.text, known)
        if not helps and known:
            helps = (f"known here: {quoted(known, 'and')}",)
        self.reporter.report(
            f"unknown-{kind.replace(' ', '-')}",
            f"there is no {kind} `{name.text}`",
            name.span,
            helps=helps,
        )

    def not_built(self, what: str, span: Span, instead: str = "") -> None:
        """Report a word of the language that the compiler does not have yet."""
        helps = (instead,) if instead else ()
        self.reporter.report("not-built", f"{what} is not built yet", span, helps=helps)

    def twice(self, kind: str, name: ast.Name, first: Span) -> None:
        """Report a second declaration."""
        from ..diagnostics import Label, Note

        self.reporter.report(
            "declared-twice",
            f"the {kind} `{name.text}` is declared twice",
            name.span,
            notes=(Note(message="first here", label=Label(span=first)),),
        )

    def number(self, count: ast.Count | None, default: int) -> int:
        """Return a plain number; cases and tuning sets are not built yet."""
        if count is None:
            return default
        if isinstance(count, ast.Number):
            return count.value
        word = "a number that depends on the instance" if isinstance(count, ast.Cases) else "`tune`"
        self.not_built(word, count.span, "write one number")
        return default

    def group_symbol(self, index: ast.Name | None) -> bool:
        """Return whether an index names the groups; report it if it does not."""
        if index is None:
            return False
        symbol = self.tile.group_symbol if self.tile else None
        if index.text == symbol:
            return True
        if symbol is None:
            self.reporter.report(
                "unknown-index",
                f"the tile has one group and no index `{index.text}`",
                index.span,
                helps=(f"write `m 128 x 2 as {index.text}` for groups, or leave the index out",),
            )
        else:
            self.reporter.report(
                "unknown-index",
                f"the groups are called `{symbol}`, not `{index.text}`",
                index.span,
                helps=(f"write `[{symbol}]`",),
            )
        return self.tile is not None
