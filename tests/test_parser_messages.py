"""What is said about text that is no schedule: where, what was expected, found and meant."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from jfagen.diagnostics import CompileError, SourceFile, render, render_all
from jfagen.syntax import grammar, parse

FORWARD = Path(__file__).parents[1] / "schedules" / "fwd.sched"


def source(text: str) -> SourceFile:
    return SourceFile(path="a.sched", text=text)


def findings(text: str):
    with pytest.raises(CompileError) as caught:
        parse(source(text))
    return caught.value.diagnostics


def message(text: str) -> str:
    """Return the only finding as rendered."""
    (found,) = findings(text)
    return render(found)


def edited(*edits: tuple[str, str]) -> str:
    """Return the forward schedule with the first place of each text replaced."""
    text = FORWARD.read_text()
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def test_every_name_of_the_grammar_is_called_something_in_messages():
    rules = grammar.grammar().rules
    terminals = {symbol.name for rule in rules for symbol in rule.expansion if symbol.is_term}
    assert terminals - set(grammar.literals()) == set(grammar.NAMED_TERMINALS)


def test_the_words_that_start_an_item_are_those_of_the_grammar():
    stop = findings("kernel x { 3 }")[0]
    assert stop.message == "expected an item or `}`, found `3`"


def test_an_unknown_item():
    assert message(edited(("smem q[g] ", "smen q[g] "))) == dedent(
        """\
        error[unknown-word]: unknown word `smen`
          --> a.sched:20:3
           |
        20 |   smen q[g]   : bf16[m, d]
           |   ^^^^
        help: did you mean `smem`?"""
    )


def test_an_unknown_item_with_a_block_of_settings():
    found = message(edited(("problem {", "problm {")))
    assert "unknown word `problm`\n --> a.sched:7:3\n" in found
    assert found.endswith("help: did you mean `problem`?")


def test_an_unknown_item_that_is_near_to_nothing():
    found = message("kernel x {\n  qqq y : f32[m]\n}")
    assert "unknown word `qqq`\n --> a.sched:2:3\n" in found
    assert "help: an item starts with `algorithm`, `target`," in found


def test_an_unknown_setting():
    assert message(edited(("warps 4  default", "wraps 4  default"))) == dedent(
        """\
        error[unknown-word]: unknown word `wraps`
          --> a.sched:14:21
           |
        14 |   role correction { wraps 4  default }  # gets the registers that are left: 120
           |                     ^^^^^ expected `default`, `warps`, `registers` or `}`
        help: did you mean `warps`?"""
    )


def test_an_unknown_setting_of_a_buffer():
    found = message(edited(("depth 3", "dept 3")))
    assert "unknown word `dept`" in found and "did you mean `depth`?" in found


def test_an_unknown_value():
    assert message("kernel x {\n  target sm_90\n}") == dedent(
        """\
        error[unknown-word]: unknown word `sm_90`
         --> a.sched:2:10
          |
        2 |   target sm_90
          |          ^^^^^ expected `sm_100a` or `sm_90a`
        help: did you mean `sm_90a`?"""
    )


def test_an_unknown_word_before_a_block_of_ops():
    found = message("kernel x { consumer { trun { softmax } } }")
    assert "unknown word `trun`" in found and "did you mean `turn`?" in found


def test_a_missing_number_in_the_line():
    assert message(edited(("depth 3", "depth"))) == dedent(
        """\
        error[syntax]: expected a number, found `holds`
          --> a.sched:21:36
           |
        21 |   smem kv     : bf16[n, d]  depth  holds k, v  # one ring, k and v take turns
           |                                    ^^^^^"""
    )


def test_a_missing_name_at_the_end_of_a_line():
    assert message("kernel x {\n  smem a : f32[m] holds k,\n  smem b : f32[m]\n}") == dedent(
        """\
        error[syntax]: expected a value, found the end of the line
         --> a.sched:2:27
          |
        2 |   smem a : f32[m] holds k,
          |                           ^
        help: drop the comma, or write a value behind it"""
    )


def test_a_missing_name_between_a_comma_and_a_sign():
    found = findings(edited(("smem q[g]   :", "smem q[g],  :")))[0]
    assert found.helps == ("drop the comma, or write a buffer behind it",)


@pytest.mark.parametrize("text", [FORWARD.read_text(), "kernel x {\n}\n", "# a\n# b\n"])
def test_a_file_with_old_line_ends_says_so(text):
    for old in (text.replace("\n", "\r"), text.replace("\n", "\r") + "\n"):
        (found,) = findings(old)
        assert found.id == "not-text" and "CR alone" in found.message
        assert "convert the line ends" in found.helps[0]
    assert findings("# a\r\n# b\r\n")[0].id == "no-kernel"


def test_an_unclosed_block_before_an_item():
    assert message("kernel x {\n  role a { warps 1\n  role b { warps 1 }\n}") == dedent(
        """\
        error[syntax]: expected `default`, `warps`, `registers` or `}`, found `role`
         --> a.sched:3:3
          |
        3 |   role b { warps 1 }
          |   ^^^^
        note: this `{` is not closed
         --> a.sched:2:10
          |
        2 |   role a { warps 1
          |          ^"""
    )


def test_an_unclosed_block_of_ops_before_a_loop():
    found = message(edited(("load_q[g] }", "load_q[g]")))
    assert "expected an op, `peel`, `wait`, `turn`, `with` or `}`, found `loop`" in found
    assert "note: this `{` is not closed\n  --> a.sched:32:8\n" in found


def test_an_unclosed_kernel():
    assert message(FORWARD.read_text().rstrip().removesuffix("}")) == dedent(
        """\
        error[syntax]: expected an item or `}`, found the end of the file
          --> a.sched:44:81
           |
        44 |   tiles { persistent  order longest_first by kv_length  next clc asked by load }
           |                                                                                 ^
        note: this `{` is not closed
         --> a.sched:3:16
          |
        3 | kernel jfa_fwd {
          |                ^"""
    )


def test_the_end_of_a_file_after_a_comment_is_shown_after_the_last_word():
    assert "--> a.sched:1:11\n" in message("kernel x {   # and so on\n\n")


def test_text_after_the_kernel():
    assert message("kernel x { }\nkernel y { }\n") == dedent(
        """\
        error[syntax]: expected the end of the file, found `kernel`
         --> a.sched:2:1
          |
        2 | kernel y { }
          | ^^^^^^
        note: the kernel ends here
         --> a.sched:1:12
          |
        1 | kernel x { }
          |            ^
        help: one file holds one kernel"""
    )


@pytest.mark.parametrize("text", ["", "  \n", "# only a comment\n"])
def test_a_file_without_a_kernel(text):
    found = message(text)
    assert found.startswith("error[no-kernel]: the file holds no kernel\n --> a.sched:1:")
    assert found.endswith("help: a schedule is `kernel NAME { ... }`")


def test_a_misspelt_kernel():
    assert "did you mean `kernel`?" in message("kernl x { }")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"kernel x { \0 }", "the file holds a NUL byte"),
        (b"kernel x { } # \xff", "the file holds the byte 0xff, which is not UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00\xd0", "the file holds a NUL byte"),
    ],
)
def test_binary_junk(data, expected):
    with pytest.raises(CompileError) as caught:
        parse(SourceFile.from_bytes(data, "a.sched"))
    (found,) = caught.value.diagnostics
    assert (found.id, found.message) == ("not-text", expected)


@pytest.mark.parametrize(
    ("body", "expected", "help_line"),
    [
        ("tile { m 128x2 as g }", "`128x2` is not a number", "write `128 x 2`"),
        ("smem a : f32[m] depth = 3", "unexpected character `=`", "as in `depth 3`"),
        ("smem a : f32[m] depth: 3", "expected a number, found `:`", "as in `depth 3`"),
        ("load { a; b }", "unexpected character `;`", "blanks separate"),
        ("role ä { }", "unexpected character `ä` (U+00E4)", "ASCII letters"),
        ("role a { warps 1.5 }", "unexpected character `.`", "numbers are whole"),
        ("role \u043e { }", "unexpected character `\u043e` (U+043E)", "ASCII letters"),
        ("role a { warps \u0663 }", "unexpected character `\u0663` (U+0663)", "ASCII letters"),
        ("load { \u2192 }", "unexpected character `\u2192` (U+2192)", None),
        ("load { \u200b }", "unexpected character `U+200B`", None),
        ("load { \x01 }", "unexpected character `U+0001`", None),
        ("load {\n a\rb }", "unexpected character `U+000D`", None),
        (f"tile {{ m {'9' * 5000} }}", "a number has at most 9 digits, found 5000", None),
        ("mma { qk[i-] }", "expected a number, found `]`", None),
        ("mma { qk[i }", "expected `]`, found `}`", None),
        ("role a.b { }", "expected a role, found `a.b`", None),
        ("load load_q", "unknown word `load`", "an item starts with"),
        ("role load { } load load_q }", "expected `{`, found `load_q`", None),
    ],
)
def test_small_slips(body, expected, help_line):
    found = findings(f"kernel x {{ {body} }}")[0]
    assert found.message == expected
    assert help_line in found.helps[0] if help_line else found.helps == ()


def test_settings_given_twice():
    text = "kernel x {\n  target sm_90a\n  role a { warps 4  warps 8 }\n  target sm_100a\n}"
    first, second = findings(text)
    assert second.message == "`target` is given twice in this kernel"
    assert render(first) == dedent(
        """\
        error[said-twice]: `warps` is given twice in role `a`
         --> a.sched:3:21
          |
        3 |   role a { warps 4  warps 8 }
          |                     ^^^^^^^
        note: first given here
         --> a.sched:3:12
          |
        3 |   role a { warps 4  warps 8 }
          |            ^^^^^^^
        help: keep one of the two"""
    )


def test_one_error_of_each_item_is_reported_at_once():
    slips = [("warps 4", "wraps 4"), ("smem kv ", "smem "), ("-1]", "-x]"), ("asked by", "asks by")]
    text = edited(*slips)
    assert [found.message for found in findings(text)] == [
        "unknown word `wraps`",
        "expected a buffer, found `:`",
        "expected a number, found `x`",
        "unknown word `asks`",
    ]


def test_an_unclosed_block_does_not_hide_later_errors_nor_invent_any():
    text = edited(("load_q[g] }", "load_q[g]"), ("store_out[g] }", "store_out[g }"))
    assert [found.message for found in findings(text)] == [
        "expected an op, `peel`, `wait`, `turn`, `with` or `}`, found `loop`",
        "expected `]`, found `}`",
    ]


@pytest.mark.parametrize("cut", range(0, 1500, 37))
def test_a_file_cut_anywhere_gives_findings_inside_it(cut):
    text = FORWARD.read_text()[:cut]
    for found in findings(text):
        assert 0 <= found.label.span.start <= found.label.span.end <= len(text)
    assert render_all(findings(text))


def test_every_word_of_the_forward_schedule_misspelt_is_an_error_or_another_name():
    """No misspelling is lost: the tree differs, or there is a finding on that line or the next."""
    text = FORWARD.read_text()
    right = parse(source(text))
    for match in re.finditer(r"[a-z_0-9]+(?=[^#\n]*(#|\n))", text):
        if "#" in text[text.rfind("\n", 0, match.start()) + 1 : match.start()]:
            continue
        wrong = f"{text[: match.start()]}zz{text[match.start() :]}"
        try:
            tree = parse(source(wrong))
        except CompileError as error:
            line = source(wrong).position(match.start())[0]
            assert error.diagnostics[0].label.span.line in (line, line + 1), match
        else:
            assert tree != right, match
