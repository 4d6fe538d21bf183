"""What a compiled schedule is, as plain facts that can be compared and sent between processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..diagnostics import quoted
from ..emit import end_words, number_words, phase_words, place_words
from ..passes.channels import ChannelKind
from ..semantics.program import GroupRef, OpUse, Program, RoleProgram
from ..semantics.regions import tree_words
from ..types import Storage
from .changes import Part

if TYPE_CHECKING:
    from ..driver import Compiled


#: The setting whose value is the name of a role.
ASKER = "asked for by"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpFact:
    """One op of a role.

    Attributes:
        name: of the op.
        words: as the schedule says it.
        groups: which it runs for; empty if it has none.
        offset: steps that it is ahead of the loop; a lag is negative.
        how: what else the schedule says of it: its slices, its turn, the barrier that it shares.
    """

    name: str
    words: str
    groups: tuple[int, ...]
    offset: int
    how: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFact:
    """One role.

    Attributes:
        warps: of one replica.
        registers: of one thread, those of the default role as derived.
        replicas: how many there are.
        default: whether it gets what registers are left.
        before, loop, after: its ops ahead of the loop, in it and behind it.
        peel: whether its loop is split so that the mask test leaves the main part.
    """

    name: str
    warps: int
    registers: int
    replicas: int
    default: bool
    before: tuple[OpFact, ...]
    loop: tuple[OpFact, ...]
    after: tuple[OpFact, ...]
    peel: bool

    @property
    def ops(self) -> tuple[OpFact, ...]:
        """Return all ops in order."""
        return self.before + self.loop + self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferFact:
    """One buffer.

    Attributes:
        storage: the memory.
        tile: type and dimensions, for example `bf16[n, d]`.
        depth: slots of its ring.
        slices: in how many it is handed over.
        holds: the values that take turns in it.
        place: the columns or bytes of its first slot; empty for registers.
        several: whether it has other slots, or groups, too.
    """

    name: str
    storage: Storage
    tile: str
    depth: int
    slices: int
    holds: tuple[str, ...]
    place: str
    several: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFact:
    """One array of barriers, in the words of the barrier table.

    Attributes:
        key: what it is, whatever the names are: its kind, the values that it guards, its ops.
    """

    key: tuple[str, ...]
    name: str
    number: str
    phase: str
    arrives: str
    waits: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that a comparison looks at.

    Attributes:
        title: how the schedule is called in headings.
        kernel: name of the kernel function.
        settings: what the schedule says of the whole kernel, word by word, by what it is about.
        kernels: how many kernels the schedule makes; all else is of one of them.
        shares: pairs of buffers that lie over each other, sorted.
        resources: figure -> value, in the order of the status block.
        verdicts: rule -> how it holds: `proved` or `enumerated`.
        text: of the kernel.
    """

    title: str
    kernel: str
    settings: dict[Part, dict[str, str]]
    kernels: int
    roles: tuple[RoleFact, ...]
    buffers: tuple[BufferFact, ...]
    shares: tuple[tuple[str, str], ...]
    channels: tuple[ChannelFact, ...]
    resources: dict[str, int]
    verdicts: dict[str, str]
    text: str


def facts_of(compiled: Compiled, title: str) -> Facts:
    """Return the facts of a compiled schedule."""
    program, resources = compiled.program, compiled.resources
    shares = sorted((min(pair), max(pair)) for pair in compiled.placement.layout.overlapping())
    figures = {
        "SMEM, bytes": resources.smem_bytes,
        "TMEM, columns": resources.tmem_columns,
        "threads": resources.threads,
        "barriers": resources.barriers,
        "registers, of all threads": resources.all_registers(program),
    }
    return Facts(
        title=title,
        kernel=program.name,
        settings=settings_of(program, compiled.instance.offered),
        kernels=compiled.instance.kernels,
        roles=tuple(_role(rp, resources.registers) for rp in program.role_programs),
        buffers=tuple(_buffers(compiled)),
        shares=tuple(shares),
        channels=tuple(_channels(compiled)),
        resources=figures,
        verdicts={rule: verdict.word for rule, verdict in compiled.proof.verdicts.items()},
        text=compiled.kernel.text,
    )


