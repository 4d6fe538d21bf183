"""What an editor is told of a text: places, names, words under the cursor, and where they lead."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from builders import SHIPPED, STRANGERS, compiled, edited, schedule_text
from hypothesis import example, given
from hypothesis import strategies as st
from lsp_client import offset_of, place_of

from jfagen.algorithm import ALGORITHMS
from jfagen.diagnostics import Fix, SourceFile, Span, carried_out
from jfagen.editor.changes import changes
from jfagen.editor.document import look
from jfagen.editor.hover import hover_at
from jfagen.editor.navigation import (
    LibraryPlace,
    Unnameable,
    definition_at,
    outline,
    renamable_at,
    renamed,
    uses_at,
)
from jfagen.editor.positions import Positions
from jfagen.explain.lifetimes import lifetimes
from jfagen.syntax import format_schedule
from jfagen.syntax.names import Kind

ENCODINGS = ("utf-8", "utf-16", "utf-32")
TEXTS = [*SHIPPED, *STRANGERS]


def source(text):
    return SourceFile(path="a.sched", text=text)


def seen(name, *edits):
    return look(source(edited(name, *edits)))


def at(document, words):
    """Return the offset of a place: inside `words`, where they say `|`."""
    assert document.source.text.count(words.replace("|", "")) == 1, words
    return document.source.text.index(words.replace("|", "")) + words.index("|")


# ---- Places ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "offset", "places"),
    [
        ("# é = 😀\nkernel", 7, [(0, 11), (0, 8), (0, 7)]),
        ("# é = 😀\nkernel", 8, [(1, 0)] * 3),
        ("a\r\nb", 3, [(1, 0)] * 3),
        ("a\rb", 2, [(1, 0)] * 3),
        ("a\u2028b\x0cc\x85d", 6, [(0, 9), (0, 6), (0, 6)]),
        ("\ufeffkernel", 1, [(0, 3), (0, 1), (0, 1)]),
        ("", 0, [(0, 0)] * 3),
    ],
)
def test_places_count_in_the_editors_units(text, offset, places):
    for encoding, place in zip(ENCODINGS, places, strict=True):
        assert Positions.of(text, encoding).place(offset) == place, encoding
        assert Positions.of(text, encoding).offset(*place) == offset, encoding


@given(
    text=st.text(st.sampled_from("ab#\n\r \u2028\x0cé😀\ufeff")),
    encoding=st.sampled_from(ENCODINGS),
)
@example(text="\r\r\n\n", encoding="utf-16")
def test_every_offset_has_a_place_that_leads_back(text, encoding):
    positions = Positions.of(text, encoding)
    for offset in range(len(text) + 1):
        line, column = positions.place(offset)
        if text[offset - 1 : offset + 1] == "\r\n":  # no editor has a place between the two
            continue
        assert (line, column) == place_of(text, offset, encoding)
        assert positions.offset(line, column) == offset
        assert offset_of(text, {"line": line, "character": column}, encoding) == offset


@given(st.text(st.sampled_from("a\n\r😀")), st.integers(-3, 9), st.integers(0, 99))
def test_a_place_that_the_text_does_not_have_is_the_nearest_one(text, line, column):
    offset = Positions.of(text, "utf-16").offset(line, column)
    assert 0 <= offset <= len(text)
    found, _ = place_of(text, offset)
    assert found == min(max(line, 0), len(re.split(r"\r\n|\r|\n", text)) - 1)


# ---- Names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
def test_every_name_stands_where_it_is_said_to_and_is_introduced_once(name):
    document = seen(name)
    declared = [(one.kind, one.text) for one in document.names if one.declares]
    for one in document.names:
        assert one.span.text == one.text
    assert len(declared) == len(set(declared)), declared
    assert {kind for kind, _ in declared} >= {Kind.KERNEL, Kind.ROLE, Kind.BUFFER, Kind.SYMBOL}


def test_names_tell_what_they_name_and_where_they_are_introduced():
    document = seen("fwd")

    def told(words):
        name = document.name_at(at(document, words))
        return name.kind, name.declares

    assert told("kernel |jfa_fwd") == (Kind.KERNEL, True)
    assert told("m |128 x 2 as g".replace("m |", "|m ")) == (Kind.SYMBOL, True)
    assert told("x 2 as |g") == (Kind.SYMBOL, True)
    assert told("role |correction") == (Kind.ROLE, True)
    assert told("holds |k, v") == (Kind.VALUE, True)
    assert told("smem |kv ") == (Kind.BUFFER, True)
    assert told("over (|p, alpha") == (Kind.BUFFER, False)
    assert told("region |scores") == (Kind.REGION, True)
    assert told("loop |i over") == (Kind.SYMBOL, True)
    assert told("over |kv {") == (Kind.WALK, False)
    assert told("{ |rescale[g][i] }") == (Kind.OP, False)
    assert told("asked by |load") == (Kind.ROLE, False)


def test_a_text_that_cannot_be_read_has_the_names_of_the_items_that_can():
    document = seen("fwd", ("role mma        { warps 1", "role mma        { warps"))
    assert document.diagnostics
    roles = {one.text for one in document.names if one.kind is Kind.ROLE and one.declares}
    assert roles == {"correction", "softmax", "load", "store"}


# ---- Hover -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
def test_every_name_says_something_before_the_proof(name):
    document = seen(name)
    for one in document.names:
        span, words = hover_at(document, one.span.start)
        assert span == one.span and f"`{one.text}`" in words, one


@pytest.mark.parametrize("name", TEXTS)
def test_every_name_says_something_after_the_proof(name):
    document, proved = seen(name), compiled(name)
    for one in document.names:
        span, words = hover_at(document, one.span.start, proved)
        assert span == one.span and f"`{one.text}`" in words, one


def test_the_words_on_a_buffer_are_these(golden):
    document = seen("fwd")
    _, words = hover_at(document, at(document, "tmem |s[g]"), compiled("fwd"))
    golden.check(words + "\n")


def test_an_op_waits_for_what_its_own_group_waits_for():
    """As `jfagen explain fwd barriers` has it: the ring of k and v is waited for once."""
    document, proved = seen("fwd"), compiled("fwd")
    first, second = (
        hover_at(document, at(document, words), proved)[1]
        for words in ("|pv[0][i-1]", "|pv[1][i-1]")
    )
    assert "waits for `kv_full`" in first and "kv_full" not in second
    assert "kv_empty" in second and "kv_empty" not in first


def test_a_dimension_counts_what_a_kernel_says_it_counts():
    document = seen("hopper/bwd")
    _, words = hover_at(document, at(document, "    |n 64"))
    assert words == "`n` = 64: key rows of a group"


def test_an_op_that_writes_and_reads_a_buffer_does_both():
    document = seen("bwd")
    _, words = hover_at(document, at(document, "smem |stage"))
    assert "`reduce_dq[j]` writes and reads it (reduce)" in words


def test_a_region_is_described_as_it_is_arranged():
    document = seen("fwd")
    _, words = hover_at(document, at(document, "region |scores"))
    assert "`s over (p, alpha, row_sum, row_max)`" in words


def test_a_word_of_the_language_says_what_it_means_and_a_number_nothing():
    document = seen("fwd")
    span, words = hover_at(document, at(document, "next c|lc"))
    assert span.text == "clc" and words.startswith("`clc`: cluster launch control")
    assert hover_at(document, at(document, "m 12|8 x")) is None
    assert hover_at(document, 0) is None


# ---- Where names lead --------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
def test_every_name_leads_to_where_it_is_introduced(name):
    document = seen(name)
    for one in document.names:
        match definition_at(document, one.span.start):
            case Span() as span if one.text == "d":
                assert document.source.text[: span.start].rstrip().endswith("head_dim")
            case Span() as span:
                assert span.text == one.text
                assert document.name_at(span.start).declares
            case LibraryPlace(file, line):
                written = file.read_text().splitlines()[line]
                assert one.kind in (Kind.OP, Kind.ALGORITHM, Kind.WALK)
                named = re.search(r'"(\w+(\.\w+)?)"', written)[1]
                assert one.text == named or one.text.endswith(f"_{named}"), written
            case nowhere:
                pytest.fail(f"{one} leads to {nowhere}")


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda one: one.name)
def test_no_two_ops_lead_to_one_line_of_the_library_but_those_of_one_helper(algorithm):
    name = {"attention.forward": "fwd", "attention.backward": "bwd"}[algorithm.name]
    document = seen(name)
    lines = {}
    for one in document.names:
        if one.kind is Kind.OP:
            lines.setdefault(definition_at(document, one.span.start).line, set()).add(one.text)
    for texts in lines.values():
        assert len(texts) == 1 or {text.split("_")[0] for text in texts} == {"finish", "store"}


def test_a_name_is_used_at_all_of_its_places():
    document = seen("fwd")
    uses = uses_at(document, at(document, "holds |k, v"))
    assert [one.text for one in uses] == ["k"]
    uses = uses_at(document, at(document, "role |load "))
    assert [one.declares for one in uses] == [True, False, False, False]
    assert uses_at(document, 0) == ()


# ---- Rename ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_said_of_lives_is_a_life(name):
    """It ends where it began or later, and its uses stand in the order of the algorithm."""
    program = seen(name).program
    order = [op.name for op in program.algorithm.ops]
    for buffer in program.buffers:
        for life in lifetimes(program, buffer):
            assert "-" not in life.words.split(" in each ")[1], life.words
            places = [order.index(use.op.split("[")[0]) for use in life.uses]
            assert places == sorted(places) and life.maker in life.uses, life


def test_what_begins_in_the_first_step_makes_a_value():
    program = seen("fwd").program
    (life,) = lifetimes(program, program.buffer("acc"))
    assert life.words == "`acc` lives from `pv[0][i-1]` to `finish[g]` in each tile"
    assert [use.op for use in life.uses] == [
        "rescale[g][i]",
        "pv[0][i-1]",
        "pv[1][i-1]",
        "finish[g]",
    ]


def test_an_op_is_described_in_the_form_that_the_schedule_gives_it():
    document = seen("hopper/bwd")
    _, words = hover_at(document, at(document, "|reduce_dq[g]"))
    assert "in role `consumer`" in words and "slice" not in words


@pytest.mark.parametrize("name", SHIPPED)
def test_every_name_of_the_schedules_own_can_be_another(name):
    document = seen(name)
    texts = {}
    for one in document.names:
        with suppress(Unnameable):
            edits = renamed(document, one.span.start, "another")
            texts.setdefault((one.kind, one.text), set()).add(carried_out(Fix("rename", *edits)))
    assert set(texts) == own_names(document)
    for name, (text,) in texts.items():  # the same from each of its places
        assert look(source(text)).diagnostics == (), name
        assert name not in {(one.kind, one.text) for one in look(source(text)).names}


def own_names(document):
    """Return what the user has named, and not the algorithm."""
    program = document.program
    symbols = {program.loop_symbol, program.tile.group_symbol} - {None}
    return {
        *((one.kind, one.text) for one in document.names if one.kind in (Kind.KERNEL, Kind.REGION)),
        *((Kind.ROLE, one.role.name) for one in program.role_programs),
        *((Kind.SYMBOL, symbol) for symbol in symbols),
        *((Kind.BUFFER, one.name) for one in program.buffers if one.holds != (one.name,)),
    }


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("holds |k, v", "`k` is a name of the algorithm's"),
        ("{ |rescale[g]", "`rescale` is a name of the algorithm's"),
        ("over |kv {", "`kv` is a name of the algorithm's"),
        ("|attention.forward", "is a name of the algorithm's"),
        ("bf16[|m, d]\n  smem kv", "`m` is a dimension of the algorithm's"),
        ("bf16[n, |d]  depth", "`d` is a dimension of the algorithm's"),
        ("smem |q[g]", "say `holds q` first"),
        ("|persistent", "there is no name here"),
        ("warps 1|6", "there is no name here"),
    ],
)
def test_a_name_that_is_not_the_schedules_own_cannot_be_another(words, why):
    document = seen("fwd", ("warps 1  registers 24 }\n  role load", "warps 16 }\n  role load"))
    with pytest.raises(Unnameable, match=re.escape(why)):
        renamable_at(document, at(document, words))


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ("store", "there is a role `store` already"),
        ("smem", "`smem` starts an item"),
        ("9", "start with no digit"),
        ("two words", "ASCII letters"),
        ("ä", "ASCII letters"),
        ("", "ASCII letters"),
    ],
)
def test_a_name_that_cannot_be_taken_is_refused(new, why):
    document = seen("fwd")
    with pytest.raises(Unnameable, match=re.escape(why)):
        renamed(document, at(document, "role |load "), new)


def test_a_buffer_that_says_what_it_holds_can_be_another():
    """What the refusal advises: also where the name is that of the value."""
    document = seen("fwd", ("smem q[g]   : bf16[m, d]", "smem q[g]   : bf16[m, d]  holds q"))
    assert document.diagnostics == ()
    text = carried_out(Fix("rename", *renamed(document, at(document, "smem |q[g]"), "asks")))
    assert "smem asks[g]   : bf16[m, d]  holds q" in text and look(source(text)).diagnostics == ()


def test_nothing_is_renamed_where_a_mistake_hides_what_is_said():
    document = seen("fwd", ("asked by load", "asked by by load"))
    with pytest.raises(Unnameable, match="a mistake that hides"):
        renamed(document, at(document, "role |load "), "loads")


def test_a_buffer_with_the_name_of_a_value_that_another_one_holds():
    """`k` is a buffer that holds v, and a value in `a`."""
    old = "smem k      : dtype[n, d]  depth 2\n  smem v      : dtype[n, d]  depth 2"
    new = "smem a : dtype[n, d]  depth 2  holds k\n  smem k : dtype[n, d]  depth 2  holds v"
    document = seen("hopper/fwd", (old, new))
    assert document.diagnostics == ()
    buffer, value = at(document, "smem |k "), at(document, "holds |k")
    assert [len(uses_at(document, one)) for one in (buffer, value)] == [1, 1]
    assert "from `load_v[i]`" in hover_at(document, buffer)[1]
    assert "from `load_k[i]`" in hover_at(document, value)[1]


def test_a_name_becomes_itself():
    document = seen("fwd")
    edits = renamed(document, at(document, "role |load "), "load")
    assert carried_out(Fix("rename", *edits)) == document.source.text


# ---- The outline, and edits --------------------------------------------------------------------


def test_the_outline_has_roles_buffers_and_regions():
    entries = outline(seen("fwd"))
    roles, buffers = ["correction", "softmax", "mma", "load", "store"], ["q", "kv", "out"]
    buffers += ["s", "p", "alpha", "row_sum", "row_max", "acc"]
    assert [one.name.text for one in entries] == [*roles, *buffers, "scores"]
    assert entries[6].item.text == "smem kv     : bf16[n, d]  depth 3  holds k, v"
    for one in entries:
        assert one.item.start <= one.name.span.start < one.name.span.end <= one.item.end
    assert outline(look(source("kernel"))) == ()


@pytest.mark.parametrize("name", TEXTS)
def test_edits_make_the_other_text_and_touch_no_line_that_stays(name):
    text = schedule_text(name)
    crowded = text.replace("  role", " role").replace("}\n", "}  \n", 3)
    edits = list(changes(source(crowded), format_schedule(source(crowded))))
    assert carried_out(Fix("format", *edits)) == format_schedule(source(crowded))
    touched = {one.span.line for one in edits}
    same = {n for n, line in enumerate(crowded.split("\n"), 1) if line in text.split("\n")}
    assert edits and not touched & same
    assert list(changes(source(text), text)) == []


@given(st.text(st.sampled_from("ab\n"), max_size=12), st.text(st.sampled_from("ab\n"), max_size=12))
def test_edits_make_any_text_of_any_other(old, new):
    edits = tuple(changes(source(old), new))
    assert (carried_out(Fix("x", *edits)) if edits else old) == new
