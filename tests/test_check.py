"""Check: names, shapes, types and counts, one property each on the forward schedule."""

from __future__ import annotations

import ast
import re

import pytest
from builders import compiled, compiled_text, edited

from jfagen.diagnostics import CompileError, SourceFile
from jfagen.semantics import check
from jfagen.semantics.instances import instances
from jfagen.semantics.program import GroupRef, NextTile, TileOrder
from jfagen.semantics.regions import Leaf, Over
from jfagen.syntax import parse
from jfagen.types import DType, Storage

NEXT = "next clc asked by load"
LOADS = "load_k[i]  load_v[i]"
PIPELINE = "pv[0][i-1]  qk[0][i]  pv[1][i-1]  qk[1][i]"
REGION = "region scores[g] { s over (p, alpha, row_sum, row_max) }"


def checked(*edits):
    source = SourceFile(path="a.sched", text=edited("fwd", *edits))
    return check(parse(source), source)


def ids(*edits):
    with pytest.raises(CompileError) as caught:
        checked(*edits)
    return [found.id for found in caught.value.diagnostics]


def places(*edits):
    with pytest.raises(CompileError) as caught:
        checked(*edits)
    return [found.label.span.text for found in caught.value.diagnostics]


# ---- names and counts --------------------------------------------------------------------------


def test_names_come_in_order_of_declaration():
    program = checked()
    assert [role.name for role in program.roles] == [
        *("correction", "softmax", "mma", "load", "store"),
    ]
    assert [buffer.name for buffer in program.buffers] == [
        *("q", "kv", "out", "s", "p", "alpha", "row_sum", "row_max", "acc"),
    ]


def test_roles_ops_and_buffers_are_three_name_spaces():
    names = ("role load ", "role q ")
    assert checked(names, ("  load ", "  q "), ("asked by load", "asked by q")).roles[3].name == "q"


def test_a_ring_may_have_any_name_if_it_says_what_it_holds():
    assert checked(("smem kv ", "smem keys_and_values ")).holder("v").name == "keys_and_values"


def test_a_buffer_without_holds_holds_the_value_of_its_name():
    assert checked().buffer("acc").holds == ("acc",)


def test_a_role_over_the_groups_has_a_replica_for_each():
    program = checked()
    replicas = {role.name: role.replicas for role in program.roles}
    assert replicas == {"correction": 1, "softmax": 2, "mma": 1, "load": 1, "store": 1}
    assert program.program_of("softmax").loop[0].group_ref is GroupRef.REPLICA
    assert program.program_of("correction").loop[0].group_ref is GroupRef.EVERY


def test_a_number_names_one_group():
    loop = checked().program_of("mma").loop
    assert [(use.op.name, use.groups, use.offset) for use in loop] == [
        ("pv", (0,), -1), ("qk", (0,), 0), ("pv", (1,), -1), ("qk", (1,), 0),
    ]  # fmt: skip
    assert {use.group_ref for use in loop} == {GroupRef.ONE}


def test_an_offset_may_lead_or_lag_up_to_8_steps():
    assert checked(("[i-1]", "[i-8]")).program_of("mma").loop[0].offset == -8
    assert ids(("pv[0][i-1]", "pv[0][i-9]")) == ["bad-offset"]
    assert ids(("qk[0][i]", "qk[0][i+9]")) == ["bad-offset"]


def test_blocks_before_and_after_the_loop_are_told_apart():
    program = checked()
    load, correction = program.program_of("load"), program.program_of("correction")
    assert [use.op.name for use in load.before] == ["load_q"] and not load.after
    assert [use.op.name for use in correction.after] == ["finish"] and not correction.before


def test_a_role_without_a_loop_may_stand_before_it():
    moved = checked(
        ("  store      { store_out[g] }\n", ""),
        ("  load { load_q[g] }\n", "  load { load_q[g] }\n  store { store_out[g] }\n"),
    )
    assert [use.op.name for use in moved.program_of("store").uses()] == ["store_out"]


def test_peel_is_off_where_it_is_not_said():
    assert checked().program_of("softmax").peel
    assert not checked(("peel  ", "")).program_of("softmax").peel


def test_the_default_role_asks_for_no_registers():
    assert [role.registers for role in checked().roles] == [None, 184, 24, 24, 24]


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
def test_the_warps_that_a_role_may_have(warps):
    assert checked(("load       { warps 1", f"load       {{ warps {warps}")).roles[3].warps == warps


@pytest.mark.parametrize("warps", [0, 3, 32])
def test_the_warps_that_no_role_has(warps):
    assert ids(("load       { warps 1", f"load       {{ warps {warps}")) == ["bad-warps"]


@pytest.mark.parametrize("registers", [24, 256])
def test_the_registers_that_a_role_may_ask_for(registers):
    assert checked(("registers 184", f"registers {registers}")).roles[1].registers == registers


@pytest.mark.parametrize("registers", [0, 16, 25, 264])
def test_the_registers_that_no_role_gets(registers):
    assert ids(("registers 184", f"registers {registers}")) == ["bad-registers"]


# ---- shapes, types, memories -------------------------------------------------------------------


