"""`async_tasks` and `async_task`: how a CTA splits into roles and comes together again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from .machine import Machine
from .report import Blocked, Fault, MachineFault, MachineStop
from .scheduler import Role
from .values import Value

Body = Callable[[], None]


@dataclass(slots=True, eq=False)
class _Declared:
    body: Body
    default: bool
    warps: int
    registers: int | None
    replicate: int
    line: int


class RoleScope:
    """The `with tlx.async_tasks()` block: starts all roles at its end and waits for them."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __enter__(self) -> RoleScope:
        self._machine.cta.role_scopes.append([])
        return self

    def __exit__(self, kind: Value, error: Value, traceback: Value) -> None:
        machine = self._machine
        declared: list[_Declared] = machine.cta.role_scopes.pop()
        if kind is not None:
            return
        _check(declared)
        machine.cta.memory.place()
        machine.cta.entered = True
        parent = machine.role
        roles = [
            _role(machine, entry, number, replica)
            for number, entry in enumerate(declared)
            for replica in range(entry.replicate)
        ]
        for role, body in roles:
            role.before = parent.before
            machine.cta.roles.append(role)
            machine.scheduler.start(role, partial(machine.guard, body))
        _join(machine, parent, [role for role, _ in roles])


def _role(machine: Machine, entry: _Declared, number: int, replica: int) -> tuple[Role, Body]:
    fallback = "default" if entry.default else f"role {number}"
    base = machine.source.role_name(entry.line) or fallback
    stem = base.split("[")[0]
    name = f"{stem}[{replica}]" if entry.replicate > 1 else base
    role = Role(
        name=name,
        base_name=stem,
        replica=replica,
        warps=machine.warps if entry.default else entry.warps,
        cta=machine.cta,
        number=0,
        line=entry.line,
    )
    return role, entry.body


def _join(machine: Machine, parent: Role, roles: list[Role]) -> None:
    place = machine.place()
    parent.joining = True
    machine.scheduler.wait(
        lambda: all(role.finished for role in roles),
        lambda: Blocked(place=place, barrier="the end of all roles", slot=0, phase=0, completed=0),
    )
    parent.joining = False
    for role in roles:
        parent.before |= role.before
        if role.store_groups:
            rule, first = "unfinished-store", role.store_groups[0]
            message = "the CTA ends without a wait for this TMA store, which still reads SMEM"
            raise MachineStop(Fault(rule=rule, message=message, place=first.place))
        if role.dots:
            message = "the role ends without a wait for this async_dot, which may still read SMEM"
            raise MachineStop(
                Fault(rule="unfinished-dot", message=message, place=role.dots[0].place)
            )


def _check(declared: list[_Declared]) -> None:
    if sum(entry.default for entry in declared) != 1:
        raise MachineFault("roles", "a kernel has exactly one default role")
    asked = {entry.registers is not None for entry in declared if not entry.default}
    if len(asked) > 1:
        raise MachineFault("roles", "registers are set for all roles but the default, or for none")
    for entry in declared:
        if entry.warps < 1 or entry.warps & (entry.warps - 1):
            raise MachineFault("roles", f"a role of {entry.warps} warps: not a power of two")
        if entry.registers is not None and (entry.registers % 8 or entry.default):
            raise MachineFault("roles", f"a role cannot ask for {entry.registers} registers")


def async_tasks(machine: Machine, exclusive: bool = False, **_: Value) -> RoleScope:
    """Return the scope in which the roles of a CTA are declared."""
    return RoleScope(machine)


def async_task(
    machine: Machine,
    *names: Value,
    num_warps: Value = 1,
    registers: Value = None,
    num_regs: Value = None,
    replicate: Value = 1,
    warp_group_start_id: Value = None,
) -> Callable[[Body], None]:
    """Return a decorator that declares its function as the body of a role.

    Raises:
        MachineFault: outside `async_tasks`.
    """
    wanted = registers if registers is not None else num_regs
    line = machine.line()
    if not machine.cta.role_scopes:
        raise MachineFault("roles", "async_task outside async_tasks")

    def declare(body: Body) -> None:
        machine.cta.role_scopes[-1].append(
            _Declared(
                body=body,
                default=names == ("default",),
                warps=int(num_warps),
                registers=None if wanted is None else int(wanted),
                replicate=int(replicate),
                line=line,
            )
        )

    return declare


def async_task_replica_id(machine: Machine) -> int:
    """Return which replica of its role runs now."""
    return machine.role.replica


ROLE_OPS = {
    function.__name__: function for function in (async_tasks, async_task, async_task_replica_id)
}
