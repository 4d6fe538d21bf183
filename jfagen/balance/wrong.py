"""What is wrong with the numbers a prediction is asked for."""

from __future__ import annotations


class WrongInput(ValueError):
    """An input that no prediction can be made from.

    Attributes:
        place: where it stands: a file and its line, or an option.
        reason: what is wrong there.
        help: what to do about it.
    """

    def __init__(self, place: str, reason: str, help: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place, self.reason, self.help = place, reason, help
