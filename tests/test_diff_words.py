"""What `jfagen diff` says of order, groups, names and demands: all that was written otherwise."""

from __future__ import annotations

import pytest
from builders import compiled, edited
from review_edits import renamed

from jfagen.review import Part, compare, facts_of
from jfagen.review.forms import as_text, kernel_words

BY_GROUP = ("rescale[g][i]", "rescale[0][i]  rescale[1][i]")
MMA = "mma        { pv[0][i-1]  qk[0][i]  pv[1][i-1]  qk[1][i] }"
SECOND = ("  role load  ", "  role mmb { warps 1  registers 24 }\n  role load  ")
SPLIT = (MMA, "mma { pv[0][i-1]  qk[0][i] }  mmb { pv[1][i-1]  qk[1][i] }")
EXCHANGED = (MMA, "mma { pv[1][i-1]  qk[1][i] }  mmb { pv[0][i-1]  qk[0][i] }")


def told(name, *after, before=(), measured=({}, {})):
    """The comparison of an edited schedule with what more edits make of it."""
    first, second = compiled(name, *before), compiled(name, *after)
    return compare(facts_of(first, "before.sched"), facts_of(second, "after.sched"), measured)


def words(comparison, part):
    return [f"{one.name}: {one.words}" for one in comparison.changes if one.part is part]


def test_another_order_outside_the_loop_is_told():
    said = told("hopper/bwd", ("load_k[g]  load_v[g]", "load_v[g]  load_k[g]"))
    assert words(said, Part.PIPELINE) == [
        "load: order before the loop: `load_k[g]  load_v[g]` -> `load_v[g]  load_k[g]`"
    ]


def test_for_which_matmul_a_role_waits_is_told():
    said = told("hopper/bwd", ("wait dv[g][j]  dk[g][j]", "dk[g][j]  wait dv[g][j]"))
    assert words(said, Part.PIPELINE) == [
        "consumer: `dk`: waits for `dv` -> without that",
        "consumer: `st`: without that -> waits for `dv`",
    ]


def test_demands_on_places_are_told():
    """Also where no buffer moves and no line changes."""
    said = told("hopper/fwd", ("  reg s[g]  ", "  apart { k, v }\n  reg s[g]  "))
    assert words(said, Part.PLACES) == ["apart: nothing -> `k` and `v`"]
    assert not said.sections and not said.figures and not said.same


def test_the_offset_of_one_group_is_told():
    later = ("rescale[g][i]", "rescale[0][i]  rescale[1][i-1]")
    said = told("fwd", later, before=[BY_GROUP])
    assert words(said, Part.PIPELINE) == [
        "correction: `rescale[1]`: in its own step -> 1 step behind"
    ]
    both = told("fwd", ("rescale[g][i]", "rescale[g][i-1]"))
    assert words(both, Part.PIPELINE) == ["correction: `rescale`: in its own step -> 1 step behind"]


def test_groups_written_one_by_one_are_the_same():
    said = told("fwd", BY_GROUP)
    assert said.changes == ()


def test_ops_that_a_role_gives_away_for_one_group_are_told():
    said = told("fwd", SECOND, SPLIT)
    (new,) = words(said, Part.ROLES)[:1]
    assert new.startswith("mmb: is new: ")
    assert words(said, Part.ROLES)[1:] == [
        "mmb: does `pv[1]` now, which `mma` did",
        "mmb: does `qk[1]` now, which `mma` did",
    ]
    assert not any("was called" in one for one in words(said, Part.BARRIERS))
    said = told("fwd", SECOND, EXCHANGED, before=[SECOND, SPLIT])
    assert sorted(words(said, Part.ROLES)) == [
        "mma: does `pv[1]` now, which `mmb` did",
        "mma: does `qk[1]` now, which `mmb` did",
        "mmb: does `pv[0]` now, which `mma` did",
        "mmb: does `qk[0]` now, which `mma` did",
    ]
    assert words(said, Part.PIPELINE) == []


def test_a_role_named_like_its_op_is_renamed_alone():
    said = told("fwd", *renamed("fwd", "softmax", "soft"))
    assert [one.words for one in said.changes] == ["was called `softmax`"]
    assert said.renamed and kernel_words(said) == "no line changed, names apart"
    assert not told("fwd", BY_GROUP).renamed


