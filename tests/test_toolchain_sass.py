"""Listings become blocks, loops and counts: each property on the smallest code that shows it."""

from __future__ import annotations

import pytest

from jfagen.toolchain.cfg import control_flow, waiting_blocks
from jfagen.toolchain.emitted import read_emitted
from jfagen.toolchain.figures import Family, count, family, hot_loops, instructions_of
from jfagen.toolchain.records import CompileFailed, LoopFigures
from jfagen.toolchain.roles import measure
from jfagen.toolchain.sass import Listing, parse_listing

EMITTED = """\
import triton
import triton.language.extra.tlx as tlx


@triton.jit
def helper(x):
    return x


@triton.jit
def k(n):
    with tlx.async_tasks():
        # left[g]: even tiles (toy.sched:4); and more words
        with tlx.async_task("default"):
            helper(n)
            helper(n)
        # right: odd tiles (toy.sched:5)
        with tlx.async_task(num_warps=1, registers=24, replicate=COPIES):
            helper(n)
            helper(n)


COPIES = tl.constexpr(2)
SIGNATURE = {"n": "i32"}
OPTIONS = {"num_warps": 8}
TARGET = "sm_100a"
KERNEL = "k"
BUDGET = {"smem_bytes": 64, "tmem_columns": 32, "registers": {"left": 168, "right": 24}}
"""
LEFT, RIGHT = 15, 19

# A loop that waits for a barrier: the retry lies out of line and jumps back into the body.
WAITING = """
S2R R1, SR_TID.X
.L_alloc:
USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xa8
BRA.U !UP0, `(.L_alloc)
.L_loop:
SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2
@!P0 BRA `(.L_retry)
.L_go:
LDTM.x32 R4, tmem[UR5]
MUFU.EX2 R7, R8
NOP
@P1 BRA `(.L_loop)
EXIT
.L_retry:
SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2
@!P0 BRA `(.L_retry)
BRA `(.L_go)
"""

# An inner loop with matrix work inside an outer one that has matrix work of its own.
NESTED = """
MOV R1, R2
.L_outer:
UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11]
IADD3 R3, R3, R4
.L_inner:
UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11]
UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11]
@P0 BRA `(.L_inner)
@P1 BRA `(.L_outer)
EXIT
"""

# A rescale that a lap may jump over.
SKIPPING = """
.L_loop:
LDTM.x8 R4, tmem[UR5]
@P2 BRA `(.L_skip)
FMUL2 R4, R4, R12
FMUL2 R6, R6, R12
STTM.x8 tmem[UR5], R4
.L_skip:
IADD3 R3, R3, R4
@P1 BRA `(.L_loop)
EXIT
"""


def listing(code: str, lines: dict[int, int] | None = None) -> Listing:
    """Return the parsed listing of bare code; `lines` gives emitted lines by instruction."""
    rows, index = ['\t.section\t.text.other,"ax",@progbits', "/*0000*/ EXIT ;"], 0
    rows += ['\t.section\t.text.k,"ax",@progbits', "k:", ".text.k:"]
    for row in code.strip().splitlines():
        if row.endswith(":"):
            rows.append(row)
            continue
        if index in (lines or {}):
            rows.append(f'\t//## File "lib.py", line 7 inlined at "k.py", line {lines[index]}')
            rows.append(f'\t//## File "k.py", line {lines[index]}')
        rows.append(f"        /*{16 * index:04x}*/                   {row} ;")
        index += 1
    return parse_listing("\n".join(rows), "k", "k.py")


def loops(code: str, lines: dict[int, int] | None = None) -> tuple[LoopFigures, ...]:
    return measure(listing(code, lines), read_emitted(EMITTED))[1]


def test_a_listing_keeps_its_own_section_with_labels_guards_and_targets():
    parsed = listing(WAITING)
    assert [x.address for x in parsed.instructions] == [16 * index for index in range(13)]
    assert parsed.labels[".L_loop"] == 3
    guarded = parsed.instructions[4]
    assert (guarded.predicate, guarded.opcode, guarded.targets) == ("!P0", "BRA", (".L_retry",))


def test_a_branch_table_names_every_target():
    table = 'BRX R4 -0x10 (*"BRANCH_TARGETS .L_a,.L_b"*)'
    parsed = listing(f"{table}\n.L_a:\nMOV R1, R2\nEXIT\n.L_b:\nEXIT")
    graph = control_flow(parsed)
    assert parsed.instructions[0].targets == (".L_a", ".L_b")
    assert graph.blocks[0].successors == (1, 2)


def test_an_inlined_instruction_has_the_line_of_its_outermost_caller():
    parsed = listing("MOV R1, R2\nMOV R3, R4\nEXIT", {0: 15, 2: 19})
    assert [x.line for x in parsed.instructions] == [15, 15, 19]


