"""What is said about the warps and registers of roles: the advice mends the schedule."""

from __future__ import annotations

import re

import pytest
from builders import edited, schedule_text

from jfagen.diagnostics import CompileError, SourceFile
from jfagen.driver import compile_source


def with_number(role, word, number):
    """Return the forward schedule with another number of a role."""
    old = rf"(role {re.escape(role)} *{{[^}}]*{word} )\d+"
    text, count = re.subn(old, rf"\g<1>{number}", schedule_text("fwd"))
    assert count == 1
    return text


def helps(text):
    with pytest.raises(CompileError) as caught:
        compile_source(SourceFile(path="a.sched", text=text))
    (found,) = caught.value.diagnostics
    return found.id, found.helps[0]


@pytest.mark.parametrize("number", [0, 4, 100, 250, 257, 512, 999_999_999])
@pytest.mark.parametrize("role", ["softmax[g]", "mma", "load", "store"])
def test_registers_as_the_help_says_leave_enough_for_the_default_role(role, number):
    id, advice = helps(with_number(role, "registers", number))
    assert id == "bad-registers"
    numbers = re.findall(r"\d+", advice)
    assert numbers
    for advised in numbers:
        compile_source(SourceFile(path="a", text=with_number(role, "registers", advised)))


@pytest.mark.parametrize("role", ["softmax[g]", "mma"])
def test_more_registers_than_the_help_says_do_not_fit(role):
    _, advice = helps(with_number(role, "registers", 512))
    more = int(re.findall(r"\d+", advice)[-1]) + 8
    assert helps(with_number(role, "registers", more))[0] == "register-overflow"


def test_a_wrong_default_or_another_wrong_role_does_not_stop_the_advice():
    text = with_number("softmax[g]", "registers", 512).replace(
        "warps 4  default", "warps 0  default"
    )
    with pytest.raises(CompileError) as caught:
        compile_source(SourceFile(path="a", text=text.replace("registers 24", "registers 1")))
    found = {one.helps[0] for one in caught.value.diagnostics if one.id == "bad-registers"}
    assert found == {"write 232", "write 24"}


@pytest.mark.parametrize("role", ["softmax[g]", "correction"])
@pytest.mark.parametrize("number", [0, 3, 5])
def test_a_role_that_computes_is_told_to_have_four_warps(role, number):
    id, advice = helps(with_number(role, "warps", number))
    assert id == "bad-warps" and advice.startswith("write 4, ")


@pytest.mark.parametrize("role", ["mma", "load", "store"])
@pytest.mark.parametrize("number", [0, 3])
def test_a_role_that_issues_may_have_any_number_that_is_built(role, number):
    id, advice = helps(with_number(role, "warps", number))
    assert (id, advice) == ("bad-warps", "write 1, 2, 4, 8 or 16")


# ---- tiles in registers ------------------------------------------------------------------------


def with_registers(number, *edits):
    return edited("hopper/fwd", ("registers 232", f"registers {number}"), *edits)


@pytest.mark.parametrize("number", [96, 160, 184])
def test_tiles_that_do_not_fit_are_refused_and_the_help_makes_room(number):
    id, advice = helps(with_registers(number))
    assert (id, advice) == ("register-tiles", "write `registers 192` for `consumer`")
    compile_source(SourceFile(path="a", text=with_registers(192)))


def test_a_smaller_head_dimension_needs_fewer_registers():
    narrow = ("head_dim in {128, 64}", "head_dim 64")
    compile_source(SourceFile(path="a", text=with_registers(160, narrow)))
    assert helps(with_registers(152, narrow))[0] == "register-tiles"


def test_advice_for_the_default_role_leaves_room_for_the_tiles_of_the_others():
    """Three groups would fit with 144 registers each, were it not for their tiles."""
    text = edited("hopper/fwd", ("x 2 as g", "x 3 as g"), ("depth 2  # the next", "# the next"))
    assert helps(text) == ("register-overflow", "use fewer warps, or fewer groups")
    narrow = text.replace("head_dim in {128, 64}", "head_dim 64").replace("n 128 ", "n 64 ")
    assert helps(narrow)[1] == "with `registers 144` in `consumer` there are 24 left"
    compile_source(SourceFile(path="a", text=narrow.replace("registers 232", "registers 144")))
