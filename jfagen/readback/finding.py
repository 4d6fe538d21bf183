"""What is wrong with a text: a rule, lines and words."""

from __future__ import annotations

from dataclasses import dataclass

from .execution import Place
from .order import TextOrder


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a text.

    Attributes:
        rule: id of the rule.
        lines: of the text, the first one is the place.
        message: what is wrong, in words.
    """

    rule: str
    lines: tuple[int, ...]
    message: str


def line_of(order: TextOrder, place: Place) -> int:
    """Return the line of an action."""
    return order.trace.actions[place[0]][place[1]].line
