"""A failing run as a file: enough to repeat it exactly, and what is expected of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields

from .problem import Problem
from .scheduler import Policy, PolicyName
from .shrink import Case
from .values import Value

_FORMAT = 1
_DTYPES = ("bf16", "fp16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A case, the kernel text it was found in, and how it ends."""

    case: Case
    digest: str
    kind: str
    report: str

    def as_json(self) -> str:
        """Return the text of the file."""
        case = self.case
        content = {
            "format": _FORMAT,
            "kernel": self.digest,
            "problem": asdict(case.problem),
            "sms": case.sms,
            "seed": case.seed,
            "nan_neighbours": case.nan_neighbours,
            "step_bound": case.step_bound,
            "choices": _packed(case.policy.holds),
            "kind": self.kind,
            "report": self.report.splitlines(),
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def text_digest(text: str) -> str:
    """Return what tells one kernel text from another."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def failure_from_json(text: str) -> Failure:
    """Return what the text of a file says.

    Raises:
        ValueError: it is not the text of such a file; the message is one line.
    """
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"is no JSON{where}") from None
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError("is no saved failure")
    if content["format"] != _FORMAT:
        raise ValueError(f"has format {content['format']!r}, not {_FORMAT}")
    choices = _choices(content)
    case = Case(
        problem=_problem(_get(content, "problem", dict)),
        sms=_number(content, "sms", 1),
        seed=_number(content, "seed", 0),
        policy=Policy(name=PolicyName.DEFAULT, holds=choices),
        nan_neighbours=_get(content, "nan_neighbours", bool),
        step_bound=_number(content, "step_bound", 1),
    )
    return Failure(
        case=case,
        digest=_get(content, "kernel", str),
        kind=_get(content, "kind", str),
        report="\n".join(_texts(content, "report")),
    )


def _packed(holds: tuple[tuple[str, ...], ...]) -> list[list[str]]:
    """Return the holds of each launch; `X x N` stands for N equal ones in a row."""
    packed = []
    for part in holds:
        counted: list[tuple[str, int]] = []
        for label in part:
            if counted and counted[-1][0] == label:
                counted[-1] = (label, counted[-1][1] + 1)
            else:
                counted.append((label, 1))
        packed.append([label if n == 1 else f"{label} x {n}" for label, n in counted])
    return packed


def _choices(content: dict[str, Value]) -> tuple[tuple[str, ...], ...]:
    parts = _get(content, "choices", list)
    holds = []
    for part in parts:
        if not isinstance(part, list) or not all(isinstance(label, str) for label in part):
            raise ValueError("`choices` is not a list of lists of texts")
        labels: list[str] = []
        for text in part:
            label, _, count = text.partition(" x ")
            if count and not (count.isdecimal() and len(count) < 6):
                raise ValueError(f"`choices` has `{text}`, which counts nothing")
            labels += [label] * int(count or 1)
        holds.append(tuple(labels))
    return tuple(holds)


def _problem(content: dict[str, Value]) -> Problem:
    known = {field.name for field in fields(Problem)}
    if odd := sorted(set(content) - known):
        raise ValueError(f"`problem` has an unknown `{odd[0]}`")
    lengths = _lengths(content, "lengths")
    query_lengths = None
    if content.get("query_lengths") is not None:
        query_lengths = _lengths(content, "query_lengths")
        if len(query_lengths) != len(lengths):
            raise ValueError(f"has {len(query_lengths)} `query_lengths` for {len(lengths)} lengths")
    return Problem(
        lengths=lengths,
        queries=_number(content, "queries", 1),
        heads=_number(content, "heads", 1),
        head_dim=_number(content, "head_dim", 1),
        rising=_get(content, "rising", bool),
        query_lengths=query_lengths,
        dtype=_dtype(content),
    )


def _lengths(content: dict[str, Value], name: str) -> tuple[int, ...]:
    lengths = _get(content, name, list)
    if not lengths or not all(type(length) is int and length >= 0 for length in lengths):
        raise ValueError(f"`{name}` is not a list of whole numbers")
    return tuple(lengths)


def _dtype(content: dict[str, Value]) -> str:
    """Return the element type; older files do not say it."""
    dtype = content.get("dtype", _DTYPES[0])
    if dtype not in _DTYPES:
        raise ValueError(f"`dtype` is {dtype!r}, not {' or '.join(_DTYPES)}")
    return str(dtype)


def _get(content: dict[str, Value], name: str, kind: type) -> Value:
    if name not in content:
        raise ValueError(f"lacks `{name}`")
    if type(content[name]) is not kind:
        raise ValueError(f"`{name}` is no {_WORDS[kind]}")
    return content[name]


_WORDS = {dict: "object", list: "list", str: "text", bool: "truth value", int: "whole number"}


def _number(content: dict[str, Value], name: str, least: int) -> int:
    number: int = _get(content, name, int)
    if number < least:
        raise ValueError(f"`{name}` is {number}, less than {least}")
    return number


def _texts(content: dict[str, Value], name: str) -> list[str]:
    texts: list[str] = _get(content, name, list)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"`{name}` is not a list of texts")
    return texts
