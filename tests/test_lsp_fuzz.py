"""Texts that no one finishes typing: the server answers each of them, and lives."""

from __future__ import annotations

from random import Random

import pytest
from builders import SHIPPED, schedule_text
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lsp_client import Editor, Refused, applied, place_of

from jfagen.diagnostics import CompileError, SourceFile
from jfagen.syntax import format_schedule
from jfagen.syntax.tokens import pieces

URI = "untitled:fuzz"
#: Of the places between two tokens of the shipped schedules, so many are looked at.
PREFIXES = 500
ODD = [
    *("\0", "\r", "\r\r\n", "\u2028", "\ufeff", "\ud800", "\udfff", "😀", "\x1b", "é", "\t", "\n"),
    *("{", "}", "(", ")", "[", "]", ",", ":", "#", "->", "..", ".", "/", "*", "'", '"', "$0"),
    *("9" * 40, "0", "12x", "kernel", "role", "tiles {", "over", "attention.", "x" * 20_000),
    *("(" * 5000, "{" * 5000, "[" * 5000, "(" * 500 + ")" * 500, "# " + "y" * 200_000 + "\n"),
]


@pytest.fixture(scope="module")
def editor():
    """One server for all texts; at the end it answers as ever and has complained of nothing."""
    editor = Editor()
    editor.open(URI, "")
    yield editor
    assert editor.change(URI, schedule_text("fwd")) == []
    assert editor.proved(URI)[0] == []
    assert editor.shown == []
    assert editor.end() == (0, "")


def look_at(editor, text, offset):
    """Change to a text and ask about its end and about another place."""
    found = editor.change(URI, text)
    assert "internal" not in [one["code"] for one in found], found
    for place in {place_of(text, len(text)), place_of(text, offset)}:
        editor.at("hover", URI, place)
        editor.at("completion", URI, place)
    return found


def ask_everything(editor, text, offset):
    """Ask all that an editor may ask about a text; a refusal says what is wrong with the place."""
    place, named = place_of(text, offset), {"textDocument": {"uri": URI}}
    for method in ("definition", "documentHighlight"):
        editor.at(method, URI, place)
    editor.at("references", URI, place, context={"includeDeclaration": True})
    for method, more in (("prepareRename", {}), ("rename", {"newName": "another"})):
        try:
            editor.at(method, URI, place, **more)
        except Refused as refused:
            assert refused.code == -32602, refused
    for method in ("documentSymbol", "codeLens"):
        assert isinstance(editor.ask(f"textDocument/{method}", named), list)
    start, end = ({"line": n, "character": 0} for n in (0, 10_000))
    context = {"diagnostics": []}
    asked = named | {"range": {"start": start, "end": end}, "context": context}
    assert editor.ask("textDocument/codeAction", asked) is not None
    options = {"options": {"tabSize": 2, "insertSpaces": True}}
    edits = editor.ask("textDocument/formatting", named | options)
    assert (None if edits is None else applied(text, edits)) == formatted(text)


def formatted(text):
    try:
        return format_schedule(SourceFile.from_bytes(text.encode("utf-8", "surrogatepass"), "a"))
    except CompileError:
        return None


def boundaries(text):
    return [piece.end for piece in pieces(text)]


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_typed_so_far_is_answered_at_every_word(editor, name):
    text, random = schedule_text(name), Random(name)
    every = sum(len(boundaries(schedule_text(one))) for one in SHIPPED) // PREFIXES
    ends = boundaries(text)[random.randrange(every) :: every]
    for end in ends:
        assert look_at(editor, text[:end], random.randrange(end + 1)) or end == len(text.rstrip())
    assert len(ends) > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_typed_so_far_is_answered_at_every_character(editor, name):
    text, random = schedule_text(name), Random(name)
    for end in range(len(text)):
        found = look_at(editor, text[:end], random.randrange(end + 1))
        assert found or end == len(text.rstrip())
        if end % 20 == 0:
            ask_everything(editor, text[:end], random.randrange(end + 1))


PLACES = st.floats(0, 1, exclude_max=True)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["delete", "duplicate", "swap", "insert"]),
        PLACES,
        st.integers(1, 60),
        st.sampled_from(ODD),
    ),
    max_size=4,
)


def changed(text, edits):
    """Return a text after edits at places given as parts of its length."""
    for what, place, length, odd in edits:
        start = int(place * len(text))
        end = min(start + length, len(text))
        middle, rest = text[start:end], text[end:]
        new = {
            "delete": "",
            "duplicate": middle * 2,
            "swap": rest[:length] + middle,
            "insert": odd + middle,
        }[what]
        text = text[:start] + new + (rest[length:] if what == "swap" else rest)
    return text


def insertion(odd, place):
    return [("insert", place, 1, odd)]


@given(name=st.sampled_from(["fwd", "hopper/bwd", "bwd"]), edits=EDITS, place=PLACES)
@example(name="fwd", edits=insertion("(" * 5000, 0.5), place=0.9)
@example(name="fwd", edits=insertion("\ud800", 0.01), place=0.0)
@example(name="fwd", edits=insertion("\r", 0.02), place=0.02)
@example(name="fwd", edits=insertion("\ufeff", 0.0), place=0.5)
@example(name="fwd", edits=insertion("# " + "y" * 200_000 + "\n", 0.5), place=0.6)
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_a_text_after_odd_edits_is_answered(editor, name, edits, place):
    text = changed(schedule_text(name), edits)
    look_at(editor, text, int(place * len(text)))
    ask_everything(editor, text, int(place * len(text)))


@pytest.mark.parametrize("opened", ["(", "{"])
def test_brackets_inside_brackets_without_end_are_one_finding(editor, opened):
    inside = {"(": "(p, alpha, row_sum, row_max)", "{": "peel  softmax[g][i]"}[opened]
    around = {"(": ("(" * 5000, ")" * 5000), "{": ("turn { " * 5000, " }" * 5000)}[opened]
    text = schedule_text("fwd").replace(inside, inside.join(around))
    (found,) = look_at(editor, text, len(text) // 2)
    assert found["message"] == "brackets are nested at most 50 deep"
    ask_everything(editor, text, len(text) // 2)
