"""capacity: columns, bytes, registers and threads fit, counted independently of the packer.

What: TMEM columns (allocated in powers of two), SMEM bytes of buffers, barriers and tile channel,
the registers that are left for the default role, those that a role needs for the tiles that it
keeps in registers, threads.

Why: the toolchain compiles a kernel over any of these budgets; it fails when it is launched, or
silently runs without its register requests; tiles that do not fit are spilled.

Example: `smem kv : bf16[n, d]  depth 4` beside q and out takes 262,144 bytes of 232,448.

Fix: fewer slots, buffers that share a place (`region io[g] { out over q }`), smaller requests.

Assumes: what the toolchain adds to SMEM is at most what was measured; `jfagen compile` confirms it.
That 24 registers of a thread are enough for addresses and temporaries beside the tiles is a choice.
"""

from __future__ import annotations

from ...diagnostics import Diagnostic, Label, Note
from ...passes.layout import Layout
from ...passes.placement import copies
from ...semantics.program import Buffer, Program, RoleProgram
from ...target import WARP_THREADS
from ...types import Storage
from ..refit import columns_helps, registers_helps, smem_helps, tiles_helps
from ..register_tiles import SPARE_REGISTERS, RegisterTile, register_tiles
from ..resources import CAPTURE_BYTES, count_resources
from ..subject import Subject

ID = "capacity"
PROVES = "TMEM columns, SMEM bytes, registers and threads fit"

#: The fewest registers that a thread can be left with.
FEWEST_REGISTERS = 24


def check(subject: Subject) -> list[Diagnostic]:
    """Return every budget that is exceeded."""
    warps = _threads(subject) or _registers(subject) or _register_tiles(subject)
    return [*_tmem(subject), *_smem(subject), *warps]


def _sizes(program: Program, layout: Layout, storage: Storage) -> list[tuple[Buffer, int]]:
    return [
        (program.buffer(root), size * copies(program, program.buffer(root)))
        for root, size in layout.sizes.items()
        if program.buffer(root).storage is storage
    ]


def _notes(subject: Subject, sizes: list[tuple[Buffer, int]], unit: str) -> tuple[Note, ...]:
    """Return what takes the room: a note for each place, with what shares it."""
    apart = {leaf.buffer for group in subject.plan.program.apart for leaf in group}
    inside: dict[str, list[str]] = {}
    for name, extent in subject.placement.layout.extents.items():
        if name != extent.root:
            inside.setdefault(extent.root, []).append(name)
    return tuple(
        Note(
            message=f"`{buffer.name}`"
            + (" is to stay apart and" if buffer.name in apart else "")
            + f" takes {size:,} {unit}"
            + (f", with {_with(inside[buffer.name])}" if buffer.name in inside else ""),
            label=Label(span=buffer.span),
        )
        for buffer, size in sizes
    )


def _with(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) + " in its place"


def _tmem(subject: Subject) -> list[Diagnostic]:
    program = subject.plan.program
    sizes = _sizes(program, subject.placement.layout, Storage.TMEM)
    needed, limit = sum(size for _, size in sizes), program.target.tmem_columns
    if needed <= limit:
        return []
    apart = [leaf for group in program.apart for leaf in group]
    largest = max(sizes, key=lambda item: item[1])[0]
    where = apart[0].span.to(apart[-1].span) if len(program.apart) == 1 else largest.span
    return [
        Diagnostic(
            id="tmem-overflow",
            message=f"tensor memory needs {needed} columns, the target has {limit}",
            label=Label(span=where, message=f"{needed - limit} columns too many"),
            notes=_notes(subject, sizes, "columns"),
            helps=columns_helps(subject),
        )
    ]


def _smem(subject: Subject) -> list[Diagnostic]:
    program = subject.plan.program
    needed = count_resources(program, subject.placement, subject.sync).smem_bytes + CAPTURE_BYTES
    limit = program.target.smem_bytes
    if needed <= limit:
        return []
    sizes = _sizes(program, subject.placement.layout, Storage.SMEM)
    data = sum(size for _, size in sizes)
    deep = [buffer for buffer, _ in sizes if buffer.depth > 1]
    largest = max(sizes, key=lambda item: (item[0] in deep, item[1]))[0]
    return [
        Diagnostic(
            id="smem-overflow",
            message=f"shared memory needs {needed:,} bytes, the target has {limit:,}",
            label=Label(span=largest.span, message=f"{needed - limit:,} bytes too many"),
            notes=(
                *_notes(subject, sizes, "bytes"),
                Note(
                    message=f"buffers take {data:,} bytes, barriers and what the toolchain adds "
                    f"{needed - data:,}"
                ),
            ),
            helps=smem_helps(subject, needed - limit),
        )
    ]


