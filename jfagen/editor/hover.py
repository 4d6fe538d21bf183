"""What is said about a name or word under the cursor, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..algorithm import Algorithm, Mode
from ..diagnostics import Span, quoted
from ..driver import Compiled
from ..emit import extent_words, place_words
from ..explain import memory_figures, overlap_topic
from ..explain.lifetimes import lifetimes, role_lines
from ..passes.channels import Channel, End
from ..semantics.program import Buffer, OpUse, Program
from ..semantics.regions import tree_words
from ..syntax.names import Kind, Occurrence
from ..types import Storage
from .completion import op_words
from .document import Document
from .words import MEANINGS

_UNIT = {Storage.SMEM: "bytes", Storage.TMEM: "columns", Storage.REG: "registers"}
_MODES = {Mode.READ: "reads", Mode.WRITE: "writes", Mode.UPDATE: "updates"}


def hover_at(
    document: Document, offset: int, compiled: Compiled | None = None
) -> tuple[Span, str] | None:
    """Return the place and the words for what stands at `offset`; None if nothing is known of it.

    Args:
        document: the text.
        offset: of the cursor.
        compiled: the same text proved; without it, places and barriers are not told.
    """
    name = document.name_at(offset)
    if name is not None:
        lines = list(_lines(name, document, compiled))
        return (name.span, "\n\n".join(lines)) if lines else None
    word = document.word_at(offset)
    if word is None or word.text not in MEANINGS:
        return None
    span = document.source.span(word.start, word.end)
    return span, f"`{word.text}`: {MEANINGS[word.text]}"


def _lines(name: Occurrence, document: Document, compiled: Compiled | None) -> Iterator[str]:
    program, algorithm = document.program, document.algorithm
    match name.kind:
        case Kind.OP:
            yield from _op_lines(name, program, algorithm, compiled)
        case Kind.BUFFER | Kind.VALUE:
            yield from _buffer_lines(name, program, algorithm, compiled)
        case Kind.ROLE if program is not None:
            yield from _role_lines(name.text, program, compiled)
        case Kind.REGION if program is not None:
            region = next((one for one in program.regions if one.name == name.text), None)
            if region is not None:
                yield f"region `{region.name}`: `{tree_words(region.tree)}`"
                yield "what is over another lives at other times; what is in brackets, beside it"
        case Kind.SYMBOL:
            yield from _symbol_lines(name.text, document)
        case Kind.WALK:
            yield f"the steps of a tile walk over `{name.text}`"
        case Kind.KERNEL:
            yield f"kernel `{name.text}`: the function that this schedule becomes"
            yield from _kernel_lines(compiled) if compiled is not None else ()
        case Kind.ALGORITHM if algorithm is not None:
            ops = quoted((op.name for op in algorithm.ops), "then")
            yield f"`{algorithm.name}`, for every tile and step: {ops}"


def _op_lines(
    name: Occurrence,
    program: Program | None,
    algorithm: Algorithm | None,
    compiled: Compiled | None,
) -> Iterator[str]:
    use, role = _use_at(name, program)
    named = (op for op in (algorithm.ops if algorithm else ()) if op.name == name.text)
    op = use.op if use is not None else next(named, None)
    if op is None:
        return
    yield f"op `{op.name}`: {op_words(op)}{f', in role `{role}`' if role else ''}"
    for mode, word in _MODES.items():
        values = dict.fromkeys(one.value for one in op.accesses() if one.mode is mode)
        if values:
            yield f"{word} {quoted((_held(value, program) for value in values), 'and')}"
    for words, names in (
        ("reads the tensor", op.inputs), ("writes the tensor", op.outputs),
        ("takes from registers", op.takes), ("keeps in registers", op.keeps),
    ):  # fmt: skip
        if names:
            yield f"{words} {quoted(names, 'and')}"
    if use is not None and compiled is not None:
        yield from _channel_lines(use, compiled)


def _use_at(name: Occurrence, program: Program | None) -> tuple[OpUse | None, str | None]:
    """Return the op that stands at a name, in the form that the schedule gives it; its role."""
    uses = [
        (use, role_program.role.name)
        for role_program in (program.role_programs if program else ())
        for use in role_program.uses()
        if use.op.name == name.text
    ]
    here = [one for one in uses if one[0].span.start <= name.span.start < one[0].span.end]
    return next(iter([*here, *uses]), (None, None))


def _held(value: str, program: Program | None) -> str:
    buffer = _holder(value, program)
    return value if buffer is None or buffer.name == value else f"{value} in {buffer.name}"


def _channel_lines(use: OpUse, compiled: Compiled) -> Iterator[str]:
    groups = (*(use.groups or (-1,)), -1)

    def takes_part(channel: Channel, ends: tuple[End, ...]) -> bool:
        sites = (site for end in ends for site in channel.sites(end))
        return any(site.op == use.op.name and site.group in groups for site in sites)

    channels = compiled.sync.channels
    waits = [one.name for one in channels if takes_part(one, one.waits)]
    signals = [one.name for one in channels if takes_part(one, one.signals)]
    if waits:
        yield f"waits for {quoted(waits, 'and')}"
    if signals:
        yield f"completes {quoted(signals, 'and')}"


def _buffer_lines(
    name: Occurrence,
    program: Program | None,
    algorithm: Algorithm | None,
    compiled: Compiled | None,
) -> Iterator[str]:
    buffer = _buffer_of(name, program)
    if program is None or buffer is None:
        values = algorithm.values if algorithm else ()
        value = next((one for one in values if one.name == name.text), None)
        if value is not None:
            yield f"value `{name.text}`: [{', '.join(value.dims)}], new in every {value.space}"
        return
    yield f"`{buffer.name}`: {_size(buffer)}{_place(buffer, compiled)}"
    for lifetime in lifetimes(program, buffer):
        yield lifetime.words
        uses = (
            f"`{one.op}` {' and '.join(_MODES[mode] for mode in one.modes)} it ({one.role})"
            for one in lifetime.uses
        )
        yield "\n".join(f"- {use}" for use in uses)
    if compiled is not None and buffer.storage is not Storage.REG:
        yield _code(overlap_topic(compiled, buffer.name).split("\n"))


def _buffer_of(name: Occurrence, program: Program | None) -> Buffer | None:
    """Return the buffer of that name, or the one that holds the value of that name."""
    if name.kind is Kind.VALUE:
        return _holder(name.text, program)
    buffers = program.buffers if program else ()
    return next((buffer for buffer in buffers if buffer.name == name.text), None)


def _holder(value: str, program: Program | None) -> Buffer | None:
    buffers = program.buffers if program else ()
    return next((buffer for buffer in buffers if value in buffer.holds), None)


def _size(buffer: Buffer) -> str:
    tile = f"{buffer.dtype} {' x '.join(map(str, buffer.shape))}"
    ring = f", a ring of {buffer.depth} slots" if buffer.depth > 1 else ""
    each = " for each group" if buffer.grouped else ""
    if buffer.storage is Storage.REG:
        return f"{tile} in registers{each}"
    amount = buffer.columns if buffer.storage is Storage.TMEM else buffer.bytes
    memory = "tensor memory" if buffer.storage is Storage.TMEM else "shared memory"
    unit = _UNIT[buffer.storage].removesuffix("s" * (amount == 1))
    return f"{tile} in {memory}, {amount:,} {unit} a slot{ring}{each}"


def _place(buffer: Buffer, compiled: Compiled | None) -> str:
    """Return where the first slot lies, in words; empty as long as it is not known."""
    where = place_words(compiled.placement, buffer.name) if compiled else ""
    return f"; its first slot: {_UNIT[buffer.storage]} {where}" if where else ""


def _role_lines(name: str, program: Program, compiled: Compiled | None) -> Iterator[str]:
    role_program = next((p for p in program.role_programs if p.role.name == name), None)
    if role_program is None:
        return
    role = role_program.role
    registers = compiled.resources.registers[name] if compiled else role.registers
    asked = f", {registers} registers a thread" if registers else ""
    each = f", {role.replicas} replicas" if role.replicas > 1 else ""
    yield f"role `{name}`: {role.warps} warp{'s' * (role.warps > 1)}{asked}{each}"
    yield "\n".join(f"- {line}" for line in role_lines(role_program))


def _symbol_lines(name: str, document: Document) -> Iterator[str]:
    program = document.program
    if program is None:
        return
    tile = program.tile
    sizes = {"m": tile.m, "n": tile.n, "d": program.problem.head_dim}
    if name == program.loop_symbol:
        yield f"`{name}`: the step of the loop over `{program.algorithm.loop}`"
    elif name == tile.group_symbol:
        yield f"`{name}`: the index of the {tile.groups} groups of a tile"
    elif name in sizes:
        what = extent_words(program).get(name, "columns of q, k and v")
        yield f"`{name}` = {sizes[name]}: {what}"


def _kernel_lines(compiled: Compiled) -> Iterator[str]:
    yield _code(f"{rule}: {one.word}" for rule, one in compiled.proof.verdicts.items())
    figures = [f"{name} {words}" for name, words in memory_figures(compiled).items()]
    yield ", ".join([*figures, f"{compiled.resources.barriers} barriers"])


def _code(lines: Iterable[str]) -> str:
    return "\n".join(["```text", *lines, "```"])
