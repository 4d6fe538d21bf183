"""The Triton side of `tiles`: imported only where a kernel can run.

A tile list in one launch: every program places one sequence by counting those that come before it.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .complaint import KV_OFFSETS, Q_OFFSETS, SEQUENCE_BITS

WHOSE_KV = tl.constexpr(KV_OFFSETS)
WHOSE_Q = tl.constexpr(Q_OFFSETS)
SHIFT = tl.constexpr(SEQUENCE_BITS)


@triton.jit
def execute(instruction: tl.constexpr):  # noqa: ANN201
    """Let every thread execute an instruction of PTX without operands."""
    tl.inline_asm_elementwise(
        "{ " + instruction + " mov.s32 $0, $1; }",
        "=r,r",
        [tl.full((128,), 0, tl.int32)],  # one element for each thread of the 4 warps
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def stop_if(flag, word, WHOSE: tl.constexpr, sequence):  # noqa: ANN001, ANN201
    """Say which sequence of which offsets is wrong and end the kernel with a trap."""
    if flag:
        if WHOSE == WHOSE_KV:
            tl.device_print("jfagen: kv_offsets are wrong at sequence", sequence)
        else:
            tl.device_print("jfagen: q_offsets are wrong at sequence", sequence)
        tl.store(word, sequence.to(tl.int64) + (WHOSE << SHIFT))
        # One thread stores; none may trap before the word has reached the host.
        execute("membar.sys;")
        tl.debug_barrier()
        execute("trap;")


@triton.jit
def border(offsets, at, sequences, rows):  # noqa: ANN001, ANN201
    """Where sequences begin; those past the last offset begin after the last row."""
    known = tl.load(offsets + at, mask=at <= sequences, other=0)
    return tl.where(at <= sequences, known, rows)


@triton.jit
def key_blocks(kv_offsets, at, sequences, total_keys, KEYS: tl.constexpr):  # noqa: ANN001, ANN201
    """How many blocks the keys of sequences have."""
    keys = border(kv_offsets, at + 1, sequences, total_keys)
    keys -= border(kv_offsets, at, sequences, total_keys)
    return ((keys + KEYS - 1) // KEYS).to(tl.int32)


@triton.jit
def write_run(places, first, end, room, value, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201
    """Write a value to the places from the first up to the end, but to none outside the list."""
    for start in range(first, end, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(places + at, value, mask=(at >= 0) & (at < end) & (at < room))


@triton.jit
def look_at(offsets, sequence, rows, word, WHOSE: tl.constexpr):  # noqa: ANN001, ANN201
    """Stop if a sequence starts before 0 or after its end, or ends after the last row."""
    start = tl.load(offsets + sequence)
    stop = tl.load(offsets + sequence + 1)
    stop_if(
        (stop < start) | (stop > rows) | ((sequence == 0) & (start != 0)), word, WHOSE, sequence
    )


@triton.jit(do_not_specialize=["sequences", "total_keys"])
def order_sequences(  # noqa: ANN201
    kv_offsets,  # noqa: ANN001
    order,  # noqa: ANN001
    bounds,  # noqa: ANN001
    word,  # noqa: ANN001
    sequences,  # noqa: ANN001
    total_keys,  # noqa: ANN001
    LOOKS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sequences by falling number of keys, and the offsets as int32: one program for each."""
    sequence = tl.program_id(0)
    if LOOKS:
        look_at(kv_offsets, sequence, total_keys, word, WHOSE_KV)
    start = tl.load(kv_offsets + sequence)
    stop = tl.load(kv_offsets + sequence + 1)
    place = 0
    for first in range(0, sequences, BLOCK):
        other = first + tl.arange(0, BLOCK)
        inside = other < sequences
        lengths = tl.load(kv_offsets + other + 1, mask=inside, other=0)
        lengths -= tl.load(kv_offsets + other, mask=inside, other=0)
        before = (lengths > stop - start) | ((lengths == stop - start) & (other < sequence))
        place += tl.sum((inside & before).to(tl.int32), 0)
    tl.store(order + place, sequence)
    tl.store(bounds + sequence, start.to(tl.int32))
    tl.store(bounds + sequence + 1, stop.to(tl.int32))


