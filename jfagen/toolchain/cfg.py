"""The control flow of a listing: blocks, dominators, natural loops, and the blocks that wait."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from .sass import Instruction, Listing

#: Opcodes, by their first letters, that test whether the wait is over.
_WAIT_TESTS = ("SYNCS.PHASECHK", "USETMAXREG", "UTCATOMSWS", "NANOSLEEP")
#: What else a block that only waits may hold: control, votes, and arithmetic on the operands.
_WAIT_CONTROL = ("BRA", "BSSY", "BSYNC", "WARPSYNC", "YIELD", "NOP", "DEPBAR")
_WAIT_VOTES = ("VOTE", "ELECT", "PLOP3", "UPLOP3")
_WAIT_MOVES = ("MOV", "UMOV", "IMAD.MOV", "IMAD.U32", "R2UR", "S2UR", "CS2R", "SEL", "USEL")
_WAIT_SUMS = ("IADD3", "UIADD3", "LEA", "ULEA", "SHF", "USHF")
_WAIT_OPCODES = (
    *_WAIT_TESTS,
    *_WAIT_CONTROL,
    *_WAIT_VOTES,
    *_WAIT_MOVES,
    *_WAIT_SUMS,
)
_WAIT_LOOP_INSTRUCTIONS = 24
_WAIT_STUB_INSTRUCTIONS = 6
_WAIT_RETURN_INSTRUCTIONS = 3


class _Exit(Enum):
    """How control leaves an instruction that can end a block."""

    BRANCH = auto()
    JUMP = auto()
    STOP = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Instructions that run one after the other, and the blocks before and after it."""

    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A natural loop: the header that every lap passes, and all blocks of its body."""

    header: int
    blocks: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlFlow:
    """The graph; `order` lists the reachable blocks so that a dominator comes first."""

    blocks: tuple[Block, ...]
    order: tuple[int, ...]
    dominators: Mapping[int, int]
    loops: tuple[Loop, ...]

    def dominates(self, first: int, second: int) -> bool:
        """Tell whether every way to `second` passes `first`."""
        while second != first and second != 0:
            second = self.dominators[second]
        return second == first


def control_flow(listing: Listing) -> ControlFlow:
    """Return the control-flow graph of a kernel with its natural loops, by header."""
    blocks = _blocks(listing)
    order = _reverse_postorder(blocks)
    dominators = _dominators(blocks, order)
    bare = ControlFlow(blocks=blocks, order=order, dominators=dominators, loops=())
    return ControlFlow(blocks=blocks, order=order, dominators=dominators, loops=_loops(bare))


def _exit(instruction: Instruction) -> _Exit | None:
    opcode = instruction.opcode
    if opcode.startswith(("BRX", "JMX")):
        return _Exit.JUMP
    if opcode.startswith(("BRA", "JMP")):
        _, _, operands = instruction.text.partition(" ")
        # A predicate operand, or a vote or divergence form, may fall through like a guard.
        plain = operands.lstrip().startswith("`") and not re.search(r"\.(ANY|ALL|DIV|CONV)", opcode)
        return _Exit.JUMP if plain and not instruction.is_conditional else _Exit.BRANCH
    if opcode.startswith(("EXIT", "RET", "KILL")):
        return _Exit.BRANCH if instruction.is_conditional else _Exit.STOP
    if opcode.startswith("WARPSYNC") and instruction.targets:
        return _Exit.BRANCH
    return None


def _blocks(listing: Listing) -> tuple[Block, ...]:
    instructions, count = listing.instructions, len(listing.instructions)
    exits = {index: how for index, x in enumerate(instructions) if (how := _exit(x)) is not None}
    leaders = {0, *listing.labels.values(), *(index + 1 for index in exits)}
    starts = sorted(index for index in leaders if index < count)
    number = {start: block for block, start in enumerate(starts)}
    ends = [*starts[1:], count]
    successors: list[tuple[int, ...]] = []
    for end in ends:
        how = exits.get(end - 1)
        following = set()
        if how in (_Exit.BRANCH, _Exit.JUMP):
            places = [listing.labels.get(target) for target in instructions[end - 1].targets]
            following |= {number[place] for place in places if place in number}
        if how in (None, _Exit.BRANCH) and end in number:
            following.add(number[end])
        successors.append(tuple(sorted(following)))
    predecessors: list[list[int]] = [[] for _ in starts]
    for block, following_blocks in enumerate(successors):
        for successor in following_blocks:
            predecessors[successor].append(block)
    return tuple(
        Block(
            instructions=instructions[start:end],
            successors=successors[block],
            predecessors=tuple(predecessors[block]),
        )
        for block, (start, end) in enumerate(zip(starts, ends, strict=True))
    )


def _reverse_postorder(blocks: tuple[Block, ...]) -> tuple[int, ...]:
    finished: list[int] = []
    seen = {0}
    stack = [(0, iter(blocks[0].successors))]
    while stack:
        block, remaining = stack[-1]
        successor = next((each for each in remaining if each not in seen), None)
        if successor is None:
            finished.append(block)
            stack.pop()
        else:
            seen.add(successor)
            stack.append((successor, iter(blocks[successor].successors)))
    return tuple(reversed(finished))


def _dominators(blocks: tuple[Block, ...], order: tuple[int, ...]) -> dict[int, int]:
    """Return the immediate dominator of every reachable block (Cooper, Harvey and Kennedy)."""
    position = {block: index for index, block in enumerate(order)}
    dominators = {0: 0}

    def meet(first: int, second: int) -> int:
        while first != second:
            if position[first] > position[second]:
                first = dominators[first]
            else:
                second = dominators[second]
        return first

    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [each for each in blocks[block].predecessors if each in dominators]
            nearest = known[0]
            for each in known[1:]:
                nearest = meet(nearest, each)
            if dominators.get(block) != nearest:
                dominators[block] = nearest
                changed = True
    return dominators


def _loops(graph: ControlFlow) -> tuple[Loop, ...]:
    bodies: dict[int, set[int]] = {}
    for block in graph.order:
        for header in graph.blocks[block].successors:
            # `BRA.U.ANY` repeats one instruction for each distinct uniform operand: no loop.
            if graph.blocks[block].instructions[-1].opcode.endswith(".ANY"):
                continue
            if graph.dominates(header, block):
                body = bodies.setdefault(header, {header})
                _add_body(graph, body, block)
    return tuple(
        Loop(header=header, blocks=frozenset(body)) for header, body in sorted(bodies.items())
    )


def _add_body(graph: ControlFlow, body: set[int], end: int) -> None:
    """Add to the body every block from which the back edge at `end` is reached."""
    work = [end]
    while work:
        block = work.pop()
        if block not in body:
            body.add(block)
            # Code that nothing reaches has no dominator and takes no part in any loop.
            work += [each for each in graph.blocks[block].predecessors if each in graph.dominators]


def waiting_blocks(graph: ControlFlow) -> frozenset[int]:
    """Return the blocks that only retry a wait, with the stubs that lead in and out of them."""
    waiting: set[int] = set()
    for loop in graph.loops:
        held = [x for block in loop.blocks for x in graph.blocks[block].instructions]
        tests = any(x.opcode.startswith(_WAIT_TESTS) for x in held)
        if len(held) <= _WAIT_LOOP_INSTRUCTIONS and tests and _only_waits(held):
            waiting |= loop.blocks
    grown = True
    while grown:
        stubs = {
            block for block in graph.order if block not in waiting and _leads(graph, block, waiting)
        }
        waiting |= stubs
        grown = bool(stubs)
    returns = {
        block for block in graph.order if block not in waiting and _returns(graph, block, waiting)
    }
    return frozenset(waiting | returns)


def _only_waits(instructions: list[Instruction] | tuple[Instruction, ...]) -> bool:
    return all(x.opcode.startswith(_WAIT_OPCODES) for x in instructions)


def _leads(graph: ControlFlow, number: int, waiting: set[int]) -> bool:
    """Tell whether the block does nothing but go to blocks that wait."""
    block = graph.blocks[number]
    return (
        len(block.instructions) <= _WAIT_STUB_INSTRUCTIONS
        and bool(block.successors)
        and waiting.issuperset(block.successors)
        and _only_waits(block.instructions)
        and not any(x.opcode.startswith("USETMAXREG") for x in block.instructions)
    )


def _returns(graph: ControlFlow, number: int, waiting: set[int]) -> bool:
    """Tell whether the block does nothing but jump back from blocks that wait."""
    block = graph.blocks[number]
    return (
        len(block.instructions) <= _WAIT_RETURN_INSTRUCTIONS
        and bool(block.predecessors)
        and waiting.issuperset(block.predecessors)
        and block.instructions[-1].opcode == "BRA"
        and _only_waits(block.instructions)
    )
