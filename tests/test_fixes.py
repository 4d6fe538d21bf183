"""Fixes: what a help says can be carried out by an editor, and then the mistake is gone."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from random import Random

import pytest
from builders import SHIPPED, schedule_text
from test_errors import ERRORS, NAMES, findings_of

from jfagen.diagnostics import (
    CompileError,
    Counted,
    Edit,
    Fix,
    SourceFile,
    below,
    carried_out,
    count,
    drop,
    inside,
    moved,
    only_choice,
    phrase,
    put,
    removal,
    without,
)
from jfagen.driver import compile_instances, compile_source
from jfagen.semantics import check
from jfagen.syntax import format_schedule, parse

#: What is left when the first fix of a schedule was carried out: these have a second mistake.
LEFT = {
    "mma_order_overwrites_p": ["order-cycle"],  # of the other group
    "pv_before_its_qk": ["order-cycle"],
    "pv_three_steps_behind": ["order-cycle"],
    "region_with_group": ["overlap-live"],
    "registers_with_depth": ["register-crosses"],
    "turns_of_two_roles": ["register-crosses", "register-crosses"],
}
#: What fmt then aligns anew, because a word grew or shrank that its neighbours are aligned with.
REALIGNED = {"algorithm_missing", "backward_in_groups", "block_missing", "groups_of_query_rows"}
REALIGNED |= {"k_in_registers", "m_of_128_on_hopper", "m_of_64", "misspelt_buffer"}
REALIGNED |= {"s_in_smem_on_hopper", "target_missing", "tmem_on_hopper"}
#: Findings of the parser, which may hide others.
SYNTAX = {"syntax", "unknown-word", "bad-number", "bad-character", "said-twice"}
#: Measured: findings with a fix, of all; all but those in LEFT are then mended.
FIXABLE = 141


@cache
def fixes_of(name) -> tuple[Fix, ...]:
    return tuple(one for one in findings_of(name)[0].helps if isinstance(one, Fix))


FIXED = [name for name in NAMES if fixes_of(name)]


def remaining(text, name):
    """Return the findings on a text, of every instance if the schedule's first one is right."""
    source = SourceFile(path=f"{name}.sched", text=text)
    try:
        compile_source(source)
        if not is_wrong_at_once(name):
            compile_instances(source)
    except CompileError as error:
        return error.diagnostics
    return ()


@cache
def is_wrong_at_once(name):
    try:
        compile_source(SourceFile.from_path(ERRORS / f"{name}.sched"))
    except CompileError:
        return True
    return False


@pytest.mark.parametrize("name", FIXED)
def test_a_fix_alone_takes_its_finding_away(name):
    (found,) = findings_of(name)
    for number, fix in enumerate(fixes_of(name)):
        text = carried_out(fix)
        parse(SourceFile(path="a.sched", text=text))
        left = remaining(text, name)
        place = moved_to(found.label.span.start, fix)
        assert not [one for one in left if (one.id, one.label.span.start) == (found.id, place)], fix
        if number == 0:
            assert [one.id for one in left] == LEFT.get(name, [])


def moved_to(offset, fix):
    """Return where a place of the old text is in the new one."""
    edits = [edit for edit in fix.edits if edit.span.end <= offset]
    return offset + sum(len(edit.text) - (edit.span.end - edit.span.start) for edit in edits)


def test_so_many_bad_schedules_are_mended_by_their_first_fix(capsys):
    with capsys.disabled():
        mended = len(FIXED) - len(LEFT)
        print(f"\n{len(FIXED)} of {len(NAMES)} findings have a fix, {mended} are then right")
    assert len(FIXED) >= FIXABLE and set(LEFT) <= set(FIXED)


def is_canonical(text):
    return format_schedule(SourceFile(path="a.sched", text=text)) == text


@pytest.mark.parametrize("name", FIXED)
def test_a_fix_of_a_canonical_schedule_leaves_it_canonical(name):
    text = (ERRORS / f"{name}.sched").read_text()
    try:
        text = format_schedule(SourceFile(path="a.sched", text=text))
        compile_instances(SourceFile(path=f"{name}.sched", text=text))
    except CompileError as error:
        fixes = [one for one in error.diagnostics[0].helps if isinstance(one, Fix)]
    assert [str(fix) for fix in fixes] == [str(fix) for fix in fixes_of(name)]
    for fix in fixes:
        assert is_canonical(carried_out(fix)) is (name not in REALIGNED), fix


@pytest.mark.parametrize("seed", range(8))
def test_fixes_of_damaged_schedules_can_be_carried_out(seed):
    """Whatever is wrong: edits lie apart, change something, and leave what parsed parsing."""
    random = Random(seed)
    for name in SHIPPED * 2:
        words = re.findall(r"\s+|#.*|[\w.]+|.", schedule_text(name))
        for _ in range(random.randint(1, 3)):
            one, other = (random.randrange(len(words)) for _ in range(2))
            damage = random.choice(("drop", "repeat", "swap"))
            if damage == "drop":
                del words[one]
            elif damage == "repeat":
                words.insert(one, words[other])
            else:
                words[one], words[other] = words[other], words[one]
        source = SourceFile(path="a.sched", text="".join(words))
        try:
            tree = parse(source)
            check(tree, source)
        except CompileError as error:
            helps = [one for found in error.diagnostics for one in found.helps]
            parsed = {found.id for found in error.diagnostics}.isdisjoint(SYNTAX)
            for fix in (one for one in helps if isinstance(one, Fix)):
                places = sorted((edit.span.start, edit.span.end) for edit in fix.edits)
                assert all(first[1] <= second[0] for first, second in pairwise(places))
                text = carried_out(fix)
                assert text != source.text
                if parsed:
                    parse(SourceFile(path="a.sched", text=text))


