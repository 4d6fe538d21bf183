"""Reading the text back: the round trip, and the rules on a text edited by hand."""

from __future__ import annotations

import re

import pytest
from builders import SHIPPED, STRANGERS, compiled

from jfagen.readback import ReadbackError, prove_text, verify_text
from jfagen.readback.kernel_text import parse_kernel

SYNC = re.compile(
    r"tlx\.(barrier_\w+|tcgen05_commit|fence|async_descriptor_store_wait|clc_producer)\(.*\)$"
)


def text_of(name):
    return compiled(name).kernel.text


def differs(name, text):
    one = compiled(name)
    return verify_text(one.plan, one.placement, one.sync, text)


def without_line(text, index):
    lines = text.split("\n")
    bare = lines[index].strip()
    return "\n".join([*lines[:index], lines[index].replace(bare, "pass"), *lines[index + 1 :]])


@pytest.mark.parametrize("name", [*SHIPPED, *STRANGERS])
def test_every_emitted_text_equals_its_plan_and_is_proved_alone(name):
    assert differs(name, text_of(name)) == []
    assert prove_text(text_of(name)) == []


def test_deleting_any_synchronising_line_by_hand_changes_both_verdicts():
    text = text_of("fwd")
    places = [i for i, line in enumerate(text.split("\n")) if SYNC.match(line.strip())]
    assert len(places) >= 40
    for index in places:
        edit = without_line(text, index)
        assert differs("fwd", edit), text.split("\n")[index]
        assert prove_text(edit), text.split("\n")[index]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("barrier_wait(s_full[g], step_phase)", "barrier_wait(s_full[g], step_phase ^ 1)", "live"),
        ("KV_BYTES = tl.constexpr(32768)", "KV_BYTES = tl.constexpr(16384)", "live"),
        ("s_full = tlx.alloc_barriers(GROUPS)", "s_full = tlx.alloc_barriers(GROUPS, 2)", "live"),
        ("KV_DEPTH = tl.constexpr(3)", "KV_DEPTH = tl.constexpr(2)", None),
        ("tile += stride", "tile += 2 * stride", "tiles"),
        ('tlx.fence("async_shared")', 'tlx.fence("gpu")', "fence"),
        (
            "group_type=tlx.reuse_group_type.distinct",
            "group_type=tlx.reuse_group_type.shared",
            "race",
        ),
        ("use_acc=False", "use_acc=True", None),
    ],
)
def test_an_edit_of_the_text_is_another_kernel(old, new, rule):
    """The round trip sees every edit; the rules alone see those that break the kernel."""
    name = "ladder/08_zigzag" if "stride" in old else "fwd"
    text = text_of(name)
    assert old in text
    edit = text.replace(old, new)
    assert differs(name, edit)
    found = prove_text(edit)
    assert [finding.rule for finding in found][:1] == ([rule] if rule else [])


def test_a_text_that_cannot_be_read_says_where():
    text = text_of("fwd").replace("tlx.local_trans(", "tlx.local_gather(", 1)
    line = next(i for i, t in enumerate(text.split("\n"), 1) if "local_gather" in t)
    with pytest.raises(ReadbackError) as caught:
        parse_kernel(text).trace((1,))
    assert caught.value.line == line and "local_gather" in caught.value.message


def test_a_trace_follows_the_masked_tail_and_the_full_steps():
    kernel = parse_kernel(text_of("fwd"))
    lines = {
        full: {a.line for r, acts in kernel.trace((2,), full=full).actions.items() for a in acts}
        for full in (False, True)
    }
    assert lines[False] - lines[True], "the masked tail has lines of its own"


def test_the_tile_list_is_walked_by_every_role_alike():
    trace = parse_kernel(text_of("ladder/08_zigzag")).trace((1, 0, 2))
    assert set(trace.visited.values()) == {(0, 1, 2)}
