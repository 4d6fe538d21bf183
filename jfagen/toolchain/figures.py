"""Count instructions by family, over a kernel and over one lap of each of its hot loops."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from .cfg import ControlFlow, Loop
from .sass import Instruction


class Family(StrEnum):
    """What an instruction is for, as the tables name it."""

    MMA = "MMA"
    COMMIT = "MMA commit"
    EX2 = "EX2"
    SFU = "other SFU"
    FFMA2 = "FFMA2"
    FADD2 = "FADD2"
    FMUL2 = "FMUL2"
    FFMA = "FFMA"
    FADD = "FADD"
    FMUL = "FMUL"
    FMNMX3 = "FMNMX3"
    FMNMX = "FMNMX"
    FSEL = "FSEL"
    F2FP = "F2FP"
    R2P = "R2P"
    LDTM = "LDTM"
    STTM = "STTM"
    LDS = "LDS"
    STS = "STS"
    LDSM = "LDSM"
    STSM = "STSM"
    LDL = "LDL"
    STL = "STL"
    LDG = "LDG"
    STG = "STG"
    WAIT = "mbarrier wait"
    ARRIVE = "mbarrier arrive"
    BAR_SYNC = "BAR.SYNC"
    BAR_ARV = "BAR.ARV"
    TMA = "TMA"
    COPY = "LDGSTS"
    VOTE = "vote, shuffle"
    REDUCE = "RED, ATOM"
    FENCE = "fence"
    INTEGER = "integer, move"
    BRANCH = "branch"
    OTHER = "other"


#: The first pattern that the opcode begins with decides; families of no interest are OTHER.
_PATTERNS = tuple(
    (family, re.compile(pattern))
    for family, pattern in (
        (Family.MMA, r"UTC[HQOI]MMA|[HQIB]GMMA|[HIQD]MMA"),
        (Family.EX2, r"MUFU\.EX2"),
        (Family.SFU, r"MUFU"),
        (Family.FFMA2, r"FFMA2"),
        (Family.FMUL2, r"FMUL2"),
        (Family.FADD2, r"FADD2"),
        (Family.FFMA, r"FFMA"),
        (Family.FMUL, r"FMUL"),
        (Family.FADD, r"FADD"),
        (Family.FMNMX3, r"FMNMX3"),
        (Family.FMNMX, r"FMNMX"),
        (Family.FSEL, r"FSEL"),
        (Family.F2FP, r"F2FP"),
        (Family.LDTM, r"LDTM"),
        (Family.STTM, r"STTM"),
        (Family.COMMIT, r"UTCBAR"),
        (Family.LDL, r"LDL"),
        (Family.STL, r"STL"),
        (Family.LDSM, r"LDSM"),
        (Family.LDS, r"LDS"),
        (Family.STSM, r"STSM"),
        (Family.STS, r"STS"),
        (Family.COPY, r"LDGSTS"),
        (Family.LDG, r"LDG(?!DEPBAR)|LD(?:\.|$)"),
        (Family.STG, r"STG|ST(?:\.|$)"),
        (Family.REDUCE, r"REDG?(?:\.|$)|ATOM[GS]?(?:\.|$)"),
        (Family.TMA, r"UTMA|UBLK"),
        (Family.WAIT, r"SYNCS\.PHASECHK"),
        (Family.ARRIVE, r"SYNCS\.(?:ARRIVE|CCTL)"),
        (Family.BAR_SYNC, r"BAR\.(?:SYNC|RED)|B2R"),
        (Family.BAR_ARV, r"BAR\.ARV"),
        (Family.FENCE, r"FENCE|MEMBAR|ERRBAR|CCTL"),
        (Family.VOTE, r"VOTE|SHFL|ELECT|REDUX|MATCH"),
        (
            Family.BRANCH,
            r"BRA|BRX|JMP|JMX|EXIT|RET|CALL|BSSY|BSYNC|BREAK|BPT|YIELD|NANOSLEEP",
        ),
        (Family.R2P, r"R2P|P2R"),
        (
            Family.INTEGER,
            r"U?(?:MOV|R2UR|PRMT|SEL|IADD|IMAD|LEA|LOP|SH[FLR]|ISETP|I?MNMX|VI|PLOP|FLO|POPC"
            r"|BMSK|SGXT|IABS)|C?S2U?R|RPCMOV|LEPC|BREV",
        ),
    )
)
_MATRIX = frozenset({Family.MMA})
_OUTER_WORK = _MATRIX | {Family.EX2}
#: A loop that holds one of these does the kernel's work.
_HOT = _OUTER_WORK | {Family.LDTM, Family.STTM, Family.COPY}
_HOT_TMA = re.compile(r"UTMALDG|UTMASTG|UTMAREDG|UBLK")
_REGISTER = re.compile(r"\bR(\d+)\b")
_TMEM_WIDTH = re.compile(r"(?:LDTM|STTM)[\w.]*?\.x(\d+)")
_FOUR_REGISTERS = re.compile(r"\.128")
_TWO_REGISTERS = re.compile(r"\.64|FFMA2|FMUL2|FADD2|CS2R$|WIDE")
_SET_LIMIT = "USETMAXREG"


@dataclass(frozen=True, slots=True, kw_only=True)
class HotLoop:
    """A loop that does the kernel's work, with the blocks that count as its own.

    The blocks leave out the retries of waits and, in an outer loop, the hot loops inside.
    """

    header: int
    innermost: bool
    body: frozenset[int]
    own: frozenset[int]


@cache
def family(opcode: str) -> Family:
    """Return the family of an opcode."""
    for each, pattern in _PATTERNS:
        if pattern.match(opcode):
            return each
    return Family.OTHER


def count(instructions: Iterable[Instruction]) -> Counter[Family]:
    """Return how many instructions of each family there are; NOPs are no work."""
    return Counter(family(x.opcode) for x in instructions if x.opcode != "NOP")


def instructions_of(graph: ControlFlow, blocks: Iterable[int]) -> Iterator[Instruction]:
    """Yield the instructions of the blocks in address order, NOPs left out."""
    for block in sorted(blocks):
        yield from (x for x in graph.blocks[block].instructions if x.opcode != "NOP")


def hot_loops(graph: ControlFlow, waiting: frozenset[int]) -> tuple[HotLoop, ...]:
    """Return the innermost loops that work, and those around them that add MMA or exp2."""
    candidates = [loop for loop in graph.loops if loop.header not in waiting]
    hot = {loop.header for loop in candidates if _is_hot(graph, loop.blocks - waiting)}
    found = []
    for loop in candidates:
        inner = [each for each in candidates if each.header in hot and _is_inside(each, loop)]
        own = loop.blocks.difference(waiting, *(each.blocks for each in inner))
        works = _OUTER_WORK & count(instructions_of(graph, own)).keys()
        if (not inner and loop.header in hot) or (inner and works):
            found.append(
                HotLoop(header=loop.header, innermost=not inner, body=loop.blocks, own=own)
            )
    return tuple(found)


def _is_hot(graph: ControlFlow, blocks: frozenset[int]) -> bool:
    return any(
        family(x.opcode) in _HOT or _HOT_TMA.match(x.opcode) for x in instructions_of(graph, blocks)
    )


def _is_inside(inner: Loop, outer: Loop) -> bool:
    return inner.header != outer.header and inner.blocks < outer.blocks


def lap_lengths(graph: ControlFlow, loop: HotLoop) -> tuple[int, int]:
    """Return the fewest and the most instructions of the loop's own on one lap."""
    position = {block: index for index, block in enumerate(graph.order)}
    shortest: dict[int, int] = {}
    longest: dict[int, int] = {}
    # Against the order of dominance every block is met after all that it leads forward to.
    for block in sorted(loop.body, key=position.__getitem__, reverse=True):
        forward = [
            each
            for each in graph.blocks[block].successors
            if each in shortest and position[each] > position[block]
        ]
        closes = loop.header in graph.blocks[block].successors
        if not forward and not closes:
            continue
        length = sum(1 for _ in instructions_of(graph, [block])) if block in loop.own else 0
        shortest[block] = length + min([shortest[each] for each in forward] + [0] * closes)
        longest[block] = length + max([longest[each] for each in forward] + [0] * closes)
    return shortest[loop.header], longest[loop.header]


def registers_named(instructions: Iterable[Instruction]) -> int:
    """Return one more than the highest register that the instructions touch."""
    return max((_highest_register(x) + 1 for x in instructions), default=0)


def _highest_register(instruction: Instruction) -> int:
    registers = [int(number) for number in _REGISTER.findall(instruction.text)]
    if not registers:
        return -1
    opcode = instruction.opcode
    if width := _TMEM_WIDTH.match(opcode):
        first = registers[-1] if opcode.startswith("STTM") else registers[0]
        return max(*registers, first + int(width.group(1)) - 1)
    if _FOUR_REGISTERS.search(opcode):
        return max(registers) + 3
    if _TWO_REGISTERS.search(opcode):
        return max(registers) + 1
    return max(registers)


def register_limit(graph: ControlFlow, block: int) -> int | None:
    """Return the setmaxnreg limit in force at the end of the block; None before the first."""
    while True:
        for instruction in reversed(graph.blocks[block].instructions):
            if instruction.opcode.startswith(_SET_LIMIT):
                return int(re.findall(r"0x[0-9a-f]+", instruction.text)[-1], 16)
        if block == 0:
            return None
        block = graph.dominators[block]
