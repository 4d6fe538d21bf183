"""Text -> surface nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jfagen.diagnostics import SourceFile
from jfagen.syntax import ast, parse, tables
from jfagen.syntax.grammar import WordLexer

FORWARD = Path(__file__).parents[1] / "schedules" / "fwd.sched"


def source(text: str) -> SourceFile:
    return SourceFile(path="a.sched", text=text)


def schedule(body: str) -> ast.Schedule:
    return parse(source(f"kernel x {{ {body} }}"))


def words(names) -> list[str]:
    return [str(name) for name in names]


def op_text(op: ast.Op) -> str:
    """Return an op as the tests write it."""
    indices = []
    for index in op.indices:
        sign = f"{index.offset:+d}" if index.offset else ""
        indices.append(f"[{index.symbol}{sign}]" if index.symbol else f"[{index.offset}]")
    return f"{op.name}{''.join(indices)}"


def test_the_forward_schedule():
    tree = parse(SourceFile.from_path(FORWARD))
    head = [tree.name, tree.algorithm, tree.target]
    assert words(head) == ["jfa_fwd", "attention.forward", "sm_100a"]
    assert words(role.name for role in tree.roles) == "correction softmax mma load store".split()
    assert [len(buffer.names) for buffer in tree.buffers] == [1, 1, 1, 1, 1, 1, 2, 1]
    kinds = [type(part).__name__ for part in tree.program]
    assert kinds == ["Block", "Loop", "Block", "Block", "Block"]


def test_problem():
    problem = schedule(
        "problem { head_dim in {64, 128} dtype in {bf16, fp16} q dense kv jagged mask window 512 }"
    ).problem
    assert [number.value for number in problem.head_dim.values] == [64, 128]
    assert words(problem.dtype.values) == ["bf16", "fp16"]
    assert words([problem.q, problem.kv, problem.mask.kind]) == ["dense", "jagged", "window"]
    assert problem.mask.size.value == 512


def test_what_is_not_said_is_none():
    tree = schedule("problem { mask causal } tiles { }  role a { }")
    assert (tree.problem.head_dim, tree.problem.q, tree.target, tree.pair) == (None,) * 4
    assert (tree.tiles.order, tree.tiles.next, tree.roles[0].default) == (None,) * 3
    assert (tree.roles, schedule("").roles) == (tree.roles, ())


def test_tile_groups():
    tile = schedule("tile { m 128 x 2 as g  n 64 }").tile
    first, second = tile.sizes
    assert (str(first.symbol), first.size.value, first.groups.count.value) == ("m", 128, 2)
    assert str(first.groups.symbol) == "g"
    assert (str(second.symbol), second.size.value, second.groups) == ("n", 64, None)


def test_role():
    tree = schedule("role softmax[g] { warps 4 registers 184 } role rest { default warps 8 }")
    softmax, rest = tree.roles
    assert (str(softmax.group), softmax.default) == ("g", None)
    assert (softmax.warps.value, softmax.registers.value) == (4, 184)
    assert (rest.group, rest.registers, str(rest.default)) == (None, None, "default")


def test_buffer():
    tree = schedule("smem a, b[g] : bf16[n, 32]  depth 3  holds k, v  slices 2  lives qk[i] -> pv")
    (buffer,) = tree.buffers
    assert words([buffer.memory, buffer.element]) == ["smem", "bf16"]
    assert (buffer.depth.value, buffer.slices.value) == (3, 2)
    assert [str(name.name) for name in buffer.names] == ["a", "b"]
    assert [name.group and str(name.group) for name in buffer.names] == [None, "g"]
    assert (str(buffer.dims[0]), buffer.dims[1].value) == ("n", 32)
    assert words(buffer.holds) == ["k", "v"]
    assert (op_text(buffer.lives.first), op_text(buffer.lives.last)) == ("qk[i]", "pv")


@pytest.mark.parametrize(
    ("count", "kind"),
    [
        ("3", ast.Number),
        ("3 (6 if head_dim 64, 2 if dtype fp16)", ast.Cases),
        ("tune 2..4 default 3", ast.TuneRange),
        ("tune {1, 2, 4} default 2", ast.TuneSet),
    ],
)
def test_counts(count, kind):
    tree = schedule(
        f"tile {{ m {count} }} role a {{ warps {count} registers {count} }}"
        f" smem s : f32[m] depth {count} slices {count}"
        f" a {{ r in slices of {count} through s hold {count} }}"
    )
    (staged,) = tree.program[0].steps
    (role,), (buffer,) = tree.roles, tree.buffers
    found = [tree.tile.sizes[0].size, role.warps, role.registers]
    found += [buffer.depth, buffer.slices, staged.width, staged.hold]
    assert [type(one) for one in found] == [kind] * 7


def test_cases_and_tuning_keep_their_parts():
    tree = schedule(
        "role a { warps 3 (6 if head_dim 64) registers tune 96..136 default 128 }"
        "role b { warps tune {1, 2} default 2 }"
    )
    cases, span, several = tree.roles[0].warps, tree.roles[0].registers, tree.roles[1].warps
    assert (cases.default.value, cases.cases[0].number.value) == (3, 6)
    assert (str(cases.cases[0].field), cases.cases[0].value.value) == ("head_dim", 64)
    assert (span.first.value, span.last.value, span.default.value) == (96, 136, 128)
    assert ([v.value for v in several.values], several.default.value) == ([1, 2], 2)


def test_region_nests():
    tree = schedule("region r[g] { (a over b, c[0]) over (x, y) } apart { a, b[g] } together { c }")
    (region,) = tree.regions
    top = region.tree
    assert str(region.group) == "g"
    left, right = top.layers
    assert [type(part) for part in (top, left, right)] == [ast.Over, ast.Beside, ast.Beside]
    inner, indexed = left.parts
    assert isinstance(inner, ast.Over) and len(inner.layers) == 2
    assert (str(indexed.name), indexed.index.symbol, indexed.index.offset) == ("c", None, 0)
    assert words(ref.name for ref in tree.apart[0].buffers) == ["a", "b"]
    assert len(tree.together[0].buffers) == 1


def test_loop_and_steps():
    tree = schedule(
        "loop j over q { consumer[g] { qk[j+1] turn { softmax[0][j-2] } peel pv } consumer[1] { } }"
    )
    (loop,) = tree.program
    assert words([loop.symbol, loop.over]) == ["j", "q"]
    first, second = loop.blocks
    assert str(first.replica.symbol) == "g"
    assert (second.replica.symbol, second.replica.offset, second.steps) == (None, 1, ())
    issue, turn, peel, last = first.steps
    assert (type(turn), type(peel), str(turn.word)) == (ast.Turn, ast.Peel, "turn")
    assert [op_text(op) for op in (issue, last)] == ["qk[j+1]", "pv"]
    assert op_text(turn.steps[0]) == "softmax[0][j-2]"


def test_staged():
    tree = schedule("reduce { reduce_dq[j] in slices of 32 through stage  hold 2  store }")
    staged, last = tree.program[0].steps
    assert (op_text(staged.op), str(staged.through)) == ("reduce_dq[j]", "stage")
    assert (staged.width.value, staged.hold.value, op_text(last)) == (32, 2, "store")


def test_pair():
    pair = schedule(
        "pair { leader 0  st, dpt split m  dv, dk split d loads q_d, do_d"
        " dq split d exchange ds by m through outbox relay pass_ds }"
    ).pair
    assert (str(pair.word), pair.leader.value) == ("pair", 0)
    assert [words(split.ops) for split in pair.splits] == [["st", "dpt"], ["dv", "dk"], ["dq"]]
    assert words(split.dimension for split in pair.splits) == ["m", "d", "d"]
    assert words(pair.splits[1].loads) == ["q_d", "do_d"]
    exchange = pair.splits[2].exchange
    assert pair.splits[0].exchange is None
    assert words([exchange.value, exchange.dimension]) == ["ds", "m"]
    assert words([exchange.buffer, exchange.relay]) == ["outbox", "pass_ds"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("order given", ("given", None, None)),
        ("order longest_first by kv_length", ("longest_first", "kv_length", None)),
        ("order valid with block innermost", ("valid", None, "block")),
    ],
)
def test_tile_order(text, expected):
    tiles = schedule(f"tiles {{ persistent {text} }}").tiles
    assert str(tiles.residency) == "persistent"
    order = tiles.order
    assert tuple(n and str(n) for n in (order.kind, order.by, order.innermost)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("static deal zigzag", ("static", "zigzag", None)),
        ("static deal round_robin", ("static", "round_robin", None)),
        ("clc asked by load", ("clc", None, "load")),
        ("clc deal zigzag asked by load", ("clc", "zigzag", "load")),
    ],
)
def test_next_tile(text, expected):
    tiles = schedule(f"tiles {{ one_per_cta next {text} }}").tiles
    assert str(tiles.residency) == "one_per_cta"
    step = tiles.next
    assert tuple(n and str(n) for n in (step.source, step.deal, step.asked_by)) == expected


def test_words_of_the_language_may_be_names_elsewhere():
    tree = schedule("role by { warps 1 } smem depth : f32[x] by { holds[in] slices }")
    (block,) = tree.program
    assert words([tree.roles[0].name, tree.buffers[0].names[0].name]) == ["by", "depth"]
    assert [op_text(op) for op in block.steps] == ["holds[in]", "slices"]


def test_after_an_op_of_a_block_no_item_is_expected():
    """`lives` ends with an op too, and what may follow it there is not what follows here."""
    tree = schedule("smem a : f32[m] lives x[i] -> y[i] load { x[i] depth[i] y[i] } store { y }")
    load, store = tree.program
    assert [op_text(op) for op in load.steps] == ["x[i]", "depth[i]", "y[i]"]
    assert str(store.role) == "store"


def test_line_ends_and_comments_do_not_matter():
    code = re.sub(r"#.*", "", FORWARD.read_text())
    spread = re.sub(r" (?=[a-z{}\[])", " # note }\r\n\t", code)
    assert spread.count("\n") > 200
    assert parse(source(spread)) == parse(SourceFile.from_path(FORWARD))


def test_spans_are_narrow():
    tree = parse(SourceFile.from_path(FORWARD))
    op = tree.program[1].blocks[1].steps[0]
    nodes = [tree.buffers[1].depth, tree.tiles.next.asked_by, op.indices[1], op, op.name]
    assert [node.span.text for node in nodes] == ["3", "load", "[i-1]", "pv[0][i-1]", "pv"]
    assert tree.span.text.startswith("kernel jfa_fwd {") and tree.span.text.endswith("}")


def test_spans_do_not_take_part_in_comparison():
    assert schedule("role a { warps 4 }") == schedule("  role a {\n warps   4 } # four\n")
    assert schedule("role a { warps 4 }") != schedule("role a { warps 8 }")


def test_deep_nesting_is_no_problem():
    depth = 2000
    tree = schedule(f"region r {{ {'(' * depth}a{')' * depth} }}").regions[0].tree
    for _ in range(depth):
        (tree,) = tree.parts
    assert isinstance(tree, ast.BufferRef)


# ---- Tables --------------------------------------------------------------------------------------

SMALL = 'start: "a" start?'


@pytest.fixture
def writes(monkeypatch):
    """Let tables be kept, whatever the environment says."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)


