"""Dependences: the sequential program's order on shared memory."""

from __future__ import annotations

from builders import compiled

from jfagen.passes.dependences import find_dependences
from jfagen.passes.layout import make_layout
from jfagen.planning import unroll
from jfagen.semantics.regions import Leaf, Over


def pairs(name, trips, trees=None):
    one = compiled(name)
    layout = one.placement.layout if trees is None else make_layout(one.program, trees)
    found = find_dependences(one.plan, unroll(one.plan, trips), layout)
    return {
        (d.first[0].op, d.first[1:], d.second[0].op, d.second[1:]) for d in found.found
    }, found.clobbers


def test_a_slot_is_written_again_after_as_many_uses_as_the_ring_is_deep():
    found, _ = pairs("fwd", (4,))
    # Uses are k0 v0 k1 v1 ...: with three slots v1 follows k0, and k2 follows v0.
    assert ("qk", (0, 0), "load_v", (0, 1)) in found
    assert ("pv", (0, 0), "load_k", (0, 2)) in found
    assert ("qk", (0, 0), "load_k", (0, 1)) not in found


def test_a_ring_goes_on_across_tiles():
    found, _ = pairs("fwd", (1, 1, 1))
    assert ("qk", (0, 0), "load_v", (1, 0)) in found
    assert ("pv", (0, 0), "load_k", (2, 0)) in found


def test_sharing_a_place_adds_dependences_and_keeping_apart_adds_none():
    shared, _ = pairs("fwd", (3,))
    assert ("pv", (0, 0), "qk", (0, 1)) in shared
    alone, _ = pairs("fwd", (3,), trees=())
    assert ("pv", (0, 0), "qk", (0, 1)) not in alone


def test_an_overlap_of_values_that_live_together_is_a_clobber_and_no_order():
    one = compiled("fwd")
    leaf = lambda name: Leaf(buffer=name, span=one.program.buffer(name).span)  # noqa: E731
    for guest in ("row_sum", "s"):
        trees = (Over(parts=(leaf("acc"), leaf(guest))),)
        assert pairs("fwd", (3,), trees)[1], guest
