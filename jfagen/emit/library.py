"""The templates of one kernel's mathematics: for its algorithm, its target and its query rows."""

from __future__ import annotations

from typing import Any

from ..semantics.program import NextTile, Program, TileOrder
from .names import ELEMENTS
from .render import macros, render
from .view import OpView


def tile_words(program: Program) -> dict[str, object]:
    """Return what templates ask about tiles: how their rows are spelled, and their order."""
    grouped = program.tile.group_dim if program.tile.groups > 1 else ""
    rows, keys = (
        f"GROUPS * BLOCK_{d.upper()}" if d == grouped else f"BLOCK_{d.upper()}" for d in "mn"
    )
    return {
        "tile_rows": rows,
        "tile_keys": keys,
        "staggered": program.staggered,
        "by_q_length": program.tiles.order is TileOrder.VALID_BY_Q_LENGTH,
    }


class Library:
    """Spells what an algorithm's templates say; views hold everything that is decided."""

    def __init__(self, program: Program) -> None:
        """Find the templates of a program."""
        self._folder = program.algorithm.name
        self._target = f"{self._folder}/{program.target.name}"
        self._queries = f"{self._folder}/q_{program.problem.q}"
        dealt = program.tiles.next in (NextTile.ZIGZAG, NextTile.ROUND_ROBIN)
        self.rows: Any = macros(
            f"{self._queries}/rows.py.jinja", dealt=dealt, **tile_words(program)
        )
        words = {"dtype": ELEMENTS[program.problem.dtype], "rows": self.rows}
        self._ops = [
            macros(f"{folder}/ops.py.jinja", **words) for folder in (self._target, self._folder)
        ]

    def spell(self, macro: str, view: OpView) -> str:
        """Return the text of one op: by the macro of its target, or by that of all of them."""
        own, common = self._ops
        text: str = getattr(own if hasattr(own, macro) else common, macro)(view)
        return text

    def maths(self, values: dict[str, object]) -> str:
        """Return the constants and functions that the ops call."""
        borders = macros(f"{self._folder}/borders.py.jinja")
        path = f"{self._target}/maths.py.jinja"
        return render(path, rows=self.rows, borders=borders, **values).rstrip("\n")

    def parameters(self, values: dict[str, object]) -> str:
        """Return the kernel's parameters, one a line."""
        return render(f"{self._queries}/parameters.py.jinja", **values)

    def jit(self, values: dict[str, object]) -> str:
        """Return the decorator's arguments: which parameters do not compile the kernel anew."""
        return render(f"{self._queries}/jit.py.jinja", **values).strip()

    def host(self, values: dict[str, object]) -> str:
        """Return the launcher."""
        return render(f"{self._queries}/host.py.jinja", **values).rstrip("\n")