@triton.jit(do_not_specialize=["sequences", "total_keys", "total_queries"])
def list_tiles(  # noqa: ANN201
    kv_offsets,  # noqa: ANN001
    q_offsets,  # noqa: ANN001
    tile_sequences,  # noqa: ANN001
    tile_rows,  # noqa: ANN001
    tile_count,  # noqa: ANN001
    q_bounds,  # noqa: ANN001
    kv_bounds,  # noqa: ANN001
    word,  # noqa: ANN001
    sequences,  # noqa: ANN001
    total_keys,  # noqa: ANN001
    total_queries,  # noqa: ANN001
    ROWS: tl.constexpr,
    LOOKS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Tiles of ROWS query rows, those with most keys first: one program for each sequence.

    The last program has the rows that belong to nobody: a sequence without keys, listed last.
    """
    sequence = tl.program_id(0)
    if LOOKS:
        if sequence < sequences:
            look_at(kv_offsets, sequence, total_keys, word, WHOSE_KV)
            look_at(q_offsets, sequence, total_queries, word, WHOSE_Q)
    last = sequence == sequences
    key_start = tl.load(kv_offsets + sequence)
    key_stop = tl.load(kv_offsets + sequence + 1, mask=sequence < sequences, other=0)
    key_stop = tl.where(last, key_start, key_stop)
    row_start = tl.load(q_offsets + sequence)
    row_stop = tl.load(q_offsets + sequence + 1, mask=sequence < sequences, other=0)
    row_stop = tl.where(last, total_queries, row_stop)
    place = 0
    for first in range(0, sequences, BLOCK):
        other = first + tl.arange(0, BLOCK)
        inside = other < sequences
        keys = tl.load(kv_offsets + other + 1, mask=inside, other=0)
        keys -= tl.load(kv_offsets + other, mask=inside, other=0)
        rows = tl.load(q_offsets + other + 1, mask=inside, other=0)
        rows -= tl.load(q_offsets + other, mask=inside, other=0)
        mine = key_stop - key_start
        before = inside & ((keys > mine) | ((keys == mine) & (other < sequence)))
        place += tl.sum(tl.where(before, ((rows + ROWS - 1) // ROWS).to(tl.int32), 0), 0)
    blocks = ((row_stop - row_start + ROWS - 1) // ROWS).to(tl.int32)
    for first in range(0, blocks, BLOCK):
        block = first + tl.arange(0, BLOCK)
        tl.store(tile_sequences + place + block, sequence, mask=block < blocks)
        tl.store(tile_rows + place + block, block * ROWS, mask=block < blocks)
    tl.store(q_bounds + sequence, row_start.to(tl.int32))
    tl.store(q_bounds + sequence + 1, row_stop.to(tl.int32))
    tl.store(kv_bounds + sequence, key_start.to(tl.int32))
    tl.store(kv_bounds + sequence + 1, key_stop.to(tl.int32))
    if last:
        tl.store(tile_count, place + blocks)


@triton.jit(do_not_specialize=["sequences", "total_keys", "queries", "room"])
def list_key_blocks(  # noqa: ANN201
    kv_offsets,  # noqa: ANN001
    tile_sequences,  # noqa: ANN001
    block_starts,  # noqa: ANN001
    kv_bounds,  # noqa: ANN001
    query_counts,  # noqa: ANN001
    sequences,  # noqa: ANN001
    total_keys,  # noqa: ANN001
    queries,  # noqa: ANN001
    room,  # noqa: ANN001
    KEYS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Blocks of KEYS keys, sequence by sequence: one program for each sequence.

    Two more programs: rows of k past the last offset, without queries, and what fills the list.
    """
    sequence = tl.program_id(0)
    place = 0
    for first in range(0, sequence, BLOCK):
        other = first + tl.arange(0, BLOCK)
        blocks = key_blocks(kv_offsets, other, sequences, total_keys, KEYS)
        place += tl.sum(tl.where(other < sequence, blocks, 0), 0)
    fills = sequence == sequences + 1
    blocks = key_blocks(kv_offsets, sequence, sequences, total_keys, KEYS)
    blocks = tl.where(fills, room - place, blocks)
    write_run(tile_sequences, place, place + blocks, room, sequence, BLOCK)
    tl.store(block_starts + sequence, place)
    start = border(kv_offsets, sequence, sequences, total_keys)
    tl.store(kv_bounds + sequence, start.to(tl.int32))
    tl.store(query_counts + sequence, tl.where(sequence < sequences, queries, 0))
    if fills:
        tl.store(block_starts + sequence + 1, place)
        tl.store(kv_bounds + sequence + 1, total_keys)


@triton.jit(do_not_specialize=["sequences", "total_keys", "total_queries", "room", "row_room"])
def list_packed_key_blocks(  # noqa: ANN201
    kv_offsets,  # noqa: ANN001
    q_offsets,  # noqa: ANN001
    tile_sequences,  # noqa: ANN001
    block_starts,  # noqa: ANN001
    row_sequences,  # noqa: ANN001
    kv_bounds,  # noqa: ANN001
    q_bounds,  # noqa: ANN001
    sequences,  # noqa: ANN001
    total_keys,  # noqa: ANN001
    total_queries,  # noqa: ANN001
    room,  # noqa: ANN001
    row_room,  # noqa: ANN001
    KEYS: tl.constexpr,
    ROWS: tl.constexpr,
    MOST_ROWS_FIRST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Blocks of KEYS keys, and of ROWS query rows that begin anew with each sequence.

    Three programs more than sequences: rows of k past the last offset, without queries; what fills
    the list; rows of q past the last offset, without keys.
    """
    sequence = tl.program_id(0)
    covered = tl.load(q_offsets + sequences)
    last = sequence == sequences + 2
    row_start = border(q_offsets, sequence, sequences, covered)
    row_stop = border(q_offsets, sequence + 1, sequences, tl.where(last, total_queries, covered))
    place = 0
    total = 0
    for first in range(0, sequences + 3, BLOCK):
        other = first + tl.arange(0, BLOCK)
        blocks = key_blocks(kv_offsets, other, sequences, total_keys, KEYS)
        before = other < sequence
        if MOST_ROWS_FIRST:
            end = tl.where(other == sequences + 2, total_queries, covered)
            rows = border(q_offsets, other + 1, sequences, end)
            rows -= border(q_offsets, other, sequences, covered)
            mine = row_stop - row_start
            before = (rows > mine) | ((rows == mine) & before)
        total += tl.sum(tl.where(other < sequences + 3, blocks, 0), 0)
        place += tl.sum(tl.where((other < sequences + 3) & before, blocks, 0), 0)
    tl.store(block_starts + sequence, place)
    if last:
        tl.store(block_starts + sequence + 1, total)
    fills = sequence == sequences + 1
    place = tl.where(fills, total, place)
    blocks = key_blocks(kv_offsets, sequence, sequences, total_keys, KEYS)
    blocks = tl.where(fills, room - total, blocks)
    write_run(tile_sequences, place, place + blocks, room, sequence, BLOCK)
    row_place = (row_start // ROWS).to(tl.int32) + sequence
    row_end = tl.where(last, row_room, (row_stop // ROWS).to(tl.int32) + sequence + 1)
    write_run(row_sequences, row_place, row_end, row_room, sequence, BLOCK)
    start = border(kv_offsets, sequence, sequences, total_keys)
    tl.store(kv_bounds + sequence, start.to(tl.int32))
    tl.store(q_bounds + sequence, row_start.to(tl.int32))
    if last:
        tl.store(kv_bounds + sequence + 1, total_keys)
        tl.store(q_bounds + sequence + 1, row_stop.to(tl.int32))
