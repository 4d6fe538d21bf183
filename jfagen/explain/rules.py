"""Pages of the rules: what is proved, and on what assumptions."""

from __future__ import annotations

import inspect

from ..diagnostics import RuleWords
from ..proof.rules import RULES
from ..readback import TEXT_RULES

ASSUMPTIONS = """\
assumptions of every proof:
  all roles see the same number of steps in a tile
  MMAs that one role issues complete in order, others are unordered to them
  TMA loads and stores complete in any order
  a wait acquires all that came before the arrivals of its phase
  the answer of cluster launch control is a channel with one arrival per consuming role"""


def rule_ids() -> list[str]:
    """Return the ids of all rules."""
    return [rule.ID for rule in (*RULES, *TEXT_RULES)]


def rule_words(rule_id: str) -> RuleWords | None:
    """Return what is said of a rule where findings are listed; None for an unknown id."""
    for rule in (*RULES, *TEXT_RULES):
        if rule.ID == rule_id:
            page = inspect.cleandoc(rule.__doc__ or "")
            return RuleWords(page.partition("\n\n")[0].removeprefix(f"{rule_id}: "), page)
    return None


def rule_page(rule_id: str) -> str:
    """Return the page of one rule; KeyError for an unknown id."""
    for rule in (*RULES, *TEXT_RULES):
        if rule.ID == rule_id:
            return f"{inspect.cleandoc(rule.__doc__ or '')}\n\n{ASSUMPTIONS}"
    raise KeyError(rule_id)