def _registers(subject: Subject) -> list[Diagnostic]:
    program = subject.plan.program
    registers = count_resources(program, subject.placement, subject.sync).registers
    default = next(role for role in program.roles if role.default)
    left = registers[default.name]
    if left >= FEWEST_REGISTERS:
        return []
    asking = [role for role in program.roles if not role.default]
    most = max(asking, key=lambda role: role.warps * role.replicas * (role.registers or 0))
    warps = (f"{most.replicas} x " if most.replicas > 1 else "") + f"{most.warps} warps"
    return [
        Diagnostic(
            id="register-overflow",
            message=f"the default role `{default.name}` is left with {left} registers a thread, "
            f"at least {FEWEST_REGISTERS} are needed",
            label=Label(span=default.span),
            notes=(
                Note(
                    message=f"`{most.name}` asks for {most.registers} a thread in {warps}; an SM "
                    f"has {program.target.registers:,} in all",
                    label=Label(span=most.span),
                ),
            ),
            helps=registers_helps(program, FEWEST_REGISTERS),
        )
    ]


def _register_tiles(subject: Subject) -> list[Diagnostic]:
    """Tiles in registers fit into those of their role, beside a margin for everything else."""
    program = subject.plan.program
    registers = count_resources(program, subject.placement, subject.sync).registers
    found: list[Diagnostic] = []
    for role_program in program.role_programs:
        tiles = register_tiles(program, role_program)
        has, needed = registers[role_program.role.name], sum(tile.registers for tile in tiles)
        if tiles and needed > has - SPARE_REGISTERS:
            found.append(_tiles_over(program, role_program, tiles, has))
    return found


def _tiles_over(
    program: Program, role_program: RoleProgram, tiles: list[RegisterTile], has: int
) -> Diagnostic:
    role = role_program.role
    needed, room = sum(tile.registers for tile in tiles), has - SPARE_REGISTERS
    threads = role.warps * WARP_THREADS
    return Diagnostic(
        id="register-tiles",
        message=f"the tiles of `{role.name}` take {needed} registers a thread, there is room for "
        f"{room}",
        label=Label(span=role.span, message=f"{needed - room} registers too many"),
        notes=(
            *(
                Note(
                    message=f"`{tile.name}` takes {tile.registers}: {_size(tile)} in "
                    f"{threads} threads",
                    label=Label(span=tile.span),
                )
                for tile in tiles
            ),
            Note(
                message=f"`{role.name}` has {has} registers a thread, and {SPARE_REGISTERS} of "
                "them are for addresses and temporaries"
            ),
        ),
        helps=tiles_helps(program, role, has, FEWEST_REGISTERS),
    )


def _size(tile: RegisterTile) -> str:
    if len(tile.shape) == 1:
        return f"a vector of {tile.shape[0]} rows"
    size = " x ".join(map(str, tile.shape)) + f" of {tile.element_bytes} bytes"
    return f"{tile.tiles} slices, each {size}," if tile.slices else size


def _threads(subject: Subject) -> list[Diagnostic]:
    program = subject.plan.program
    threads = count_resources(program, subject.placement, subject.sync).threads
    limit = program.target.threads
    if threads <= limit:
        return []
    largest = max(program.roles, key=lambda role: role.warps * role.replicas)
    return [
        Diagnostic(
            id="thread-overflow",
            message=f"the roles need {threads:,} threads, a CTA has at most {limit:,}",
            label=Label(span=largest.span, message=f"{threads - limit:,} threads too many"),
            notes=tuple(
                Note(
                    message=f"`{role.name}` has {role.warps * role.replicas} warps of 32 threads",
                    label=Label(span=role.span),
                )
                for role in program.roles
                if role.warps * role.replicas > 1
            ),
            helps=("a role that only issues needs 1 warp",),
        )
    ]
