"""What completion offers: what is written anywhere is offered there, and what is offered fits."""

from __future__ import annotations

import re

import pytest
from builders import SHIPPED, edited
from lark import UnexpectedToken

from jfagen.diagnostics import SourceFile
from jfagen.editor.completion import choices_at, typed_at
from jfagen.editor.document import look
from jfagen.editor.words import MEANINGS, NOT_BUILT, SNIPPETS
from jfagen.syntax.grammar import grammar, literals
from jfagen.syntax.names import Kind
from jfagen.syntax.tokens import Kind as PieceKind


def seen(name, *edits):
    return look(SourceFile(path="a.sched", text=edited(name, *edits)))


def places(document):
    """Yield every word and number that the schedule does not introduce, with what was before."""
    declared = {one.span.start for one in document.names if one.declares}
    for number, piece in enumerate(document.pieces):
        if piece.kind is not PieceKind.SIGN and piece.start not in declared:
            before = document.pieces[max(0, number - 3) : number]
            yield piece, tuple(one.text for one in before)


def offered(document, offset):
    return [choice.text for choice in choices_at(document, offset)]


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_written_is_offered_in_its_place(name):
    document = seen(name)
    for piece, _ in places(document):
        choices = offered(document, piece.start)
        assert piece.text in choices, (piece, choices)
        assert not NOT_BUILT & set(choices)
        assert len(choices) == len(set(choices))


@pytest.mark.parametrize("name", ["fwd", "bwd", "hopper/fwd", "hopper/bwd"])
def test_what_is_offered_parses_where_it_is_offered(name):
    document = seen(name)
    text, tried = document.source.text, set()
    for piece, before in places(document):
        for choice in choices_at(document, piece.start):
            if (before, choice.text) not in tried:
                tried.add((before, choice.text))
                assert parses(text[: piece.start], choice.text), (before, choice)
                assert parses(text[: piece.start], without_places(choice.snippet)), choice
    assert len(tried) > 500


def parses(head, word):
    """Whether the parser takes a text up to and with a word behind it."""
    try:
        grammar().parse_interactive(head + word).exhaust_lexer()
    except UnexpectedToken:
        return False
    return True


def without_places(snippet):
    return re.sub(r"\$0|\$\{\d+:(.*?)\}", r"\1", snippet)


def test_a_word_that_does_not_fit_is_no_choice():
    document = seen("fwd")
    offset = document.source.text.index("clc asked")
    assert not parses(document.source.text[:offset], "hold")
    assert offered(document, offset) == ["static", "clc"]


def test_every_keyword_has_a_meaning_and_every_meaning_is_of_a_keyword():
    assert set(MEANINGS) == {text for text in literals().values() if text[0].isalpha()}
    assert set(MEANINGS) > NOT_BUILT and set(MEANINGS) > set(SNIPPETS)
    for words in MEANINGS.values():
        assert not words.endswith(".") and "\n" not in words


def choices(text):
    """Return what is offered where a text says `|`, and the text that a choice takes away."""
    offset = text.index("|")
    document = look(SourceFile(path="a.sched", text=text.replace("|", "")))
    found = choices_at(document, offset, seen("fwd"))  # the text before it was half typed
    return [choice.text for choice in found], typed_at(document, offset).text


@pytest.mark.parametrize(
    ("old", "new", "some", "typed"),
    [
        ("role mma ", "role mma { war| ", ["warps", "registers"], "war"),
        ("next clc asked", "next cl|c asked", ["clc", "static"], "clc"),
        ("next clc asked", "next |clc asked", ["clc", "static"], ""),
        ("depth 3", "depth |", ["1", "2", "3", "4"], ""),
        ("depth 3", "depth 3|", ["1", "2", "3", "4"], "3"),
        ("attention.forward", "|", ["attention.forward", "attention.backward"], ""),
        ("attention.forward", "attention.|", ["attention.forward"], "attention."),
        ("attention.forward", "attention.for|", ["attention.forward"], "attention.for"),
        ("holds k, v", "holds k, |", ["v", "k"], ""),
        ("asked by load", "asked by |", ["load", "mma", "store"], ""),
        ("over (p, alpha", "over (|p, alpha", ["p", "alpha", "acc"], ""),
        ("rescale[g][i]", "re|", ["rescale", "softmax"], "re"),
        ("f32[m, n]", "f32[m, n]  sl|", ["slices", "depth"], "sl"),
    ],
)
def test_a_half_typed_text_gets_choices(old, new, some, typed):
    given = edited("fwd").replace(old, new, 1)
    found, taken = choices(given)
    assert set(some) <= set(found)
    assert taken == typed


@pytest.mark.parametrize("words", ["# two gr|oups", "#|", "# a { b [ |"])
def test_a_comment_gets_no_choices(words):
    assert choices(f"kernel a {{ {words}\n}}")[0] == []


def test_behind_a_wrong_item_there_are_choices_as_ever():
    document = seen("fwd", ("role mma        { warps 1", "role mma        { warps what"))
    assert "clc" in offered(document, document.source.text.index("clc asked"))


def test_an_empty_text_begins_with_kernel_and_nothing_follows_its_end():
    assert choices("|")[0] == ["kernel"]
    assert choices("kernel |")[0] == []
    assert choices("kernel a { }\n|")[0] == []


def test_ops_that_no_role_has_come_first_and_with_their_indices():
    document = seen("fwd", ("    correction { rescale[g][i] }\n", "    correction { }\n"))
    offset = document.source.text.index("correction { }") + len("correction { ")
    first = choices_at(document, offset)[0]
    assert (first.text, first.kind, first.snippet) == ("rescale", Kind.OP, "rescale[g][i]")
