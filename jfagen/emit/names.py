"""Names in the kernel's text, all from the schedule."""

from __future__ import annotations

from ..passes.channels import Channel
from ..semantics.program import Buffer, Program
from ..types import DType, Storage

#: Constants that spell the symbols of shapes.
DIMENSIONS = {"m": "BLOCK_M", "n": "BLOCK_N", "d": "HEAD_DIM"}
#: Element types as Triton spells them.
ELEMENTS = {DType.BF16: "tl.bfloat16", DType.FP16: "tl.float16", DType.F32: "tl.float32"}
#: The same as signatures spell them.
SIGNATURE_ELEMENTS = {DType.BF16: "bf16", DType.FP16: "fp16", DType.F32: "fp32"}


def tiles_name(buffer: str) -> str:
    """Return the array of a buffer's tiles."""
    return f"{buffer}_tiles"


def register_name(program: Program, value: str) -> str:
    """Return the variable of a value in registers; an output's name is that of its tensor."""
    return f"{value}_acc" if value in program.algorithm.outputs else value


def depth_name(buffer: str) -> str:
    """Return the constant for a ring's depth."""
    return f"{buffer.upper()}_DEPTH"


def slices_name(buffer: str) -> str:
    """Return the constant for the number of column slices."""
    return f"{buffer.upper()}_SLICES"


def columns_name(buffer: str) -> str:
    """Return the constant for the columns of one slice in a staging buffer."""
    return f"{buffer.upper()}_COLUMNS"


def held_name(buffer: str) -> str:
    """Return the constant for the slices that are held in registers before they are staged."""
    return f"{buffer.upper()}_HELD"


def meeting_name(role: str) -> str:
    """Return the constant for the named barrier at which the warps of a role meet."""
    return f"{role.upper()}_BARRIER"


def threads_name(role: str) -> str:
    """Return the constant for the threads of a role whose warps meet."""
    return f"{role.upper()}_THREADS"


def bytes_name(buffer: str) -> str:
    """Return the constant for the bytes that a load brings."""
    return f"{buffer.upper()}_BYTES"


#: Columns of a tile that lies as threads hold it: 128 bytes of float32, one row of all banks.
FLAT_COLUMNS = 32


def shape_text(buffer: Buffer) -> str:
    """Return a tile's shape; in tensor memory a vector is one column."""
    if buffer.flat:
        return "(FLAT_ROWS, FLAT_COLUMNS)"
    parts = [DIMENSIONS.get(symbol, columns_name(buffer.name)) for symbol in buffer.symbols]
    if len(parts) > 1:
        return f"({', '.join(parts)})"
    return f"({parts[0]}, 1)" if buffer.storage is Storage.TMEM else f"({parts[0]},)"


def text_shape(buffer: Buffer) -> tuple[int, ...]:
    """Return the shape of `shape_text` in numbers."""
    if buffer.flat:
        return (buffer.shape[0] * buffer.shape[1] // FLAT_COLUMNS, FLAT_COLUMNS)
    column = len(buffer.shape) == 1 and buffer.storage is Storage.TMEM
    return (*buffer.shape, 1) if column else buffer.shape


def copies_text(program: Program, buffer: Buffer) -> str:
    """Return how many tiles the array has: groups times depth."""
    factors = ["GROUPS"] if buffer.grouped and program.tile.groups > 1 else []
    if buffer.depth > 1:
        factors.append(depth_name(buffer.name))
    return " * ".join(factors) or "1"


def barriers_text(program: Program, channel: Channel) -> str:
    """Return how many barriers a channel's array has."""
    factors: list[str] = []
    if len(channel.groups) > 1:
        factors.append("GROUPS")
    if channel.slots > 1:
        factors.append(slots_text(program, channel))
    if channel.slices > 1:
        factors.append(slices_name(channel.buffers[0]))
    return " * ".join(factors) or "1"


def slots_text(program: Program, channel: Channel) -> str:
    """Return the depth of a channel: that of its ring, or a number."""
    buffer = program.buffer(channel.buffers[0])
    return depth_name(buffer.name) if buffer.depth == channel.slots > 1 else str(channel.slots)
