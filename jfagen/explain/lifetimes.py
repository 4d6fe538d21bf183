"""From which op to which a buffer's values live, in the algorithm's own order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..algorithm import Mode, Op, Space
from ..diagnostics import quoted
from ..semantics.program import Buffer, OpUse, Program, RoleProgram


@dataclass(frozen=True, slots=True)
class Use:
    """One op that touches a value.

    Attributes:
        op: as the schedule says it, for example `pv[g][i-1]`.
        role: that runs it.
        mode: what it does to the value.
        offset: steps that it runs ahead of the loop; negative for a lag.
    """

    op: str
    role: str
    mode: Mode
    offset: int


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How one value lives.

    Attributes:
        value: its name.
        space: whether it is new in every tile or in every step.
        uses: in the algorithm's order: the first one makes it, the last one is its end.
    """

    value: str
    space: Space
    uses: tuple[Use, ...]

    @property
    def words(self) -> str:
        """Return from where to where it lives."""
        each = "each tile" if self.space is Space.TILE else "each step"
        if not self.uses:
            return f"`{self.value}` is new in {each}"
        first = self.uses[0]
        last = next((use for use in reversed(self.uses) if use.mode is Mode.READ), self.uses[-1])
        later = first.offset - last.offset
        after = {0: "", 1: ", a step later"}.get(later, f", {later} steps later")
        return f"`{self.value}` lives from `{first.op}` to `{last.op}` in {each}{after}"


def lifetimes(program: Program, buffer: Buffer) -> tuple[Lifetime, ...]:
    """Return the lifetime of each value that a buffer holds."""
    return tuple(
        Lifetime(value, program.algorithm.value(value).space, tuple(_uses(program, value)))
        for value in buffer.holds
    )


def _uses(program: Program, value: str) -> Iterator[Use]:
    placed: dict[str, list[tuple[OpUse, RoleProgram]]] = {}
    for role_program in program.role_programs:
        for use in role_program.uses():
            placed.setdefault(use.op.name, []).append((use, role_program))

    def begins(op: Op) -> int:
        return min((a.first_step for a in op.accesses() if a.value == value), default=0)

    # An op that leaves the first step alone does not make the value.
    for op in sorted(program.algorithm.ops, key=begins):
        accesses = [access for access in op.accesses() if access.value == value]
        for use, role_program in placed.get(op.name, ()) if accesses else ():
            yield Use(op_text(use), role_program.role.name, accesses[-1].mode, use.offset)


def op_text(use: OpUse) -> str:
    """Return the op and its indices as the schedule writes them, without its slices."""
    return use.span.text.split(" in ")[0]


def role_lines(role_program: RoleProgram) -> list[str]:
    """Return what a role does: before the loop, in every step, after it."""
    parts = (
        ("before the loop", role_program.before),
        ("every step", role_program.loop),
        ("after the loop", role_program.after),
    )
    return [f"{when}: {quoted(map(op_text, uses), 'then')}" for when, uses in parts if uses]
