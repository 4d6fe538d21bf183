"""Tile lists: the kernels' own host part and the launch that replaces it, against a plain list."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import nullcontext
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from builders import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from jfagen.runtime import tiles as module
from jfagen.runtime.kernels import Wanted, load

LENGTHS = st.lists(st.sampled_from([0, 0, 1, 5, 127, 128, 129, 300, 1000]), max_size=9)
BATCHES = st.lists(
    st.tuples(st.integers(0, 700), st.integers(0, 1000) | st.just(0)), min_size=1, max_size=12
)


@cache
def kernel(jagged, schedule="hopper/fwd"):
    return load(Wanted(schedule, jagged, 128, torch.bfloat16))


def offsets_of(lengths, dtype=torch.int32):
    return torch.tensor([0, *lengths], dtype=torch.int64).cumsum(0).to(dtype)


def plain(rows, keys, past, block):
    """The tiles of packed queries as a list of sequence and first row, and the tail's number."""
    order = sorted(range(len(rows)), key=lambda b: -keys[b])
    tiles = [(b, row) for b in order for row in range(0, rows[b], block)]
    return tiles + [(len(rows), row) for row in range(0, past, block)]


def check_packed(made, rows, keys, past, block=128):
    """Hold a list against the plain one; what lies past its end is nobody's."""
    sequences, first_rows, count, q_bounds, kv_bounds = made
    wanted = plain(rows, keys, past, block)
    assert count.shape == (1,) and int(count) == len(wanted) <= len(sequences)
    assert len(sequences) == len(first_rows)
    found = list(zip(sequences.tolist(), first_rows.tolist(), strict=True))[: len(wanted)]
    assert found == wanted
    assert len(set(found)) == len(found), "a tile twice"
    assert q_bounds.tolist() == [*offsets_of(rows).tolist(), sum(rows) + past]
    assert kv_bounds.tolist() == [*offsets_of(keys).tolist(), sum(keys)]
    assert kv_bounds[-1] == kv_bounds[-2], "the tail has no keys"
    most = [kv_bounds[b + 1] - kv_bounds[b] for b, _ in found]
    assert all(one >= other for one, other in pairwise(most))
    assert all(x.dtype == torch.int32 for x in made)


@given(BATCHES, st.integers(0, 400), st.sampled_from([torch.int32, torch.int64]))
@settings(deadline=None, max_examples=200)
def test_packed_tiles_are_listed_once_longest_keys_first(batch, past, dtype):
    rows, keys = ([pair[i] for pair in batch] for i in (0, 1))
    kv, qo = offsets_of(keys, dtype), offsets_of(rows, dtype)
    made = kernel(True).make_tiles(kv, qo, sum(rows) + past)
    check_packed(made, rows, keys, past)


@given(LENGTHS, st.sampled_from([torch.int32, torch.int64]))
@settings(deadline=None, max_examples=100)
def test_sequences_are_ordered_longest_keys_first(lengths, dtype):
    offsets = offsets_of(lengths, dtype)
    order, bounds = kernel(False).make_tiles(offsets)
    assert order.tolist() == sorted(range(len(lengths)), key=lambda b: -lengths[b])
    assert bounds.tolist() == offsets.tolist()
    assert order.dtype == bounds.dtype == torch.int32


FORWARD_KERNELS = [
    path
    for path in sorted((ROOT / "generated").rglob("*.py"))
    if 'ALGORITHM = "attention.forward"' in path.read_text()
]


@pytest.mark.parametrize("path", FORWARD_KERNELS, ids=str)
def test_every_kernel_lists_every_sequence_once(path):
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(f"kernel_{path.stem}", path)
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    lengths = [5, 0, 300, 5, 129]
    if "q_offsets" in made.SIGNATURE:
        found = made.make_tiles(offsets_of(lengths), offsets_of(lengths), 500)
        return check_packed(found, lengths, lengths, 500 - sum(lengths), made.TILE_ROWS)
    order, bounds = made.make_tiles(offsets_of(lengths))
    by_length = sorted(range(5), key=lambda b: -lengths[b])
    assert order.tolist() == (by_length if made.ORDER == "longest_first" else [*range(5)])
    assert bounds.tolist() == offsets_of(lengths).tolist()
    return None


@pytest.mark.parametrize("rows", [[128], [127, 1], [129] * 7, [1] * 40, [0] * 5, [0, 640, 0]])
@pytest.mark.parametrize("past", [0, 1, 127, 128, 129])
def test_the_room_of_a_list_is_never_too_small(rows, past):
    """The largest number of tiles is that of sequences which all end one row into a tile."""
    made = kernel(True).make_tiles(offsets_of(rows), offsets_of(rows), sum(rows) + past)
    check_packed(made, rows, rows, past)


class Launch:
    """Stands for a Triton kernel and keeps what it was launched with."""

    def __init__(self):
        self.given = None

    def __getitem__(self, grid):
        def launch(*given, **options):
            self.given = (grid, given)

        return launch