def test_a_line_of_another_file_is_no_line_of_the_kernel():
    text = '\t.section .text.k,"ax"\n\t//## File "lib.py", line 3\n/*0000*/ EXIT ;'
    assert parse_listing(text, "k", "k.py").instructions[0].line is None


def test_a_listing_without_the_kernel_is_refused():
    with pytest.raises(CompileFailed, match="no instruction of `other_kernel`"):
        parse_listing('\t.section .text.k,"ax"\n/*0000*/ EXIT ;', "other_kernel", "k.py")


def test_the_retry_of_a_wait_is_left_out_of_the_loop():
    (loop,) = loops(WAITING)
    assert loop.counts == {"EX2": 1, "LDTM": 1, "mbarrier wait": 1, "branch": 2}
    assert loop.instructions == 5
    assert (loop.shortest_path, loop.longest_path) == (5, 5)


def test_waiting_blocks_are_the_retries_and_not_the_loop_they_serve():
    graph = control_flow(listing(WAITING))
    waiting = waiting_blocks(graph)
    held = {x.address for block in waiting for x in graph.blocks[block].instructions}
    assert held == {0x10, 0x20, 0xA0, 0xB0, 0xC0}


def test_a_stub_that_only_leads_to_a_retry_is_left_out_too():
    stubbed = WAITING.replace("`(.L_retry)\n.L_go", "`(.L_stub)\n.L_go")
    stubbed = stubbed.replace("EXIT\n", "EXIT\n.L_stub:\nIMAD.U32 R2, RZ, RZ, UR6\n")
    (loop,) = loops(stubbed)
    assert loop.instructions == 5


def test_a_retry_that_does_work_is_no_waiting_block():
    graph = control_flow(listing(WAITING.replace("BRA `(.L_go)", "FADD R1, R1, R2\nBRA `(.L_go)")))
    held = {x.opcode for block in waiting_blocks(graph) for x in graph.blocks[block].instructions}
    assert "FADD" not in held


def test_the_limit_in_force_is_the_last_one_on_every_way_to_the_loop():
    (loop,) = loops(WAITING)
    assert loop.register_limit == 0xA8
    (without,) = loops(WAITING.replace("USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xa8", "NOP"))
    assert without.register_limit is None


@pytest.mark.parametrize(
    ("row", "registers"),
    [
        ("LDTM.x32 R4, tmem[UR5]", 36),
        ("STTM.x16 tmem[UR5], R40", 56),
        ("LDS.128 R40, [R1]", 44),
        ("FFMA2 R40, R2, R4, R6", 42),
        ("FADD R40, R2, UR60", 41),
    ],
)
def test_wide_instructions_name_every_register_they_touch(row, registers):
    (loop,) = loops(WAITING.replace("LDTM.x32 R4, tmem[UR5]", row))
    assert loop.registers_named == registers


def test_an_outer_loop_counts_what_is_outside_the_inner_one():
    inner, outer = sorted(loops(NESTED), key=lambda loop: loop.innermost, reverse=True)
    assert inner.counts == {"MMA": 2, "branch": 1}
    assert outer.counts == {"MMA": 1, "integer, move": 1, "branch": 1}
    assert (inner.innermost, outer.innermost) == (True, False)
    assert (outer.shortest_path, outer.longest_path) == (3, 3)


def test_an_outer_loop_without_work_of_its_own_is_not_listed():
    plain = NESTED.replace("UTCHMMA", "IADD3", 1)
    assert [loop.innermost for loop in loops(plain)] == [True]


def test_a_loop_inside_that_does_no_work_is_counted_with_its_outer_loop():
    code = SKIPPING.replace("IADD3 R3", ".L_sum:\nIADD3 R9, R9, R9\n@P3 BRA `(.L_sum)\nIADD3 R3")
    (loop,) = loops(code)
    assert (loop.innermost, loop.instructions) == (True, 9)


def test_a_loop_without_memory_or_matrix_work_is_not_hot():
    assert loops(SKIPPING.replace("LDTM", "LDS").replace("STTM", "STS")) == ()


def test_paths_tell_the_shortest_and_the_longest_lap_apart():
    (loop,) = loops(SKIPPING)
    assert (loop.instructions, loop.shortest_path, loop.longest_path) == (7, 4, 7)


def test_a_repeat_for_each_uniform_operand_is_no_loop():
    graph = control_flow(
        listing("MOV R1, R2\n.L_any:\nLDTM.x8 R4, tmem[UR5]\n@P0 BRA.U.ANY `(.L_any)\nEXIT")
    )
    assert graph.loops == ()
    turned = control_flow(
        listing("MOV R1, R2\n.L_any:\nLDTM.x8 R4, tmem[UR5]\n@P0 BRA `(.L_any)\nEXIT")
    )
    assert [loop.blocks for loop in turned.loops] == [frozenset({1})]


def test_an_edge_into_the_middle_of_a_cycle_makes_no_natural_loop():
    code = "@P0 BRA `(.L_b)\n.L_a:\nLDTM.x8 R4, tmem[UR5]\n.L_b:\nMOV R1, R2\n@P1 BRA `(.L_a)\nEXIT"
    assert control_flow(listing(code)).loops == ()


