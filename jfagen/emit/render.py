"""The one door to Jinja: templates spell what a view holds, strictly."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..paths import data_dir


@cache
def environment() -> Environment:
    """Return the environment of all templates; a missing name is an error."""
    env = Environment(
        loader=FileSystemLoader(data_dir("templates")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    env.filters["factor"] = factor
    env.filters["greater"] = greater
    env.filters["under"] = under
    return env


def factor(text: str) -> str:
    """Return an expression that can be multiplied: with brackets if it is a sum."""
    is_call = re.fullmatch(r"\w+\([^()]*\)", text) is not None
    return f"({text})" if " " in text and not is_call else text


def greater(text: str, number: int) -> str:
    """Return the comparison `text > number`; `step - 1 > 0` reads `step > 1`."""
    name, _, back = text.partition(" - ")
    return f"{name} > {number + int(back)}" if back else f"{text} > {number}"


def under(text: str, margin: int) -> str:
    """Return whole lines moved right by `margin` blanks; nothing stays nothing."""
    blank = " " * margin
    return "".join(f"{blank}{line}" if line.strip() else line for line in text.splitlines(True))


def render(name: str, **values: Any) -> str:  # noqa: ANN401
    """Return one template with these values filled in."""
    return environment().get_template(name).render(**values)


def macros(name: str, **values: Any) -> Any:  # noqa: ANN401
    """Return the macros of one template as an object with a function for each."""
    return environment().get_template(name).make_module(values)
