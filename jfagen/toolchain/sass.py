"""Parse nvdisasm's listing of a kernel into instructions, labels and source lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .records import CompileFailed, Finding

_SECTION = re.compile(r'^\s*\.section\s+"?([^\s,"]+)')
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*)$")
_LABEL = re.compile(r"^\s*([.$\w][\w$.]*):\s*$")
_PLACE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_PREDICATE = re.compile(r"^@(!?U?P[0-9T]+)\s+(.*)$")
_COMMENT = re.compile(r"/\*.*?\*/|\(\*.*?\*\)")
_REFERENCE = re.compile(r"`\(([^)]+)\)")
_JUMPS = ("BRA", "JMP", "BRX", "JMX", "WARPSYNC")
_ALWAYS = (None, "PT", "UPT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One machine instruction.

    `text` is the opcode and its operands, `targets` the labels it may jump to, `line` the emitted
    line it came from: of an inlined helper, the line in the kernel that called it.
    """

    address: int
    predicate: str | None
    opcode: str
    text: str
    targets: tuple[str, ...] = ()
    line: int | None = None

    @property
    def is_conditional(self) -> bool:
        """Tell whether a predicate guards the instruction."""
        return self.predicate not in _ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A kernel's instructions in address order; a label names the index of what follows it."""

    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]


def parse_listing(text: str, kernel: str, source_file: str) -> Listing:
    """Return the listing of `kernel` alone, with the lines that are in `source_file`."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    inside = False
    line: int | None = None
    for row in text.splitlines():
        if section := _SECTION.match(row):
            inside = section.group(1) == f".text.{kernel}"
        elif not inside:
            continue
        elif place := _PLACE.match(row):
            # Of inlined code the callers follow, each in a row of its own, the outermost last.
            line = int(place.group(2)) if place.group(1) == source_file else None
        elif found := _INSTRUCTION.match(row):
            instructions.append(_instruction(int(found.group(1), 16), found.group(2), line))
        elif label := _LABEL.match(row):
            labels[label.group(1)] = len(instructions)
    if not instructions:
        raise CompileFailed(
            Finding(
                id="unreadable-output",
                message=f"the disassembly holds no instruction of `{kernel}`",
            )
        )
    return Listing(instructions=tuple(instructions), labels=labels)


def _instruction(address: int, body: str, line: int | None) -> Instruction:
    _, marker, table = body.partition("BRANCH_TARGETS")
    targets = re.findall(r"[.$][\w$.]+", table) if marker else []
    body = _COMMENT.sub("", body).rstrip().rstrip(";").rstrip()
    predicate = None
    if guarded := _PREDICATE.match(body):
        predicate, body = guarded.groups()
    opcode = body.split(None, 1)[0] if body else ""
    if opcode.startswith(_JUMPS):
        targets += _REFERENCE.findall(body)
    return Instruction(
        address=address,
        predicate=predicate,
        opcode=opcode,
        text=body,
        targets=tuple(targets),
        line=line,
    )