def settings_of(
    program: Program, offered: Mapping[str, tuple[str, ...]]
) -> dict[Part, dict[str, str]]:
    """Return what a schedule says of the whole kernel, and the values that it offers."""
    problem, tile, tiles = program.problem, program.tile, program.tiles
    groups = f" in {tile.groups} groups" if tile.groups > 1 else ""
    by_groups = {"m": "", "n": "", tile.group_dim: groups}
    kernel = {
        "algorithm": program.algorithm.name,
        "target": program.target.name,
        "head_dim": str(problem.head_dim),
        "dtype": str(problem.dtype),
        "q": str(problem.q),
        "mask": problem.mask,
        "tile m": f"{tile.m}{by_groups['m']}",
        "tile n": f"{tile.n}{by_groups['n']}",
        "index of the groups": tile.group_symbol or "none",
        "index of the steps": program.loop_symbol,
    }
    steps = {
        "start of the steps": "every CTA elsewhere" if program.staggered else "the first one",
        "order of the tiles": str(tiles.order).replace("_", " "),
        "next tile": str(tiles.next).replace("_", " "),
        ASKER: tiles.asker or "nobody",
    }
    return {
        Part.KERNEL: kernel | {name: " or ".join(values) for name, values in offered.items()},
        Part.PLACES: dict(_demands(program)),
        Part.TILES: steps,
    }


def _demands(program: Program) -> Iterator[tuple[str, str]]:
    """Yield what a schedule demands of where buffers lie."""
    for region in program.regions:
        yield f"region {region.name}", tree_words(region.tree)
    for name, groups in (("apart", program.apart), ("together", program.together)):
        if groups:
            yield name, "; ".join(quoted((leaf.buffer for leaf in one), "and") for one in groups)


def _role(role_program: RoleProgram, registers: dict[str, int]) -> RoleFact:
    role = role_program.role
    return RoleFact(
        name=role.name,
        warps=role.warps,
        registers=registers[role.name],
        replicas=role.replicas,
        default=role.default,
        before=tuple(map(_op, role_program.before)),
        loop=tuple(map(_op, role_program.loop)),
        after=tuple(map(_op, role_program.after)),
        peel=role_program.peel,
    )


def _op(use: OpUse) -> OpFact:
    how: list[str] = []
    if use.staging is not None:
        held = f", the last {use.staging.hold} held" if use.staging.hold else ""
        slices = f"in {use.staging.pieces} slices" if use.staging.pieces > 1 else "whole"
        how.append(f"{slices} through `{use.staging.buffer}`{held}")
    if use.turn >= 0:
        how.append(f"in turn {use.turn + 1}")
    if use.lands_with not in ("", use.op.name):
        how.append(f"on the barrier of `{use.lands_with}`")
    how += [f"waits for `{name}`{_of_step(offset)}" for name, offset in use.settles]
    groups = () if use.group_ref is GroupRef.NONE else use.groups
    return OpFact(
        name=use.op.name, words=use.span.text, groups=groups, offset=use.offset, how=tuple(how)
    )


def _of_step(offset: int) -> str:
    """Return of which step a matmul is that a role waits for, unless it is that of the loop."""
    if not offset:
        return ""
    steps = f"{abs(offset)} step{'s' * (abs(offset) > 1)}"
    return f" of {steps} {'before' if offset < 0 else 'ahead'}"


def _buffers(compiled: Compiled) -> Iterator[BufferFact]:
    for buffer in compiled.program.buffers:
        yield BufferFact(
            name=buffer.name,
            storage=buffer.storage,
            tile=f"{buffer.dtype}[{', '.join(buffer.symbols)}]{' of each group' * buffer.grouped}",
            depth=buffer.depth,
            slices=buffer.slices,
            holds=buffer.holds,
            place=place_words(compiled.placement, buffer.name),
            several=buffer.depth > 1 or (buffer.grouped and compiled.program.tile.groups > 1),
        )


def _channels(compiled: Compiled) -> Iterator[ChannelFact]:
    plan, program = compiled.plan, compiled.program
    for channel in compiled.sync.channels:
        held = [value for name in channel.buffers for value in program.buffer(name).holds]
        sites = [end.site for end in (*channel.signals, *channel.waits)]
        ops = [f"{site.op}[{site.group}]" for site in sites]
        yield ChannelFact(
            key=(str(channel.kind), *held, *(ops if channel.kind is ChannelKind.AFTER else ())),
            name=channel.name,
            number=number_words(channel),
            phase=phase_words(channel),
            arrives=end_words(plan, channel, channel.signals),
            waits=end_words(plan, channel, channel.waits),
        )
