"""Instances: one text for several kernels, each planned and proved by itself.

`head_dim in {128, 64}` offers two values; with `dtype in {bf16, fp16}` there are four kernels. The
first values make the kernel that has no suffix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

from ..syntax import ast

#: The fields of a problem that may offer several values, in the order of a kernel's name.
FIELDS = ("q", "head_dim", "dtype")
#: How a chosen head dimension is told in a name.
_PREFIX = {"head_dim": "d"}


@dataclass(frozen=True, slots=True)
class Instance:
    """One choice of values.

    Attributes:
        values: field -> the chosen value, as text, for every field that offers several.
        offered: field -> all of them, in the order of the schedule.
    """

    values: dict[str, str]
    offered: dict[str, tuple[str, ...]]

    @property
    def suffix(self) -> str:
        """Return what tells this kernel from the first one: empty, or such as `_jagged_d64`."""
        return "".join(f"_{_PREFIX.get(field, '')}{value}" for field, value in self._changed())

    @property
    def kernels(self) -> int:
        """Return how many kernels the text makes."""
        return math.prod(len(values) for values in self.offered.values())

    @property
    def differs(self) -> str:
        """Return the values that the first kernel has not, in words such as `head_dim 64`."""
        return ", ".join(f"{field} {value}" for field, value in self._changed())

    def _changed(self) -> list[tuple[str, str]]:
        return [pair for pair in self.values.items() if pair[1] != self.offered[pair[0]][0]]

    def number(self, count: ast.Cases) -> ast.Number:
        """Return the number of the first case that holds, or the one before them."""
        for case in count.cases:
            if self.values.get(case.field.text) == text_of(case.value):
                return case.number
        return count.default

    def varies(self, field: str) -> bool:
        """Return whether the kernels of the text differ in a field."""
        return len(set(self.offered.get(field, ()))) > 1


def instances(tree: ast.Schedule) -> tuple[Instance, ...]:
    """Return every choice; the first one takes the first value of every field."""
    said = {field: getattr(tree.problem, field, None) for field in FIELDS}
    offered = {
        field: tuple(text_of(value) for value in node.values)
        for field, node in said.items()
        if isinstance(node, ast.OneOf)
    }
    fixed = {
        field: text_of(node)
        for field, node in said.items()
        if isinstance(node, ast.Name | ast.Number)
    }
    known = {**{field: (value,) for field, value in fixed.items()}, **offered}
    return tuple(
        Instance(dict(zip(known, values, strict=True)), known)
        for values in product(*known.values())
    )


def text_of(node: ast.Name | ast.Number) -> str:
    """Return a value as the schedule says it."""
    return node.text if isinstance(node, ast.Name) else str(node.value)