def test_figures_of_a_renamed_role_are_compared():
    figures = [{f"{role}, loop 1: instructions a lap": 423} for role in ("softmax", "soft")]
    edit = renamed("fwd", "softmax", "soft")
    assert told("fwd", *edit, measured=figures).measured == ()
    (delta,) = told("fwd", *edit, measured=(figures[0], {})).measured
    assert (delta.name, delta.before) == ("soft, loop 1: instructions a lap", 423)


@pytest.mark.parametrize(
    ("replacements", "said"),
    [
        ({"loop i over": "loop t over", "[i]": "[t]", "[i-1]": "[t-1]"}, "steps: i -> t"),
        ({"as g ": "as t ", "[g]": "[t]"}, "groups: g -> t"),
    ],
)
def test_another_index_is_told(replacements, said):
    text = edited("hopper/fwd")
    after = text
    for old, new in replacements.items():
        assert old in text
        after = after.replace(old, new)
    assert words(told("hopper/fwd", (text, after)), Part.KERNEL) == [f"index of the {said}"]


def test_another_order_of_the_roles_is_told():
    load, store = (
        "  role load       { warps 1  registers 24 }\n",
        "  role store      { warps 1  registers 24 }\n",
    )
    said = told("fwd", (load + store, store + load))
    assert words(said, Part.ROLES) == [
        "all roles: declared in another order: correction, softmax, mma, store, load"
    ]
    assert "role" in as_text(said)


def test_an_op_that_another_role_does_elsewhere_is_told_both():
    old = "load    { load_q[j+1]  load_do[j+1]  load_lse[j]  load_delta[j] }"
    new = "load    { load_q[j+1]  load_lse[j]  load_delta[j] }\n    store   { load_do[j] }"
    said = told("bwd", (old, new))
    assert "store: does `load_do` now, which `load` did" in words(said, Part.ROLES)
    assert "store: `load_do`: 1 step ahead -> in its own step" in words(said, Part.PIPELINE)


def test_groups_that_are_shared_out_are_told_in_words_and_in_the_table():
    few, wide = (
        ("warps 4  registers 184", "warps 4  registers 152"),
        ("role store      { warps 1 ", "role store      { warps 4 "),
    )
    shared = (
        "correction { finish[g] }\n  store      { store_out[g] }",
        "correction { finish[0] }\n  store      { finish[1]  store_out[g] }",
    )
    said = told("ladder/07_groups", few, wide, shared, before=[few, wide])
    assert words(said, Part.ROLES) == ["store: does `finish[1]` now, which `correction` did"]
    assert (
        "acc_after_pv: waits: correction: finish -> correction: finish[0]; store: finish[1]"
        in words(said, Part.BARRIERS)
    )
    table = next(one for one in said.sections if one.name == "tables")
    assert any("correction: finish[0]; store: finish[1]" in x for h in table.hunks for x in h.after)
    one = facts_of(compiled("ladder/06_slices"), "one.sched")
    said = compare(one, facts_of(compiled("ladder/07_groups", few, wide, shared), "two.sched"))
    assert "store: does `finish[1]`, which is new" in words(said, Part.ROLES)


def test_names_of_ops_and_settings_are_not_taken_for_those_of_buffers():
    """A buffer may be called as an op, as a role, or as a word of a setting."""
    dv = (
        "reg dk[g], dv[g] : f32[n, d]",
        "reg dk[g] : f32[n, d]\n  reg vgrad[g] : f32[n, d]  holds dv",
    )
    said = told("hopper/bwd", dv)
    assert words(said, Part.PIPELINE) == []
    text = edited("fwd")
    ring = (text, text.replace("smem kv ", "smem load "))
    assert words(told("fwd", before=[ring]), Part.TILES) == []
    back = told("fwd", before=[ring])
    assert kernel_words(back) == "no line changed, names apart"
    assert kernel_words(told("fwd", ring)) == "no line changed, names apart"


@pytest.mark.parametrize(
    ("name", "edits"),
    [
        (
            "fwd",
            [
                ("tmem s[g]     : f32[m, n]", "tmem s2[g]    : f32[m, n]  holds s"),
                ("{ s over (p", "{ s2 over (p"),
            ],
        ),
        ("bwd", [("smem delta : f32[m]", "smem s2    : f32[m]  holds delta")]),
    ],
)
def test_lines_that_differ_in_a_name_alone_are_not_counted(name, edits):
    """Also where a name of the text that is not the buffer's is spelled like it."""
    said = told(name, *edits)
    assert words(said, Part.BUFFERS)[0].startswith("s2: was called") and said.renamed
    none = ("no line changed, names apart", "0 lines outside comments changed, names apart")
    assert kernel_words(said) in none