# ---- The builders, on small texts --------------------------------------------------------------


def span_in(text, words, path="a.sched"):
    start = text.index(words)
    return SourceFile(path=path, text=text).span(start, start + len(words))


def after(advice):
    assert isinstance(advice, Fix)
    return carried_out(advice)


@pytest.mark.parametrize(
    ("text", "words", "wanted"),
    [
        ("a { b  c  d }\n", "c", "a { b  d }\n"),
        ("a { b  c }\n", "b", "a { c }\n"),
        ("a { b }\n", "b", "a {}\n"),
        ("a {\n  b\n  c  # why\n}\n", "b", "a {\n  c  # why\n}\n"),
        ("a {\n  b  # why\n}\n", "b", "a {\n  # why\n}\n"),
        ("a\n\nb\n\nc\n", "b", "a\n\nc\n"),
        ("a\r\nb\r\nc\r\n", "b", "a\r\nc\r\n"),
        ("a\nb", "b", "a\n"),
    ],
)
def test_what_is_taken_out_leaves_no_blanks(text, words, wanted):
    assert carried_out(Fix("", removal(span_in(text, words)))) == wanted
    assert after(drop("", span_in(text, words))) == wanted


@pytest.mark.parametrize(("words", "wanted"), [("a", "{b, c}"), ("b", "{a, c}"), ("c", "{a, b}")])
def test_an_item_goes_with_its_comma(words, wanted):
    source = SourceFile(path="a", text="{a, b, c}")
    items = [source.span(start, start + 1) for start in (1, 4, 7)]
    item = next(item for item in items if item.text == words)
    assert after(without("", item, items)) == wanted


def test_what_is_aligned_keeps_its_column():
    text = "  smem q      : bf16\n"
    assert after(put("", span_in(text, "q"), "q[g]")) == "  smem q[g]   : bf16\n"
    assert after(put("", span_in(text, "smem"), "reg")) == "  reg q      : bf16\n"
    assert after(put("", span_in("n 64  # keys\n", "64"), "128")) == "n 128  # keys\n"


def test_a_line_stands_below_another_with_its_indentation_and_line_end():
    text = "k {\r\n  a b  # why\r\n  c\r\n}\r\n"
    assert after(below("", span_in(text, "a b"), "x")) == text.replace("  c", "  x\r\n  c")
    assert after(below("", span_in(text, "k"), "x")) == text.replace("  a", "  x\r\n  a")
    assert not isinstance(below("", span_in("a b c\n", "b"), "x"), Fix)
    assert not isinstance(below("", span_in("a", "a"), "x"), Fix)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{ a  b }", "{ a  b  x }"),
        ("{}", "{ x }"),
        ("{\n    a\n    # why\n  }", "{\n    a\n    # why\n    x\n  }"),
    ],
)
def test_a_statement_more_stands_at_the_end(text, wanted):
    assert after(inside("", span_in(text, text), "x")) == wanted


def test_a_statement_moves_before_or_behind_another():
    text = "r { a  b  c }"
    a, b, c = (span_in(text, word) for word in "abc")
    source = a.source
    b, c = (source.span(one.start, one.end) for one in (b, c))
    assert after(moved("", c, a, before=True)) == "r { c  a  b }"
    assert after(moved("", a, b, before=False)) == "r { b  a  c }"
    assert after(moved("", c, a, before=True, text="d")) == "r { d  a  b }"
    assert moved("say", None, a, before=True) == "say"
    alone = span_in("turn { a }", "a")
    assert not isinstance(moved("", alone, a, before=True), Fix)


def test_a_number_is_replaced_or_written():
    text = "smem k : bf16[n]  depth 3"
    whole = span_in(text, text)
    number = whole.source.span(len(text) - 1, len(text))
    assert after(count("", Counted(whole, number), "depth", 2)).endswith("depth 2")
    assert after(count("", Counted(whole, None), "slices", 2)).endswith("depth 3  slices 2")
    assert not isinstance(count("", None, "depth", 2), Fix)
    assert phrase("depth", number).text == "depth 3"
    text = "depth  # its depth\n 3"
    assert phrase("depth", span_in(text, "3")).text == text


def test_a_choice_of_several_is_no_fix():
    span = span_in("a", "a")
    assert isinstance(only_choice("write b", span, ["b"]), Fix)
    assert not isinstance(only_choice("write b or c", span, ["b", "c"]), Fix)


def test_a_fix_is_its_words():
    fix = Fix("write `b`", Edit(span_in("a", "a"), "b"))
    assert fix == "write `b`" and hash(fix) == hash("write `b`")
