"""Aliased storage, regions, and races through aliases on the CPU machine."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from jfagen.machine.alias import GroupType, Spec, make_group
from jfagen.machine.dtypes import BFLOAT16, FLOAT32
from jfagen.machine.memory import Buffer, Memory, Region, Root, Storage, tmem_columns
from jfagen.machine.report import MachineFault


def tmem_spec(memory):
    root = Root(Storage.TMEM, 0)
    memory.roots.append(root)
    return Spec("spec", Storage.TMEM, root)


def tile(memory, spec, name, columns, dtype, num):
    width = tmem_columns(columns, dtype)
    buffer = Buffer(memory, spec.root, name, (128, columns), dtype, num, Storage.TMEM, width)
    spec.join(buffer)
    return buffer


def first_columns(buffer):
    return [buffer[i].region.start // 4 for i in range(buffer.num)]


def scores_region(p_columns, p_num, group_size):
    memory = Memory()
    spec = tmem_spec(memory)
    s = tile(memory, spec, "s", 128, FLOAT32, 2)
    p = tile(memory, spec, "p", p_columns, BFLOAT16, p_num)
    alpha = tile(memory, spec, "alpha", 1, FLOAT32, 2)
    row_sum = tile(memory, spec, "row_sum", 1, FLOAT32, 2)
    inner = make_group(
        make_group(p, group_size=group_size), alpha, row_sum, group_type=GroupType.DISTINCT
    )
    spec.set_buffer_overlap(make_group(s, inner))
    return memory, s, p, alpha, row_sum


def test_one_full_width_tile_beside_its_statistics():
    memory, s, p, alpha, row_sum = scores_region(128, 2, 1)
    assert first_columns(s) == [0, 128]
    assert first_columns(p) == [0, 128]
    assert first_columns(alpha) == [64, 192]
    assert first_columns(row_sum) == [65, 193]
    assert memory.columns_used == 256


def test_group_size_two_leaves_a_gap_between_its_slices():
    memory, _, p, alpha, row_sum = scores_region(64, 4, 2)
    assert first_columns(p) == [0, 96, 128, 224]
    assert first_columns(alpha) == [64, 192]
    assert first_columns(row_sum) == [65, 193]
    assert memory.columns_used == 256


def test_group_size_four_runs_into_the_next_slot_and_grows_the_storage():
    _, _, p, _, _ = scores_region(32, 8, 4)
    assert first_columns(p)[:4] == [0, 48, 96, 144]
    assert p.root.size > 256


def test_a_spec_without_groups_is_a_plain_union():
    memory = Memory()
    spec = tmem_spec(memory)
    wide = tile(memory, spec, "wide", 128, FLOAT32, 2)
    narrow = tile(memory, spec, "narrow", 128, BFLOAT16, 3)
    assert first_columns(wide) == [0, 128]
    assert first_columns(narrow) == [0, 64, 128]


def test_aliases_are_the_same_bytes():
    _, s, p, _, _ = scores_region(128, 2, 1)
    s[1].array[...] = 1.0
    assert (p[1].array[:, 0::2] == 0).all()
    assert (p[1].array[:, 1::2] == 0x3F80).all()
    p[1].array[:, :2] = 0x4000
    assert np.array_equal(s[1].array[:, :1].view(np.uint32), np.full((128, 1), 0x40004000))


def test_memory_starts_as_nan():
    memory = Memory()
    assert np.isnan(memory.smem_view(0, (4, 4), FLOAT32)[0]).all()
    assert np.isnan(memory.tmem_view(0, (128, 4), FLOAT32)[0]).all()


@pytest.mark.parametrize("twice", [True, False])
def test_a_wrong_tree_is_a_fault(twice):
    memory = Memory()
    spec, other = tmem_spec(memory), tmem_spec(memory)
    s = tile(memory, spec, "s", 128, FLOAT32, 2)
    stranger = tile(memory, other, "stranger", 128, FLOAT32, 2)
    with pytest.raises(MachineFault):
        spec.set_buffer_overlap(make_group(s, s if twice else stranger))


def test_regions_overlap_exactly_where_they_share_a_byte():
    shapes = [(1, 10, 10), (1, 4, 4), (3, 10, 4), (2, 10, 10), (4, 6, 2), (3, 7, 3)]
    regions = [
        Region(start, rows, pitch, width)
        for start, (rows, pitch, width) in product(range(0, 24, 3), shapes)
    ]
    taken = [
        {r.start + row * r.pitch + i for row in range(r.rows) for i in range(r.width)}
        for r in regions
    ]
    for (a, in_a), (b, in_b) in product(list(zip(regions, taken, strict=True)), repeat=2):
        both = (a.start, a.rows, a.pitch, a.width), (b.start, b.rows, b.pitch, b.width)
        assert a.overlaps(b) == bool(in_a & in_b), both
        # `covers` may miss a case but must never claim one.
        assert not a.covers(b) or in_b <= in_a, both
    assert sum(a.covers(b) for a, b in product(regions, repeat=2)) > len(regions)
