"""What is said about the warps and registers of roles: the advice mends the schedule."""

from __future__ import annotations

import re

import pytest
from builders import schedule_text

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