def test_code_that_nothing_reaches_is_in_no_loop():
    code = SKIPPING + ".L_lost:\nMUFU.EX2 R1, R2\nBRA `(.L_skip)\n"
    (loop,) = loops(code)
    assert loop.instructions == 7


def test_a_loop_belongs_to_the_role_that_most_of_it_was_written_in():
    (loop,) = loops(SKIPPING, {0: RIGHT, 1: LEFT, 2: RIGHT})
    assert (loop.role, loop.first_line, loop.last_line) == ("right", RIGHT, RIGHT)


def test_a_loop_without_lines_belongs_to_the_role_of_the_code_before_it():
    code = "MOV R1, R2\n" + SKIPPING.strip()
    parsed = listing(code, {0: LEFT, 1: 400})
    (loop,) = measure(parsed, read_emitted(EMITTED))[1]
    assert loop.role == "left"


def test_equal_loops_of_a_role_are_one_with_copies():
    second = SKIPPING.replace(".L_", ".M_").replace("EXIT", "").strip()
    both = second + "\n" + SKIPPING.strip()
    (loop,) = loops(both, {0: RIGHT})
    assert (loop.role, loop.copies) == ("right", 2)
    (loop,) = loops(both, {0: RIGHT - 1, 1: RIGHT + 1, 7: RIGHT, 9: RIGHT + 1})
    assert (loop.copies, loop.first_line, loop.last_line) == (2, RIGHT, RIGHT + 1)
    different = second.replace("FMUL2 R6, R6, R12\n", "") + "\n" + SKIPPING.strip()
    assert [each.copies for each in loops(different, {0: RIGHT})] == [1, 1]


def test_a_role_has_the_limit_that_most_of_its_code_runs_under():
    code = "USETMAXREG.DEALLOC.CTAPOOL 0x18\n" + SKIPPING.strip()
    roles, _ = measure(listing(code, {1: RIGHT}), read_emitted(EMITTED))
    found = {role.name: (role.registers_requested, role.registers_found) for role in roles}
    assert found == {"left": (168, None), "right": (24, 24)}


def test_a_few_instructions_moved_ahead_do_not_change_the_limit_of_a_role():
    ahead = "@P0 BRA `(.L_one)\nMOV R1, R2\n.L_one:\n@P0 BRA `(.L_two)\n.L_two:\n"
    code = ahead + "USETMAXREG.DEALLOC.CTAPOOL 0x18\n" + "MOV R1, R2\n" * 9 + "EXIT"
    roles, _ = measure(listing(code, {0: RIGHT}), read_emitted(EMITTED))
    assert roles[1].registers_found == 24


def test_families_of_one_loop_add_up_to_its_instructions():
    for code in (WAITING, NESTED, SKIPPING):
        for loop in loops(code):
            assert sum(loop.counts.values()) == loop.instructions


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("UTCQMMA.2CTA", Family.MMA),
        ("HGMMA.64x128x16.F32.BF16", Family.MMA),
        ("UTCBAR.MULTICAST", Family.COMMIT),
        ("FMNMX3", Family.FMNMX3),
        ("FMNMX.FTZ", Family.FMNMX),
        ("MUFU.RCP", Family.SFU),
        ("LDS.128", Family.LDS),
        ("LDSM.16.M88", Family.LDSM),
        ("LDGSTS.E", Family.COPY),
        ("LDG.E", Family.LDG),
        ("LD.E", Family.LDG),
        ("LDC.64", Family.OTHER),
        ("SYNCS.ARRIVE.TRANS64.A1T0", Family.ARRIVE),
        ("BAR.SYNC.DEFER_BLOCKING", Family.BAR_SYNC),
        ("BAR.ARV", Family.BAR_ARV),
        ("REDG.E.ADD.F32", Family.REDUCE),
        ("REDUX.MAX", Family.VOTE),
        ("UTMAREDG.4D.ADD", Family.TMA),
        ("IMAD.MOV.U32", Family.INTEGER),
        ("SEL", Family.INTEGER),
        ("FSEL", Family.FSEL),
        ("STL.64", Family.STL),
        ("F2FP.BF16.F32.PACK_AB", Family.F2FP),
        ("F2I", Family.OTHER),
    ],
)
def test_an_opcode_is_in_its_family(opcode, expected):
    assert family(opcode) is expected


def test_nops_are_not_counted():
    graph = control_flow(listing("NOP\nMOV R1, R2\nNOP\nEXIT"))
    assert count(instructions_of(graph, [0])).total() == 2
    assert count(graph.blocks[0].instructions).total() == 2


def test_hot_loops_skip_the_waits_themselves():
    graph = control_flow(listing(WAITING))
    assert len(graph.loops) == 3
    assert len(hot_loops(graph, waiting_blocks(graph))) == 1
