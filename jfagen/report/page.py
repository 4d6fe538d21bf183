"""The page: everything about one compiled schedule in one file that needs no network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from .. import __version__
from ..driver import Compiled
from ..emit import end_words, number_words, phase_words
from ..explain.overlaps import certificate
from ..semantics.program import NextTile
from ..types import Storage
from .barriers import barriers, phase_rule
from .code import kernel_lines, schedule_lines
from .drawing import Drawing
from .lanes import lanes
from .links import links
from .memory import memory
from .palette import page_style
from .timeline import timeline


@dataclass(frozen=True, slots=True)
class Bar:
    """How much of a budget is taken.

    Attributes:
        name: of the budget.
        words: what is taken, of how much, in words.
        part: in percent.
    """

    name: str
    words: str
    part: float


def page(compiled: Compiled) -> str:
    """Return the page on one kernel as HTML."""
    program, found = compiled.program, links(compiled)
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            compiled=compiled,
            program=program,
            version=__version__,
            kernels=compiled.instance.kernels,
            pictures=drawings(compiled),
            certificates=_certificates(compiled),
            bars=_bars(compiled),
            channels=_channels(compiled),
            unseen=_unseen(compiled),
            schedule=schedule_lines(program.source, found),
            kernel=kernel_lines(compiled.kernel.text, found),
            style=Markup(page_style() + _text("page.css")),
            script=Markup(_text("page.js")),
        )
    )


def drawings(compiled: Compiled) -> dict[str, Drawing]:
    """Return the pictures by name: roles, tmem where there is any, smem, barriers."""
    shown, placement = timeline(compiled), compiled.placement
    found = [lanes(shown)]
    if placement.columns:
        found.append(memory(shown, Storage.TMEM, placement.allocated))
    found += [memory(shown, Storage.SMEM, placement.smem_bytes), barriers(compiled)]
    return {drawing.name: drawing for drawing in found}


@cache
def environment() -> Environment:
    """Return the environment of the page's templates; what is filled in is escaped."""
    found = Environment(
        loader=PackageLoader(__package__, ""),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["marked"] = _marked
    return found


def _marked(words: str) -> Markup:
    """Return words in which what stands in backticks is code."""
    parts = words.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _certificates(compiled: Compiled) -> dict[str, list[tuple[str, list[str]]]]:
    """Return for each memory the pairs that overlap, with what orders their accesses."""
    found: dict[str, list[tuple[str, list[str]]]] = {"tmem": [], "smem": []}
    for one, other in compiled.placement.layout.overlapping():
        head, *lines = certificate(compiled, one, other)
        storage = str(compiled.program.buffer(one).storage)
        found[storage].append((head, [line.strip() for line in lines]))
    return found


def _bars(compiled: Compiled) -> list[Bar]:
    program, resources, target = compiled.program, compiled.resources, compiled.program.target
    asked = resources.all_registers(program)
    rows = [("SMEM", resources.smem_bytes, target.smem_bytes, "bytes")]
    if target.tmem_columns:
        rows.append(("TMEM", resources.tmem_columns, target.tmem_columns, "columns"))
    rows += [
        ("threads", resources.threads, target.threads, "threads"),
        ("registers", asked, target.registers, "registers of all threads"),
    ]
    return [
        Bar(name, f"{taken:,} of {limit:,} {unit}", 100 * taken / limit)
        for name, taken, limit, unit in rows
    ]


def _unseen(compiled: Compiled) -> list[str]:
    """Return what else orders roles or warps, in words."""
    programs, found = compiled.program.role_programs, []
    if compiled.program.tiles.next is NextTile.CLC:
        found.append("the tile channel of cluster launch control")
    if turns := [one.role.name for one in programs if one.takes_turns]:
        found.append(f"the turns of {', '.join(turns)}, on named barriers")
    if meetings := {compiled.plan.at(site).role.name for site in compiled.sync.rendezvous}:
        found.append(f"the rendezvous of {', '.join(sorted(meetings))}, on named barriers")
    return found


def _channels(compiled: Compiled) -> list[dict[str, str]]:
    plan = compiled.plan
    return [
        {
            "name": channel.name,
            "kind": str(channel.kind),
            "number": number_words(channel),
            "completes": phase_words(channel),
            "rule": phase_rule(channel),
            "arrives": end_words(plan, channel, channel.signals),
            "waits": end_words(plan, channel, channel.waits),
            "reasons": "; ".join(channel.reasons),
        }
        for channel in compiled.sync.channels
    ]
