"""What the kernel text says about its lines: names, roles, and lines of the schedule."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from dataclasses import dataclass

from ..comments import place_in

_ROLE = re.compile(r"#\s*([^\s:]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMap:
    """Facts about the lines of one kernel text."""

    filename: str
    names: dict[int, str]
    lines: tuple[str, ...]
    schedule_lines: tuple[int, ...]
    schedule_names: tuple[str, ...]

    def schedule(self, line: int) -> str:
        """Return `NAME.sched:NN` of the nearest comment at or above a line, or an empty text."""
        index = bisect_right(self.schedule_lines, line)
        return self.schedule_names[index - 1] if index else ""

    def role_name(self, line: int) -> str:
        """Return the first word of the comment directly above a line, or an empty text."""
        above = self.lines[line - 2].strip() if line >= 2 else ""
        match = _ROLE.match(above)
        return match.group(1) if match else ""


def map_source(text: str, tree: ast.Module, filename: str) -> SourceMap:
    """Return the facts of one kernel text."""
    names: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Call):
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    names[line] = target.id
    lines = tuple(text.splitlines())
    found = [
        (number, place)
        for number, line in enumerate(lines, start=1)
        if (place := place_in(line)) is not None
    ]
    return SourceMap(
        filename=filename,
        names=names,
        lines=lines,
        schedule_lines=tuple(number for number, _ in found),
        schedule_names=tuple(name for _, name in found),
    )
