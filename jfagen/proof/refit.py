"""What would fit: changes of a schedule over a budget that were tried and are legal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..algorithm import Engine
from ..diagnostics import (
    Edit,
    Fix,
    Span,
    below,
    count,
    drop,
    phrase,
    put,
    quoted,
    removal,
)
from ..passes.needed import Illegal, needed_families
from ..passes.placement import Placement, copies, place
from ..planning import make_plan
from ..semantics.program import Buffer, OpUse, Program, Role
from ..semantics.regions import Leaf, Over, Region, leaves
from ..target import WARPS_PER_GROUP, default_role_registers
from ..types import Storage
from .register_tiles import needed_registers
from .subject import Subject

_SMALLER = "use fewer groups or smaller tiles"


def columns_helps(subject: Subject) -> tuple[str, ...]:
    """Return what brings tensor memory under its limit."""
    program = subject.plan.program
    limit = program.target.tmem_columns
    helps: list[str] = []
    if program.apart and _columns_fit(replace(program, apart=()), limit):
        words = "drop `apart`: the packer then finds an overlap that fits and is legal"
        helps.append(Fix(words, *(removal(_line_of(group)) for group in program.apart)))
    for region in program.regions:
        others = tuple(other for other in program.regions if other is not region)
        if _columns_fit(replace(program, regions=others), limit):
            name = f"`region {region.name}`"
            words = f"drop {name}: the packer then finds an overlap that fits and is legal"
            helps.append(drop(words, region.whole))
    for changed, rings, depth in _shallower(program, Storage.TMEM):
        if _columns_fit(changed, limit):
            helps.append(_fits(rings, depth))
            break
    return tuple(helps) or (_SMALLER,)


def _line_of(group: tuple[Leaf, ...]) -> Span:
    """Return the place of `apart { ... }`."""
    inside = phrase("apart", group[0].span.to(group[-1].span))
    return inside.source.span(inside.start, inside.source.text.index("}", inside.end) + 1)


def _columns_fit(program: Program, limit: int) -> bool:
    placement = legal_placement(program)
    return placement is not None and placement.columns <= limit


def legal_placement(program: Program) -> Placement | None:
    """Return the placement of a changed program; None if its order is illegal."""
    plan = make_plan(program)
    placement = place(plan)
    if isinstance(needed_families(plan, placement.layout), Illegal):
        return None
    return placement


def _shallower(
    program: Program, storage: Storage
) -> Iterator[tuple[Program, tuple[Buffer, ...], int]]:
    """Yield the program with one ring shallower, the ring and its depth, deepest first.

    Rings whose loads land on one barrier have one depth: they come together.
    """
    shared = {leaf.buffer for region in program.regions for leaf in leaves(region.tree)}
    for buffer in program.buffers:
        rings = _landing_together(program, buffer)
        if buffer.storage is storage and buffer is rings[0] and buffer.name not in shared:
            for depth in range(buffer.depth - 1, 0, -1):
                less = {ring.name: replace(ring, depth=depth) for ring in rings}
                buffers = tuple(less.get(other.name, other) for other in program.buffers)
                yield replace(program, buffers=buffers), rings, depth


def _landing_together(program: Program, buffer: Buffer) -> tuple[Buffer, ...]:
    """Return the buffers whose loads land on one barrier with those of a buffer, and itself."""
    barrier_of = {
        program.holder(access.value).name: use.lands_with or use.op.name
        for role_program in program.role_programs
        for use in role_program.uses()
        for access in (use.op.accesses() if use.op.engine is Engine.LOAD else ())
    }
    barrier = barrier_of.get(buffer.name)
    return tuple(
        other
        for other in program.buffers
        if other is buffer or (barrier is not None and barrier_of.get(other.name) == barrier)
    )


def smem_helps(subject: Subject, excess: int) -> tuple[str, ...]:
    """Return what brings shared memory under its limit: legal overlaps, and a smaller depth."""
    program = subject.plan.program
    helps: list[str] = []
    for host, guest in _free_pairs(program):
        saved = guest.bytes * copies(program, guest)
        name = next(n for n in _region_names(guest) if n not in {r.name for r in program.regions})
        if (
            saved >= excess
            and legal_placement(_with_region(program, name, host, guest)) is not None
        ):
            group = f"[{program.tile.group_symbol}]" if guest.grouped else ""
            line = f"region {name}{group} {{ {guest.name} over {host.name} }}"
            words = (
                f"add `{line}`: it saves {saved:,} bytes, and the next `{host.holds[0]}` waits "
                f"until `{guest.name}` has been read"
            )
            last = program.buffers[-1].declared
            helps.append(below(words, last.whole, line) if last else words)
    helps += _larger_regions(program, excess)
    done: set[str] = set()
    for changed, rings, depth in _shallower(program, Storage.SMEM):
        less = sum((r.depth - depth) * r.bytes * copies(program, r) // r.depth for r in rings)
        if less >= excess and rings[0].name not in done:
            done.add(rings[0].name)  # what is shallower still waits more and fits no better
            if legal_placement(changed) is not None:
                helps.append(_fits(rings, depth))
    return tuple(helps) or (_SMALLER,)


def _fits(rings: tuple[Buffer, ...], depth: int) -> str:
    names = quoted([ring.name for ring in rings], "and")
    words = f"{names} {'fits' if len(rings) == 1 else 'fit'} with `depth {depth}`"
    advices = [count(words, ring.declared, "depth", depth) for ring in rings]
    edits = [edit for one in advices if isinstance(one, Fix) for edit in one.edits]
    return Fix(words, *edits) if len(edits) == len(rings) else words


def _larger_regions(program: Program, excess: int) -> Iterator[str]:
    """Yield regions that one more buffer can join, whose place is then saved."""
    taken = {leaf.buffer for region in program.regions for leaf in leaves(region.tree)}
    for region in program.regions:
        inside = [program.buffer(leaf.buffer) for leaf in leaves(region.tree)]
        if not isinstance(region.tree, Over) or len(inside) != len(region.tree.parts):
            continue
        sizes = {(b.bytes, b.depth, b.grouped) for b in inside}
        for guest in program.buffers:
            saved = guest.bytes * copies(program, guest)
            like = sizes == {(guest.bytes, guest.depth, guest.grouped)}
            if guest.name in taken or guest.storage is not Storage.SMEM or not like:
                continue
            joined = Over(parts=(*region.tree.parts, Leaf(buffer=guest.name, span=guest.span)))
            regions = tuple(
                replace(one, tree=joined) if one is region else one for one in program.regions
            )
            if saved >= excess and legal_placement(replace(program, regions=regions)) is not None:
                parts = " over ".join(b.name for b in (*inside, guest))
                group = f"[{program.tile.group_symbol}]" if guest.grouped else ""
                line = f"region {region.name}{group} {{ {parts} }}"
                yield put(f"write `{line}`: it saves {saved:,} bytes", region.whole, line)


def _region_names(guest: Buffer) -> tuple[str, ...]:
    return ("io", f"{guest.name}_place", f"place_of_{guest.name}")


def _free_pairs(program: Program) -> list[tuple[Buffer, Buffer]]:
    used = {leaf.buffer for region in program.regions for leaf in leaves(region.tree)}
    free = [b for b in program.buffers if b.storage is Storage.SMEM and b.name not in used]
    return [
        (host, guest)
        for index, host in enumerate(free)
        for guest in free[index + 1 :]
        if (host.bytes, host.depth, host.grouped) == (guest.bytes, guest.depth, guest.grouped)
    ]


def _with_region(program: Program, name: str, host: Buffer, guest: Buffer) -> Program:
    tree = Over(
        parts=(Leaf(buffer=guest.name, span=guest.span), Leaf(buffer=host.name, span=host.span))
    )
    region = Region(name=name, tree=tree, span=host.span, whole=host.span)
    return replace(program, regions=(*program.regions, region))


def registers_helps(program: Program, fewest: int) -> tuple[str, ...]:
    """Return the largest request of one role that leaves the default role enough."""
    helps: list[str] = []
    for asking in program.roles:
        if asking.default or asking.warps < WARPS_PER_GROUP:
            continue
        least = max(fewest, needed_registers(program, asking.name))
        for registers in range((asking.registers or fewest) - 8, least - 1, -8):
            left = _left(program, asking, registers)
            if left >= fewest:
                words = f"with `registers {registers}` in `{asking.name}` there are {left} left"
                helps.append(count(words, asking.declared, "registers", registers))
                break
    return tuple(helps) or ("use fewer warps, or fewer groups",)


def _left(program: Program, asking: Role, registers: int) -> int:
    """Return what the default role is left with if one role asks for other registers."""
    default = next(role for role in program.roles if role.default)
    requests = [
        (role.warps, registers if role is asking else role.registers or 0)
        for role in program.roles
        if not role.default
        for _ in range(role.replicas)
    ]
    return default_role_registers(program.target, default.warps, requests)


def tiles_helps(program: Program, role: Role, registers: int, fewest: int) -> tuple[str, ...]:
    """Return what makes room for the tiles that a role keeps in registers.

    Args:
        program: the program in which they do not fit.
        role: whose tiles they are.
        registers: what a thread of it has.
        fewest: registers that the default role must be left with.
    """
    helps: list[str] = []
    needed = needed_registers(program, role.name)
    enough = -(-needed // 8) * 8
    if role.default:
        helps += [said for said in registers_helps(program, needed) if said.startswith("with")]
    elif enough <= program.target.registers_per_thread and _left(program, role, enough) >= fewest:
        words = f"write `registers {enough}` for `{role.name}`"
        helps.append(count(words, role.declared, "registers", enough))
    for keys in program.algorithm.extents["n"].sizes[program.target.name]:
        if keys < program.tile.n and needed_registers(_with_keys(program, keys), role.name) <= (
            registers
        ):
            helps.append(f"with `n {keys}` the tiles fit")
    helps += _earlier_waits(program, role, registers)
    staging = program.program_of(role.name).staging
    for hold in range(staging.hold - 1, -1, -1) if staging is not None else ():
        if needed_registers(_with_hold(program, role, hold), role.name) <= registers:
            helps.append(f"with `hold {hold}` they fit")
            break
    return tuple(helps) or (_SMALLER,)


def _earlier_waits(program: Program, role: Role, registers: int) -> Iterator[str]:
    """Yield the waits for matmuls that free enough registers: the latest of each that do."""
    loop = program.program_of(role.name).loop
    for issued, matmul in enumerate(loop):
        for later in reversed(loop[issued + 1 :]) if program.joins(matmul.op) else ():
            settled = replace(later, settles=(*later.settles, (matmul.op.name, matmul.offset)))
            uses = tuple(settled if use is later else use for use in loop)
            if needed_registers(_with_loop(program, role, uses), role.name) <= registers:
                wait = f"wait {matmul.span.text}"
                words = f"write `{wait}` before `{later.span.text}`"
                place = later.whole and later.span.source.span(later.whole.start, later.whole.start)
                yield Fix(words, Edit(place, f"{wait}  ")) if place else words
                break


def _with_loop(program: Program, role: Role, loop: tuple[OpUse, ...]) -> Program:
    """Return a program in which a role's loop is another one."""
    programs = tuple(
        replace(rp, loop=loop) if rp.role is role else rp for rp in program.role_programs
    )
    return replace(program, role_programs=programs)


def _with_hold(program: Program, role: Role, hold: int) -> Program:
    """Return a program in which a role holds other slices."""

    def held(use: OpUse) -> OpUse:
        staging = use.staging
        return use if staging is None else replace(use, staging=replace(staging, hold=hold))

    return _with_loop(program, role, tuple(map(held, program.program_of(role.name).loop)))


def _with_keys(program: Program, keys: int) -> Program:
    """Return a program with other key rows a step."""
    buffers = tuple(
        replace(
            buffer,
            shape=tuple(
                keys if symbol == "n" else extent
                for symbol, extent in zip(buffer.symbols, buffer.shape, strict=True)
            ),
        )
        for buffer in program.buffers
    )
    return replace(program, buffers=buffers, tile=replace(program.tile, n=keys))
