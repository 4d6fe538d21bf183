"""From which op to which a buffer's values live, in the algorithm's own order."""

from __future__ import annotations

from dataclasses import dataclass

from ..algorithm import Mode, Space
from ..diagnostics import quoted
from ..semantics.program import Buffer, OpUse, Program, RoleProgram


@dataclass(frozen=True, slots=True)
class Use:
    """One op that touches a value.

    Attributes:
        op: as the schedule says it, for example `pv[g][i-1]`.
        role: that runs it.
        modes: what it does to the value, in order.
        offset: steps that it runs ahead of the loop; negative for a lag.
    """

    op: str
    role: str
    modes: tuple[Mode, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How one value lives.

    Attributes:
        value: its name.
        space: whether it is new in every tile or in every step.
        maker: what makes it; None if nothing of the schedule does.
        uses: in the algorithm's order.
    """

    value: str
    space: Space
    maker: Use | None
    uses: tuple[Use, ...]

    @property
    def words(self) -> str:
        """Return from where to where it lives."""
        each = "each tile" if self.space is Space.TILE else "each step"
        if self.maker is None:
            return f"`{self.value}` is new in {each}"
        last = next((use for use in reversed(self.uses) if Mode.READ in use.modes), self.uses[-1])
        # What lives for a tile ends with its last step, whatever runs ahead.
        later = self.maker.offset - last.offset if self.space is Space.STEP else 0
        after = {1: ", a step later"}.get(later, f", {later} steps later") if later > 0 else ""
        return f"`{self.value}` lives from `{self.maker.op}` to `{last.op}` in {each}{after}"


def lifetimes(program: Program, buffer: Buffer) -> tuple[Lifetime, ...]:
    """Return the lifetime of each value that a buffer holds."""
    return tuple(_lifetime(program, value) for value in buffer.holds)


def _lifetime(program: Program, value: str) -> Lifetime:
    placed: dict[str, list[tuple[OpUse, RoleProgram]]] = {}
    for role_program in program.role_programs:
        for use in role_program.uses():
            placed.setdefault(use.op.name, []).append((use, role_program))

    found: list[tuple[int, Use]] = []
    for op in program.algorithm.ops:
        accesses = [access for access in op.accesses() if access.value == value]
        for use, role_program in placed.get(op.name, ()) if accesses else ():
            role = role_program.role.name
            begins = min(access.first_step for access in accesses)
            modes = tuple(dict.fromkeys(access.mode for access in accesses))
            found.append((begins, Use(use.span.text, role, modes, use.offset)))
    # An op that leaves the first step alone does not make the value.
    maker = min(found, key=lambda one: one[0], default=(0, None))[1]
    space = program.algorithm.value(value).space
    return Lifetime(value, space, maker, tuple(use for _, use in found))


def role_lines(role_program: RoleProgram) -> list[str]:
    """Return what a role does: before the loop, in every step, after it."""
    parts = (
        ("before the loop", role_program.before),
        ("every step", role_program.loop),
        ("after the loop", role_program.after),
    )
    return [
        f"{when}: {quoted((use.span.text for use in uses), 'then')}" for when, uses in parts if uses
    ]
