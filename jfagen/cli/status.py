"""The status block: what was proved, what was not checked, what the kernel takes."""

from __future__ import annotations

from pathlib import Path

from ..driver import Compiled
from ..explain import memory_figures
from ..proof.resources import CAPTURE_BYTES

_MARGIN = 14


def status_block(compiled: Compiled, path: Path | None = None, *, written: bool = True) -> str:
    """Return the block for one schedule; a line for another instance of the one before."""
    head = compiled.program.source.path
    if path is not None:
        head += f" -> {path}" + ("" if written else " (unchanged)")
    if compiled.instance.suffix:
        return _line_of_instance(compiled, head)
    lines = [head]
    for rule, verdict in compiled.proof.verdicts.items():
        lines.append(_line(rule, f"{verdict.word.ljust(10)}  {verdict.what}"))
    return "\n".join([*lines, *_resource_lines(compiled)])


def _line_of_instance(compiled: Compiled, head: str) -> str:
    """Return what differs from instance to instance; the same rules hold for all."""
    offered = compiled.instance.offered
    chosen = ", ".join(
        f"{field} {value}"
        for field, value in compiled.instance.values.items()
        if value != offered[field][0]
    )
    return (
        f"{head}: {chosen}; all of that holds too, SMEM {compiled.resources.smem_bytes:,} bytes, "
        f"{compiled.resources.barriers} barriers"
    )


def _line(word: str, text: str) -> str:
    return f"  {word.ljust(_MARGIN - 2)}{text}"


def _resource_lines(compiled: Compiled) -> list[str]:
    program, resources = compiled.program, compiled.resources
    memory = memory_figures(compiled)
    memory["SMEM"] += f", and up to {CAPTURE_BYTES} that the toolchain adds"
    roles = ", ".join(
        f"{role.name} {f'{role.replicas} x ' if role.replicas > 1 else ''}"
        f"{resources.registers[role.name]}{' (what is left)' if role.default else ''}"
        for role in program.roles
    )
    return [
        *(_line(name, words) for name, words in memory.items()),
        _line("registers", roles),
        _line("threads", str(resources.threads)),
        _line(
            "barriers",
            f"{resources.barriers} in {len(compiled.sync.channels)} channels, none redundant",
        ),
    ]


def timing_lines(compiled: Compiled) -> str:
    """Return the time of every pass, and of the way from text to proof."""
    after = ("emit", "read back")
    proof = sum(seconds for name, seconds in compiled.seconds.items() if name not in after)
    whole = sum(compiled.seconds.values())
    lines = [_line(name, f"{seconds * 1e3:6.1f} ms") for name, seconds in compiled.seconds.items()]
    lines.append(_line("to proof", f"{proof * 1e3:6.1f} ms"))
    return "\n".join([*lines, _line("with text", f"{whole * 1e3:6.1f} ms")])
