"""Pages of the rules: what is proved, and on what assumptions."""

from __future__ import annotations

import inspect

from ..proof.rules import NOT_CHECKED, RULES

ASSUMPTIONS = """\
assumptions of every proof:
  all roles see the same number of steps in a tile
  MMAs that one role issues complete in order, others are unordered to them
  TMA loads and stores complete in any order
  a wait acquires all that came before the arrivals of its phase
  the answer of cluster launch control is a channel with one arrival per consuming role"""

_LATER = {
    "intra-role": "a role whose warps rewrite TMEM that others of its warps still read",
    "fence": "generic stores that TMA or MMA read have a proxy fence",
    "tiles": "every tile is dealt exactly once for every number of SMs",
}


def rule_ids() -> list[str]:
    """Return the ids of all rules, checked or not."""
    return [*(rule.ID for rule in RULES), *NOT_CHECKED]


def rule_page(rule_id: str) -> str:
    """Return the page of one rule; KeyError for an unknown id."""
    for rule in RULES:
        if rule.ID == rule_id:
            return f"{inspect.cleandoc(rule.__doc__ or '')}\n\n{ASSUMPTIONS}"
    return f"{rule_id}: {_LATER[rule_id]}\n\nnot checked yet: the status block says so"
