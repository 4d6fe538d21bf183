"""Offsets to lines and columns."""

from __future__ import annotations

import pytest

from jfagen.diagnostics import SourceFile


def source(text: str) -> SourceFile:
    return SourceFile(path="a.sched", text=text)


@pytest.mark.parametrize(
    ("text", "offset", "position"),
    [
        ("", 0, (1, 1)),
        ("ab", 0, (1, 1)),
        ("ab", 2, (1, 3)),
        ("ab\ncd", 2, (1, 3)),
        ("ab\ncd", 3, (2, 1)),
        ("ab\n", 3, (2, 1)),
        ("\n\nx", 2, (3, 1)),
        ("\tx", 1, (1, 2)),
        ("é x", 2, (1, 3)),
        ("a\r\nb", 3, (2, 1)),
    ],
)
def test_position(text, offset, position):
    assert source(text).position(offset) == position


def test_a_line_is_shown_without_its_end():
    file = source("first\r\nsecond\nlast")
    assert [file.line_text(line) for line in (1, 2, 3)] == ["first", "second", "last"]


def test_the_line_after_the_last_line_end_is_empty():
    assert source("x\n").line_text(2) == ""


def test_span_covers_a_half_open_range():
    span = source("role mma").span(5, 8)
    assert (span.text, span.line, span.column, span.place) == ("mma", 1, 6, "a.sched:1:6")


def test_spans_join():
    file = source("depth 3")
    assert file.span(0, 5).to(file.span(6, 7)).text == "depth 3"


def test_a_file_keeps_bytes_that_are_not_utf8_in_place():
    file = SourceFile.from_bytes(b"\xef\xbb\xbfa\xffb", "x")
    assert len(file.text) == 3 and file.text[0] == "a" and file.text[2] == "b"


def test_a_path_is_shown_as_asked(tmp_path):
    path = tmp_path / "a.sched"
    path.write_bytes(b"kernel")
    assert SourceFile.from_path(path, "shown.sched").path == "shown.sched"
    assert SourceFile.from_path(path).path == path.as_posix()
