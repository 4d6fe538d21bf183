"""What the process on the GPU is asked, and its answer."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from .. import child
from ..bench.records import Dtype
from ..bench.shapes import SHAPES, Direction, Shape

#: The line of the answer begins with this.
MARK = "jfagen-workload "


class Do(StrEnum):
    """What to do."""

    FACTS = "facts"
    CALL = "call"
    TIME = "time"


class JobFailed(Exception):
    """The process gave no answer, or an error; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One process: look at the GPU, call attention once, or time calls of it.

    Attributes:
        name: the shape's; empty for a look at the GPU.
        seed: that its lengths are drawn with.
    """

    do: Do
    name: str = ""
    seed: int = 1
    direction: Direction = Direction.FORWARD
    dtype: Dtype = Dtype.BF16

    @classmethod
    def parse(cls, text: str) -> Job:
        """Return the job that `command` has spelled."""
        said = json.loads(text)
        return cls(
            do=Do(said["do"]),
            name=said["name"],
            seed=said["seed"],
            direction=Direction(said["direction"]),
            dtype=Dtype(said["dtype"]),
        )

    @property
    def shape(self) -> Shape:
        """Return the shape that it names."""
        return next(shape for shape in SHAPES if shape.name == self.name)

    @property
    def command(self) -> list[str]:
        """Return the command line of the process."""
        return [sys.executable, "-m", f"{__package__}.workload", json.dumps(asdict(self))]


def ask(job: Job, *, timeout_seconds: float) -> dict[str, Any]:
    """Return the answer of a process of its own.

    Raises:
        JobFailed: it gave none.
    """
    return answer(child.run(job.command, timeout_seconds=timeout_seconds), timeout_seconds)


def answer(ended: child.Ended, timeout_seconds: float) -> dict[str, Any]:
    """Return the answer among what a process printed; as `ask`."""
    for line in reversed(ended.out.splitlines()):
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            if "error" in found:
                raise JobFailed(found["error"])
            return found
    if ended.code is None:
        raise JobFailed(f"it did not end in {timeout_seconds:g} seconds")
    if ended.code < 0:
        raise JobFailed(f"it was ended by {signal.Signals(-ended.code).name}")
    last = ended.err.strip().splitlines()[-1:] or ["it said nothing"]
    raise JobFailed(f"it ended with {ended.code}: {last[0]}")
