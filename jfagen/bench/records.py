"""What a bench is asked and what it found: frozen records; times in ms."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from .shapes import Direction, Shape
from .statistics import Spread, spread, tflops


class Dtype(StrEnum):
    """Element types of q, k, v and out."""

    BF16 = "bf16"
    FP16 = "fp16"

    @property
    def torch_name(self) -> str:
        """Return the name of the type in torch."""
        return "bfloat16" if self is Dtype.BF16 else "float16"

    @property
    def epsilon(self) -> float:
        """Return the distance from 1 to the next number."""
        return 2.0**-7 if self is Dtype.BF16 else 2.0**-10

    @property
    def size(self) -> int:
        """Return the bytes of one element."""
        return 2


class Status(StrEnum):
    """How it went with one provider on one shape."""

    MEASURED = "measured"
    WRONG = "WRONG"
    UNFIT = "does not fit"
    FAILED = "failed"
    NO_MEMORY = "no memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One shape with drawn lengths, in one direction and element type.

    Attributes:
        lengths: key rows of each sequence, [B].
    """

    shape: Shape
    seed: int
    lengths: tuple[int, ...]
    direction: Direction = Direction.FORWARD
    dtype: Dtype = Dtype.BF16

    @property
    def query_lengths(self) -> tuple[int, ...]:
        """Return the query rows of each sequence, [B]."""
        return self.shape.query_lengths(self.lengths)

    @property
    def is_dense(self) -> bool:
        """Tell whether all sequences are equally long."""
        return len(set(self.lengths)) == 1

    @property
    def flops(self) -> int:
        """Return the floating-point operations of one call."""
        return self.shape.flops(self.lengths, self.direction)

    @property
    def call_bytes(self) -> int:
        """Return the bytes that one forward call has to touch: q, k, v and out, each once."""
        keys, rows = sum(self.lengths), sum(self.query_lengths)
        queries = self.shape.queries or rows
        return self._bytes(queries + 2 * keys + rows)

    @property
    def set_bytes(self) -> int:
        """Return the bytes that an input set holds on the device, with what providers add.

        That is q repeated for every sequence and one out; for a backward also the gradient of out,
        an out for each of two providers, and the gradients of q, k and v.
        """
        keys, rows = sum(self.lengths), sum(self.query_lengths)
        more = 3 * rows + 2 * keys if self.direction is Direction.BACKWARD else 0
        return self.call_bytes + self._bytes(rows + more)

    def _bytes(self, rows: int) -> int:
        return rows * self.shape.heads * self.shape.head_dim * self.dtype.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Lap:
    """One timed call: ms between the GPU's events, and ms until the host had it queued."""

    device_ms: float
    host_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What was found of one provider on one case; `rounds` is empty unless it was measured.

    Attributes:
        reason: why it was not measured.
        error: the largest error found, relative (see `check`); None if nothing was compared.
        rounds: the laps of every round, in order.
        sets: input sets that took turns.
    """

    case: Case
    provider: str
    status: Status
    reason: str = ""
    error: float | None = None
    tolerance: float | None = None
    rounds: tuple[tuple[Lap, ...], ...] = field(default=(), repr=False)
    sets: int = 0

    @property
    def times(self) -> Spread | None:
        """Return median and percentiles of all laps of all rounds, in ms."""
        laps = [lap.device_ms for laps in self.rounds for lap in laps]
        return spread(laps) if laps else None

    @property
    def host_times(self) -> Spread | None:
        """Return the same of the host's time to queue a call, in ms."""
        laps = [lap.host_ms for laps in self.rounds for lap in laps]
        return spread(laps) if laps else None

    @property
    def tflops(self) -> float | None:
        """Return TFLOP/s at the median."""
        times = self.times
        return None if times is None else tflops(self.case.flops, times.median)