@pytest.fixture
def launches(monkeypatch):
    made = SimpleNamespace(order_sequences=Launch(), list_tiles=Launch())
    monkeypatch.setattr(module, "_kernels", lambda: made)
    return made


@pytest.mark.parametrize("sequences", [*range(1, 20), 4096])
def test_lists_lie_on_borders_of_16_bytes(sequences, launches):
    """A pointer that does not would have a kernel of its own compiled."""
    offsets = offsets_of([3] * sequences)
    known = {"total_keys": None, "check": True}
    ordered = module.list_tiles(kernel(False), offsets, None, total_queries=None, **known)
    assert [x.shape[0] for x in ordered] == [sequences, sequences + 1]
    for total in range(3 * sequences, 3 * sequences + 600, 97):
        listed = module.list_tiles(kernel(True), offsets, offsets, total_queries=total, **known)
        room = total // 128 + sequences + 1
        assert [x.shape[0] for x in listed] == [room, room, 1, sequences + 2, sequences + 2]
        assert all(x.data_ptr() % 16 == 0 and x.dtype == torch.int32 for x in listed)
    assert all(x.data_ptr() % 16 == 0 and x.is_contiguous() for x in ordered)
    assert launches.order_sequences.given[0] == (sequences,)
    assert launches.list_tiles.given[0] == (sequences + 1,)


def test_the_launch_gets_the_rows_that_offsets_are_held_against(launches):
    offsets = offsets_of([3, 4])
    for total in (None, 7, 100):
        given = {"total_keys": total, "total_queries": 9, "check": True}
        module.list_tiles(kernel(True), offsets, offsets, **given)
        _, passed = launches.list_tiles.given
        assert passed[8:11] == (2, 2**31 - 1 if total is None else total, 9)
        module.list_tiles(kernel(False), offsets, None, **given)
        assert launches.order_sequences.given[1][5] == passed[9]


@pytest.mark.parametrize("jagged", [False, True])
def test_offsets_with_gaps_are_copied_and_listed_on_their_device(jagged, launches, monkeypatch):
    """The lists read offsets one after the other."""
    table = torch.arange(20, dtype=torch.int32).reshape(10, 2)
    offsets, seen = table[:, 0], []
    monkeypatch.setattr(module, "current", lambda device: seen.append(device) or nullcontext())
    given = {"total_keys": 18, "total_queries": 18, "check": True}
    module.list_tiles(kernel(jagged), offsets, offsets if jagged else None, **given)
    launched = launches.list_tiles if jagged else launches.order_sequences
    for passed in launched.given[1][: 2 if jagged else 1]:
        assert passed.is_contiguous() and passed.equal(offsets)
    assert seen == [offsets.device]


def test_integers_of_a_batch_do_not_compile_the_lists_anew():
    from jfagen.runtime import list_kernels

    for name in ("order_sequences", "list_tiles"):
        launched = getattr(list_kernels, name)
        loose = {p.name for p in launched.params if p.do_not_specialize}
        pointers = {
            p.name for p in launched.params if re.search("offsets|bounds|order|tile|word", p.name)
        }
        constants = {p.name for p in launched.params if p.is_constexpr}
        assert loose | pointers | constants == {p.name for p in launched.params}
        assert not loose & constants and constants <= {"LOOKS", "BLOCK", "ROWS"}


def many(values, rows=None, total=None, keys=None):
    """The list of a batch of too many sequences to count them all for each."""
    kv = torch.tensor(values)
    qo = None if rows is None else torch.tensor(rows)
    given = {"total_keys": keys, "total_queries": total, "check": True}
    return module.list_tiles(kernel(rows is not None), kv, qo, **given)


def test_batches_of_many_sequences_are_listed_by_the_kernels_own_host_part(monkeypatch):
    monkeypatch.setattr(module, "MOST_COUNTED", 2)
    lengths, rows = [5, 300, 0, 300], [130, 0, 1, 128]
    order, _ = many(offsets_of(lengths).tolist())
    assert order.tolist() == [1, 3, 0, 2]
    made = many(offsets_of(lengths).tolist(), offsets_of(rows).tolist(), sum(rows) + 5)
    check_packed(made, rows, lengths, 5)
    for wrong in ([1, 2, 3, 4], [0, 5, 4, 9], [0, 1, 2, 11]):
        with pytest.raises(RuntimeError, match="nonzero value"):
            many(wrong, keys=10)
        with pytest.raises(RuntimeError, match="nonzero value"):
            many([0, 1, 2, 3], wrong, total=10)