def test_shapes_follow_from_the_problem_and_the_tile():
    program = checked(("head_dim 128", "head_dim 64"))
    assert program.buffer("q").shape == (128, 64)
    assert program.buffer("s").shape == (128, 128)
    assert program.buffer("alpha").shape == (128,)


def test_bytes_and_columns_of_one_slot():
    program = checked()
    assert (program.buffer("q").bytes, program.buffer("kv").bytes) == (32_768, 32_768)
    columns = {name: program.buffer(name).columns for name in ("s", "p", "alpha", "acc")}
    assert columns == {"s": 128, "p": 64, "alpha": 1, "acc": 128}


def test_dtype_stands_for_the_type_of_the_problem():
    assert checked(("smem q[g]   : bf16", "smem q[g]   : dtype")).buffer("q").dtype is DType.BF16
    assert ids(("tmem acc[g]   : f32", "tmem acc[g]   : dtype")) == ["bad-type"]


@pytest.mark.parametrize("wrong", ["[d, m]", "[m]", "[m, d, n]", "[128, 128]", "[m, x]"])
def test_a_buffer_has_the_shape_of_its_value(wrong):
    assert ids(("smem q[g]   : bf16[m, d]", f"smem q[g]   : bf16{wrong}")) == ["bad-shape"]


def test_the_caret_of_a_shape_lies_under_the_one_wrong_dimension():
    assert places(("smem q[g]   : bf16[m, d]", "smem q[g]   : bf16[m, n]")) == ["n"]


@pytest.mark.parametrize(("old", "new"), [("smem q[g]", "reg q[g]"), ("tmem acc", "smem acc")])
def test_a_value_lives_where_its_ops_need_it(old, new):
    assert ids((old, new), (REGION, "")) == ["bad-memory"]


def test_alpha_may_live_in_registers_if_its_ops_share_a_role():
    moved = checked(
        ("tmem alpha", "reg alpha"),
        ("(p, alpha, ", "(p, "),
        ("softmax[g][i] }", "softmax[g][i]  rescale[g][i] }"),
        ("    correction { rescale[g][i] }\n", ""),
    )
    assert moved.buffer("alpha").storage is Storage.REG


@pytest.mark.parametrize("depth", [1, 16])
def test_the_depth_of_a_ring(depth):
    assert checked(("depth 3", f"depth {depth}")).buffer("kv").depth == depth


@pytest.mark.parametrize("depth", [0, 17])
def test_a_depth_that_no_ring_has(depth):
    assert ids(("depth 3", f"depth {depth}")) == ["bad-depth"]


@pytest.mark.parametrize("slices", [1, 2, 4, 8])
def test_the_slices_of_p(slices):
    assert checked(("slices 2", f"slices {slices}")).buffer("p").slices == slices


def test_a_slice_has_16_columns_at_least():
    narrow = ("n 128  ", "n 64  ")
    assert checked(narrow, ("slices 2", "slices 4")).buffer("p").slices == 4
    assert ids(narrow, ("slices 2", "slices 8")) == ["bad-slices"]
    assert ids(("slices 2", "slices 0")) == ["bad-slices"]


# ---- groups ------------------------------------------------------------------------------------

ONE_GROUP = (("m 128 x 2 as g", "m 128"), ("[g]", ""), (PIPELINE, "pv[i-1]  qk[i]"))


def test_one_group_needs_no_index():
    program = checked(*ONE_GROUP)
    assert program.tile.groups == 1 and program.tile.group_symbol is None
    assert not any(role.indexed for role in program.roles)


def test_the_symbol_of_the_groups_is_free():
    program = checked(("as g ", "as row_block "), ("[g]", "[row_block]"))
    assert program.tile.group_symbol == "row_block"


def test_a_strange_symbol_is_one_finding_wherever_it_stands():
    assert ids(("[g]", "[h]")) == ["unknown-index"]
    assert ids(("m 128 x 2 as g", "m 128")) == ["unknown-index"]


def test_three_groups_lack_the_ops_of_the_third():
    assert ids(("m 128 x 2", "m 128 x 3")) == ["missing-op", "missing-op"]


@pytest.mark.parametrize("groups", [0, 5])
def test_groups_that_no_tile_has(groups):
    assert ids(("m 128 x 2", f"m 128 x {groups}")) == ["bad-size"]


# ---- names that the kernel's text has already -------------------------------------------------


