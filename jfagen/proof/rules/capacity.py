"""capacity: columns, bytes, registers and threads fit, counted independently of the packer."""

from __future__ import annotations

from dataclasses import replace

from ...diagnostics import Diagnostic, Label, Note
from ...passes.layout import Layout, leaves, make_layout
from ...passes.needed import Illegal, needed_families
from ...passes.placement import copies
from ...plan import make_plan
from ...semantics.program import Buffer, Leaf, Over, Program, Region
from ...types import Storage
from ..resources import CAPTURE_BYTES, count_resources
from ..subject import Subject

ID = "capacity"
PROVES = "TMEM columns, SMEM bytes, registers and threads fit"


def check(subject: Subject) -> list[Diagnostic]:
    """Return every budget that is exceeded."""
    return [*_tmem(subject), *_smem(subject), *_registers(subject), *_threads(subject)]


def _sizes(program: Program, layout: Layout, storage: Storage) -> list[tuple[Buffer, int]]:
    return [
        (program.buffer(root), size * copies(program, program.buffer(root)))
        for root, size in layout.sizes.items()
        if program.buffer(root).storage is storage
    ]


def _notes(sizes: list[tuple[Buffer, int]], unit: str) -> tuple[Note, ...]:
    return tuple(
        Note(
            message=f"`{buffer.name}` takes {size:,} {unit}",
            label=Label(span=buffer.span),
        )
        for buffer, size in sizes
    )


def _tmem(subject: Subject) -> list[Diagnostic]:
    program = subject.plan.program
    sizes = _sizes(program, subject.placement.layout, Storage.TMEM)
    needed, limit = sum(size for _, size in sizes), program.target.tmem_columns
    if needed <= limit:
        return []
    apart = tuple(
        Note(message=f"`{leaf.buffer}` is to stay apart", label=Label(span=leaf.span))
        for group in program.apart
        for leaf in group
    )
    largest = max(sizes, key=lambda item: item[1])[0]
    where = program.apart[0][0].span if program.apart else largest.span
    return [
        Diagnostic(
            id="tmem-overflow",
            message=f"tensor memory needs {needed} columns, the target has {limit}",
            label=Label(span=where, message=f"{needed - limit} columns too many"),
            notes=(*apart, *_notes(sizes, "columns")),
            helps=(
                "let buffers share columns, use fewer groups or smaller tiles"
                if apart or program.regions
                else "no legal overlap brings it down further: use fewer groups or smaller tiles",
            ),
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
    largest = max(sizes, key=lambda item: item[1])[0]
    return [
        Diagnostic(
            id="smem-overflow",
            message=f"shared memory needs {needed:,} bytes, the target has {limit:,}",
            label=Label(span=largest.span, message=f"{needed - limit:,} bytes too many"),
            notes=(
                *_notes(sizes, "bytes"),
                Note(
                    message=f"buffers take {data:,} bytes, barriers and what the toolchain adds "
                    f"{needed - data:,}"
                ),
            ),
            helps=_smem_helps(subject, needed - limit, largest),
        )
    ]


def _smem_helps(subject: Subject, excess: int, largest: Buffer) -> tuple[str, ...]:
    """Return what would fit: legal overlaps by name, and a smaller depth."""
    helps: list[str] = []
    for host, guest in _free_smem_pairs(subject):
        saved = guest.bytes * copies(subject.plan.program, guest)
        if saved >= excess and _legal(subject, host, guest):
            helps.append(
                f"`region io {{ {guest.name} over {host.name} }}` saves {saved:,} bytes; the next "
                f"`{host.holds[0]}` then waits until `{guest.name}` has been read"
            )
    fewer = -(-excess // largest.bytes)
    if largest.depth > fewer:
        helps.append(f"a depth of {largest.depth - fewer} of `{largest.name}` fits")
    return tuple(helps)


def _free_smem_pairs(subject: Subject) -> list[tuple[Buffer, Buffer]]:
    program = subject.plan.program
    used = {leaf.buffer for region in program.regions for leaf in leaves(region.tree)}
    free = [b for b in program.buffers if b.storage is Storage.SMEM and b.name not in used]
    return [
        (host, guest)
        for index, host in enumerate(free)
        for guest in free[index + 1 :]
        if (host.bytes, host.depth, host.grouped) == (guest.bytes, guest.depth, guest.grouped)
    ]


def _legal(subject: Subject, host: Buffer, guest: Buffer) -> bool:
    program = subject.plan.program
    tree = Over(
        parts=(Leaf(buffer=host.name, span=host.span), Leaf(buffer=guest.name, span=guest.span))
    )
    region = Region(name="io", tree=tree, span=host.span)
    changed = replace(program, regions=(*program.regions, region))
    trees = tuple(r.tree for r in changed.regions) + subject.placement.chosen
    layout = make_layout(changed, trees)
    return not isinstance(needed_families(make_plan(changed), layout), Illegal)


def _registers(subject: Subject) -> list[Diagnostic]:
    program = subject.plan.program
    registers = count_resources(program, subject.placement, subject.sync).registers
    default = next(role for role in program.roles if role.default)
    left = registers[default.name]
    if left >= 24:
        return []
    others = ", ".join(
        f"{role.replicas} x {role.warps} warps at {role.registers}"
        for role in program.roles
        if not role.default
    )
    return [
        Diagnostic(
            id="register-overflow",
            message=f"the default role `{default.name}` is left with {left} registers a thread, "
            "at least 24 are needed",
            label=Label(span=default.span),
            notes=(Note(message=f"the other roles take {others}"),),
            helps=("ask for fewer registers in the roles with four or more warps",),
        )
    ]


def _threads(subject: Subject) -> list[Diagnostic]:
    program = subject.plan.program
    threads = count_resources(program, subject.placement, subject.sync).threads
    if threads <= program.target.threads:
        return []
    largest = max(program.roles, key=lambda role: role.warps * role.replicas)
    return [
        Diagnostic(
            id="thread-overflow",
            message=f"the roles need {threads} threads, a CTA has at most {program.target.threads}",
            label=Label(span=largest.span),
        )
    ]
