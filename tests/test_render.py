"""Findings as text: carets, notes, one line, plain values; and the reporter that collects them."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from jfagen.diagnostics import (
    CompileError,
    Diagnostic,
    Label,
    Note,
    Reporter,
    Severity,
    SourceFile,
    as_dict,
    meant,
    near_match,
    quoted,
    render,
    render_all,
    render_line,
)

TEXT = """\
kernel x {
  tmem scores : f32[128, 384]
  tmem acc    : f32[128, 256]
}
"""


def span_of(word, text=TEXT, path="schedules/fwd.sched"):
    start = text.index(word)
    return SourceFile(path=path, text=text).span(start, start + len(word))


def overflow():
    return Diagnostic(
        id="tmem-overflow",
        message="`acc` does not fit in tensor memory",
        label=Label(span=span_of("acc"), message="needs 256 columns, 128 of 512 are free"),
        notes=(
            Note(
                message="`scores` is live at the same time",
                label=Label(span=span_of("scores"), message="takes 384 columns"),
            ),
            Note(message="512 columns are all there are"),
        ),
        helps=("shrink the tile of `scores`", "or let `acc` reuse it"),
    )


def caret_lines(text, start, end, message=""):
    span = SourceFile(path="a", text=text).span(start, end)
    found = Diagnostic(id="x", message="m", label=Label(span=span, message=message))
    return render(found).splitlines()[3:]


def test_full_form():
    assert render(overflow()) == dedent(
        """\
        error[tmem-overflow]: `acc` does not fit in tensor memory
         --> schedules/fwd.sched:3:8
          |
        3 |   tmem acc    : f32[128, 256]
          |        ^^^ needs 256 columns, 128 of 512 are free
        note: `scores` is live at the same time
         --> schedules/fwd.sched:2:8
          |
        2 |   tmem scores : f32[128, 384]
          |        ^^^^^^ takes 384 columns
        note: 512 columns are all there are
        help: shrink the tile of `scores`
        help: or let `acc` reuse it"""
    )


def test_several_findings_are_parted_by_an_empty_line():
    assert render_all([overflow(), overflow()]) == f"{render(overflow())}\n\n{render(overflow())}"


def test_the_margin_is_as_wide_as_the_line_number():
    span = span_of("deep", "\n" * 99 + "deep")
    lines = render(Diagnostic(id="x", message="m", label=Label(span=span))).splitlines()
    assert lines[1:] == [
        "   --> schedules/fwd.sched:100:1",
        "    |",
        "100 | deep",
        "    | ^^^^",
    ]


def test_tabs_before_and_inside_a_span_keep_the_carets_below_it():
    assert caret_lines("\tq\tk v", 1, 4) == ["1 |     q    k v", "  |     ^^^^^^"]


def test_wide_characters_keep_the_carets_below_the_span():
    assert caret_lines("一二 q", 3, 4) == ["1 | 一二 q", "  |      ^"]


def test_an_empty_span_at_the_end_of_the_file_has_one_caret():
    assert caret_lines("kernel x {", 10, 10) == ["1 | kernel x {", "  |           ^"]


def test_an_empty_file_has_a_caret():
    assert caret_lines("", 0, 0, "here") == ["1 |", "  | ^ here"]


def test_a_span_over_several_lines_is_marked_on_its_first():
    assert caret_lines("ab {\ncd\n}", 3, 9) == ["1 | ab {", "  |    ^"]


def test_a_carriage_return_is_not_shown():
    assert caret_lines("ab\r\ncd", 0, 6) == ["1 | ab", "  | ^^"]


def test_control_characters_and_stray_bytes_cannot_reach_the_terminal():
    (code, _) = caret_lines("a\x1b[31m\udcff", 0, 1)
    assert code == "1 | a\ufffd[31m\ufffd"


def test_a_line_of_160_columns_is_shown_in_full():
    text = "a" * 160
    assert caret_lines(text, 159, 160) == [f"1 | {text}", f"  | {' ' * 159}^"]


@pytest.mark.parametrize("place", [0, 10, 100, 5_000, 9_899, 9_999])
def test_a_long_line_is_clipped_around_the_carets(place):
    text = "".join(chr(ord("a") + i % 26) for i in range(10_000))
    code, carets = caret_lines(text, place, place + 1)
    shown = code.removeprefix("1 | ")
    assert 110 <= len(shown) <= 160
    assert shown[carets.index("^") - 4] == text[place]
    assert shown.strip("\u2026") in text
    assert shown.startswith("\u2026") is (place > 50)
    assert shown.endswith("\u2026") is (place < 9_899)


def test_a_long_span_is_clipped_at_its_end():
    code, carets = caret_lines("x" * 100 + "y" * 100_000 + "z" * 100, 100, 100_100)
    assert len(code) <= 164 and carets.count("^") == 80
    assert code.count("\u2026") == 3 and "yyy\u2026" in code


def test_a_huge_name_is_clipped_in_messages():
    name = "n" * 1_000_000
    span = SourceFile(path="a", text=name).span(0, len(name))
    label = Label(span=span, message=name)
    notes = (Note(message=name),)
    shown = render(Diagnostic(id="x", message=name, label=label, notes=notes, helps=(name,)))
    assert len(shown) < 4_000 and shown.count("\u2026") == 5


def test_only_the_first_findings_are_shown_and_the_others_counted():
    one = render(overflow())
    assert render_all([overflow()] * 50) == "\n\n".join([one] * 50)
    assert render_all([overflow()] * 52) == "\n\n".join([one] * 50) + "\n\nand 2 more"


def test_one_line_form():
    assert render_line(overflow()) == (
        "schedules/fwd.sched:3:8: error[tmem-overflow]: `acc` does not fit in tensor memory"
    )


def test_plain_values():
    values = as_dict(overflow())
    assert json.loads(json.dumps(values)) == values
    assert (values["line"], values["column"]) == (3, 8)
    assert (values["end_line"], values["end_column"]) == (3, 11)
    assert values["notes"][0]["line"] == 2
    assert values["notes"][1] == {"message": "512 columns are all there are"}
    assert values["help"] == ["shrink the tile of `scores`", "or let `acc` reuse it"]


def test_colours_only_when_asked():
    assert "\x1b" not in render(overflow())
    colored = render(overflow(), color=True)
    assert colored.startswith("\x1b[31;1merror[tmem-overflow]\x1b[0m")


def test_the_reporter_orders_by_place_and_keeps_one_of_equal_findings():
    reporter = Reporter()
    source = SourceFile(path="a", text="one two")
    for _ in range(2):
        reporter.report("late", "second", source.span(4, 7))
        reporter.report("early", "first", source.span(0, 3))
    assert [found.id for found in reporter.diagnostics] == ["early", "late"]


def test_the_reporter_raises_everything_it_collected():
    reporter = Reporter()
    source = SourceFile(path="a", text="one two")
    reporter.report("slow", "it is slow", source.span(0, 3), severity=Severity.WARNING)
    reporter.raise_if_any()
    reporter.report("wrong", "it is wrong", source.span(4, 7))
    with pytest.raises(CompileError) as caught:
        reporter.raise_if_any()
    assert [found.id for found in caught.value.diagnostics] == ["slow", "wrong"]
    assert str(caught.value) == (
        "a:1:1: warning[slow]: it is slow\na:1:5: error[wrong]: it is wrong"
    )


def test_near_matches():
    assert meant(span_of("acc"), ["load", "ack"]) == ("did you mean `ack`?",)
    assert meant(span_of("acc"), ["load", "store"]) == ()
    assert near_match("LOAD", ["load", "store"]) == "load"


def test_lists_of_names():
    assert quoted(["a"]) == "`a`"
    assert quoted(["a", "b"]) == "`a` or `b`"
    assert quoted(["a", "b", "c"], "and") == "`a`, `b` and `c`"