def bound_names():
    """Every name that a kernel's text binds, of its own or of a schedule's making."""
    tree = ast.parse(compiled("fwd").kernel.text)
    nodes = list(ast.walk(tree))
    names = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names |= {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
    names |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    return names | {alias.asname or alias.name for n in nodes for alias in getattr(n, "names", ())}


def refused(*edits):
    with pytest.raises(CompileError) as caught:
        compiled_text(edited("fwd", *edits))
    return {found.id for found in caught.value.diagnostics}


def test_a_kernel_cannot_be_called_like_anything_in_its_text():
    for name in sorted({*bound_names(), "for", "None", "float"} - {"jfa_fwd", "_", "g"}):
        assert refused(("kernel jfa_fwd", f"kernel {name}")) <= {"reserved-name", "syntax"}, name


def test_groups_cannot_be_called_like_anything_else_in_the_kernel():
    kernel = compiled("fwd").kernel.text.partition("def jfa_fwd(")[2].partition("SIGNATURE")[0]
    names = {name for name in bound_names() if re.search(rf"\b{name}\b", kernel)}
    for name in sorted({*names, "in", "range", "KV_DEPTH", "_"} - {"g"}):
        found = refused(("as g ", f"as {name} "), ("[g]", f"[{name}]"))
        assert found & {"reserved-name", "syntax", "unknown-word", "bad-number"}, (name, found)


@pytest.mark.parametrize(
    "edits",
    [
        (("smem kv ", "smem sequence "),),
        (("smem kv ", "smem Q "),),
    ],
)
def test_buffers_cannot_be_called_so_that_what_is_derived_clashes(edits):
    assert "reserved-name" in refused(*edits)


def test_peel_is_said_once():
    assert ids(("peel  softmax", "peel  peel  softmax")) == ["said-twice"]


# ---- one mistake, one finding ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "id"),
    [
        (("    m 128 x 2 as g  # two groups of 128 query rows\n", ""), "missing-size"),
        (("  algorithm attention.forward\n", ""), "missing-algorithm"),
        (("mma        { pv", "maths      { pv"), "unknown-role"),
        (("role softmax[g]", "role softmaks[g]"), "unknown-role"),
        (("rescale[g][i]", "reskale[g][i]"), "unknown-op"),
        (("softmax[g][i] }", "sofmax[g][i] }"), "unknown-op"),
        (("tmem s[g] ", "tmem ss[g] "), "unknown-value"),
        (("holds k, v", "holds k, w"), "unknown-value"),
        (("  tmem acc[g]   : f32[m, d]\n", ""), "missing-buffer"),
        (("  tmem alpha[g] : f32[m]\n", ""), "missing-buffer"),
        (("  store      { store_out[g] }\n", ""), "missing-op"),
        ((f"    load       {{ {LOADS} }}\n", "    load { load_k[i] }\n"), "missing-op"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0].split("\n")[0].strip(),
)
def test_a_mistake_hides_what_only_follows_from_it(edit, id):
    assert ids(edit) == [id]


# ---- regions and tiles -------------------------------------------------------------------------


def test_a_region_keeps_its_tree():
    (region,) = checked((REGION, "region r[g] { s over (p, alpha) }")).regions
    assert isinstance(region.tree, Over)
    assert isinstance(region.tree.parts[0], Leaf) and region.tree.parts[0].buffer == "s"


def test_apart_beside_each_other_in_a_region_is_no_contradiction():
    assert checked((REGION, f"{REGION}\n  apart {{ p, alpha }}")).apart


def test_apart_and_over_contradict_each_other():
    assert ids((REGION, f"{REGION}\n  apart {{ p, s }}")) == ["region-apart"]


@pytest.mark.parametrize(
    ("words", "order", "following", "asker"),
    [
        ("persistent  order given  next static deal zigzag", "given", "zigzag", None),
        ("persistent  next static deal round_robin", "given", "round_robin", None),
        (f"persistent  {NEXT}", "given", "clc", "load"),
        ("one_per_cta  order longest_first by kv_length", "longest_first", "one_per_cta", None),
    ],
)
def test_tile_sources(words, order, following, asker):
    tiles = checked((f"persistent  order longest_first by kv_length  {NEXT}", words)).tiles
    assert (tiles.order, tiles.next) == (TileOrder(order), NextTile(following))
    assert tiles.asker == asker


def test_zigzag_with_clc_is_refused_with_the_reason():
    with pytest.raises(CompileError) as caught:
        checked((NEXT, "next clc deal zigzag asked by load"))
    (found,) = caught.value.diagnostics
    assert "fixed lists" in found.message and found.label.span.text == "zigzag"


def test_every_shipped_word_of_the_forward_schedule_is_used():
    program = compiled("fwd").program
    assert program.name == "jfa_fwd" and program.loop_symbol == "i"
    assert program.target.name == "sm_100a" and program.problem.mask == "none"


# ---- instances ---------------------------------------------------------------------------------


def depths(count):
    """Return the depth of `k` in every kernel of the Hopper schedule."""
    ring = "smem k      : dtype[n, d]  depth "
    text = edited("hopper/fwd", (f"{ring}2", f"{ring}{count}"))
    source = SourceFile(path="a.sched", text=text)
    tree = parse(source)
    return {
        (program.problem.head_dim, program.problem.dtype.value): program.buffer("k").depth
        for program in (check(tree, source, instance) for instance in instances(tree))
    }


def test_the_first_case_that_holds_gives_the_number():
    assert depths("2 (4 if head_dim 64)") == {
        (128, "bf16"): 2, (128, "fp16"): 2, (64, "bf16"): 4, (64, "fp16"): 4,
    }  # fmt: skip
    assert depths("2 (4 if head_dim 64, 3 if dtype fp16)") == {
        (128, "bf16"): 2, (128, "fp16"): 3, (64, "bf16"): 4, (64, "fp16"): 4,
    }  # fmt: skip