INTERPRETED = """
import random, sys, torch
sys.path.insert(0, "tests")
from test_runtime_tiles import *
from jfagen.runtime import list_kernels
from jfagen.runtime.complaint import complaint, word
from triton.runtime.errors import InterpreterError
module._kernels = lambda: list_kernels
parts = SimpleNamespace(ORDER="longest_first", TILE_ROWS=128)  # all that is asked of a kernel
rng = random.Random(7)
for case in range(60):
    module._BLOCK = rng.choice([2, 4, 1024])
    count = rng.randint(1, 9)
    keys = [rng.choice([0, 1, 5, 128, 300, 300]) for _ in range(count)]
    rows = [rng.choice([0, 1, 127, 128, 129, 700]) for _ in range(count)]
    past, dtype = rng.choice([0, 1, 200]), rng.choice([torch.int32, torch.int64])
    kv, qo = offsets_of(keys, dtype), offsets_of(rows, dtype)
    known = {"total_keys": sum(keys) + rng.choice([0, 9]), "check": True}
    made = module.list_tiles(parts, kv, qo, total_queries=sum(rows) + past, **known)
    check_packed(made, rows, keys, past)
    order, bounds = module.list_tiles(parts, kv, None, total_queries=None, **known)
    assert order.tolist() == sorted(range(count), key=lambda b: -keys[b])
    assert torch.equal(bounds, kv.to(torch.int32))
wrong = {0: ([1, 5, 9], [-1, 5, 9]), 1: ([0, 5, 4], [0, 5, 11], [0, 5, -(2**40)])}
right = torch.tensor([0, 3, 10])
for sequence, several in wrong.items():
    for values in several:
        bad = torch.tensor(values)
        for jagged, kv, qo in ((False, bad, None), (True, bad, right), (True, right, bad)):
            given = {"total_keys": 10, "total_queries": 10 if jagged else None}
            module.list_tiles(parts, right, right if jagged else None, check=True, **given)
            try:
                module.list_tiles(parts, kv, qo, check=True, **given)
            except InterpreterError as error:
                assert "inline_asm" in str(error)  # the trap
                name = "kv" if kv is bad else "q"
                print("EXPECTED", name, sequence)
                assert complaint() == f"{name}_offsets are wrong at sequence {sequence}"
                word().zero_()
            else:
                raise AssertionError((values, jagged))
print("ALL DONE")
"""


BLOCKS_INTERPRETED = """
import random, sys, torch
sys.path.insert(0, "tests")
from test_runtime_tiles import *
from jfagen.kernels import BACKWARDS
from jfagen.runtime import list_kernels
module._kernels = lambda: list_kernels
rng = random.Random(11)
for schedule in BACKWARDS.values():
    for case in range(40):
        module._BLOCK = rng.choice([2, 4, 1024])
        count = rng.randint(0, 9)
        lengths = [[rng.choice([0, 1, 63, 64, 128, 129, 300]) for _ in range(count)] for _ in "kq"]
        ends = [sum(those) + rng.choice([0, 1, 64, 300]) for those in lengths]
        dtype = rng.choice([torch.int32, torch.int64])
        kv, q = (offsets_of(those, dtype) for those in lengths)
        one, packed = kernel(False, schedule), kernel(True, schedule)
        pairs = (
            (module.list_key_blocks(one, kv, None, ends[0], 77), one.make_tiles(kv, ends[0], 77)),
            (module.list_key_blocks(packed, kv, q, *ends), packed.make_tiles(kv, q, *ends)),
        )
        for found, wanted in pairs:
            assert len(found) == len(wanted)
            for mine, right in zip(found, wanted):
                assert mine.dtype == right.dtype and torch.equal(mine, right), (lengths, ends)
made = []
def guarded(like, *lengths):
    made.extend(torch.full((length + 2000,), -7, dtype=torch.int32) for length in lengths)
    return tuple(whole[1000:-1000] for whole in made[-len(lengths):])
module._parts = guarded
for wrong in ([3, -5000, 40], [0, 9000, 20], [0, 700, -900], [-2000, -1000, 5000]):
    kv, right = torch.tensor(wrong), torch.tensor([0, 10, 20])
    module.list_key_blocks(one, kv, None, 20, 77)
    for pair in ((kv, right), (right, kv), (kv, kv)):
        module.list_key_blocks(packed, *pair, 20, 20)
    for whole in made:
        assert bool((whole[:1000] == -7).all() and (whole[-1000:] == -7).all()), wrong
print("ALL DONE")
"""


def interpreted(program):
    """Run it where Triton interprets its kernels, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_the_key_blocks_of_one_launch_are_those_of_the_host_part():
    done = interpreted(BLOCKS_INTERPRETED)
    assert done.returncode == 0 and "ALL DONE" in done.stdout, done.stderr[-2000:]


def test_a_kernel_lists_the_key_blocks_of_more_sequences_than_are_counted(monkeypatch):
    monkeypatch.setattr(module, "MOST_COUNTED", 3)
    assert module.list_key_blocks(kernel(False), offsets_of([5] * 4), None, 20, 1) is None


def test_the_lists_of_one_launch_as_triton_interprets_them():
    """The launch's lists, and the sequence that a trap names."""
    done = interpreted(INTERPRETED)
    assert done.returncode == 0 and "ALL DONE" in done.stdout, done.stderr[-2000:]
    said = re.findall(r"jfagen: (kv|q)_offsets are wrong at sequence:\s*\[?(\d)", done.stdout)
    assert said == re.findall(r"EXPECTED (kv|q) (\d)", done.stdout) and len(said) == 15