def test_tables_are_built_once(tmp_path, monkeypatch, writes):
    tables.parser_of(SMALL, WordLexer, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["schedule.lalr"]
    monkeypatch.setattr(tables, "Lark", type("Loaded", (), {"load": tables.Lark.load}))
    assert tables.parser_of(SMALL, WordLexer, tmp_path).parse("a a").data == "start"


def test_tables_of_another_grammar_are_replaced(tmp_path, writes):
    tables.parser_of(SMALL, WordLexer, tmp_path)
    before = (tmp_path / "schedule.lalr").read_bytes()
    assert tables.parser_of('start: "b"', WordLexer, tmp_path).parse("b").data == "start"
    assert (tmp_path / "schedule.lalr").read_bytes() != before


def test_damaged_tables_are_built_again(tmp_path, writes):
    tables.parser_of(SMALL, WordLexer, tmp_path)
    file = tmp_path / "schedule.lalr"
    file.write_bytes(file.read_bytes()[:-100])
    assert tables.parser_of(SMALL, WordLexer, tmp_path).parse("a").data == "start"
    assert tables._loaded(file, file.read_bytes().split(b"\n")[0]) is not None


def test_without_a_folder_to_write_the_parser_is_built(tmp_path, writes):
    missing = tmp_path / "missing"
    assert tables.parser_of(SMALL, WordLexer, missing).parse("a").data == "start"
    assert not missing.exists()
