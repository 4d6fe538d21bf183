"""Where a role waits for the stores that it has issued itself: before it writes their memory again.

What is in flight depends on how long the tiles are. The waits of ops that run once a tile are those
of the shortest tiles, which leave most in flight; longer ones only add younger stores. An op of a
step waits for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..algorithm import Engine, Mode, Space
from ..semantics.program import OpUse, Program, RoleProgram
from .move import COPY, Drain


def store_waits(program: Program, role_program: RoleProgram) -> dict[str, tuple[Drain, ...]]:
    """Return op -> the waits for stores before its points; ops without any are left out."""
    if not program.leaves_stores(role_program):
        return {}
    waits = _Waits(program, role_program)
    for _ in range(2):
        # The second tile finds what the first has left.
        waits.tile()
    return {name: drains for name, drains in waits.found.items() if drains}


class _Waits:
    """Walks tiles of one step, and remembers the buffers that stores still read, oldest first."""

    def __init__(self, program: Program, role_program: RoleProgram) -> None:
        self.program = program
        self.role_program = role_program
        self.reading: list[str] = []
        self.found: dict[str, tuple[Drain, ...]] = {}
        self.sources = set(self._sources())

    def _sources(self) -> Iterator[str]:
        for use in self.role_program.uses():
            if use.staging is not None:
                yield use.staging.buffer
            elif self.program.lingers(use):
                yield from self._buffers(use)

    def _buffers(self, use: OpUse) -> list[str]:
        return [self.program.holder(access.value).name for access in use.op.accesses()]

    def tile(self) -> None:
        """Walk one tile."""
        for use in self.role_program.uses():
            if use.staging is not None:
                self._staged(use)
            elif self.program.lingers(use):
                self.reading += self._buffers(use)
            elif use.op.engine is Engine.WARPS:
                self._written(use)

    def _staged(self, use: OpUse) -> None:
        """A slice waits for its slot in any case; for what else lies there, all slices do."""
        assert use.staging is not None
        ring, kept = use.staging.buffer, self.program.pending(use.staging)
        others = [name for name in self.sources - {ring} if self.program.shares_memory(name, ring)]
        self.found[use.op.name] = (Drain(COPY, 0),) if others and kept else ()
        kept = 0 if others else kept
        for _ in range(use.staging.pieces):
            self.reading = [*(self.reading[-kept:] if kept else ()), ring]

    def _written(self, use: OpUse) -> None:
        drains: list[Drain] = []
        for number, point in enumerate(use.op.points):
            written = {
                self.program.holder(access.value).name
                for access in point.accesses
                if access.mode is not Mode.READ
            }
            pending = self._younger(written, every=use.op.space is Space.STEP)
            if pending is not None:
                self.reading = self.reading[len(self.reading) - pending :]
                drains.append(Drain(number, pending))
        self.found[use.op.name] = tuple(drains)

    def _younger(self, written: set[str], *, every: bool) -> int | None:
        """Return how many stores may stay in flight when buffers are written; None for any."""

        def is_met(name: str) -> bool:
            return any(self.program.shares_memory(name, one) for one in written)

        if every:
            return 0 if any(map(is_met, self.sources)) else None
        return next((n for n, name in enumerate(reversed(self.reading)) if is_met(name)), None)
