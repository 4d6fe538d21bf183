"""Generated kernels without a GPU: dispatch, what makes one compile anew, the walk, descriptors."""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from builders import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from jfagen.kernels import BACKWARDS, FORWARDS
from jfagen.paths import data_dir
from jfagen.runtime import kernels
from jfagen.runtime.kernels import Wanted, forward_schedule, load

GENERATED = sorted((ROOT / "generated").rglob("*.py"))
HOPPER = sorted((ROOT / "generated" / "hopper").rglob("*.py"))
SMS = (1, 7, 78, 100, 132, 148, 149)
#: Multiprocessors of the GPUs that people have; a text that knows one is wrong on all others.
KNOWN_SMS = {78, 84, 100, 108, 114, 132, 142, 144, 148, 152, 160, 188}
INSTANCES = [
    (jagged, head_dim, dtype)
    for jagged in (False, True)
    for head_dim in (64, 128)
    for dtype in (torch.bfloat16, torch.float16)
]


def short(path):
    return path.relative_to(ROOT / "generated").as_posix()


@cache
def parsed(path):
    return ast.parse(path.read_text())


def function(path, name):
    return next(n for n in parsed(path).body if getattr(n, "name", None) == name)


def assigned(path, name):
    for node in parsed(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{short(path)} has no {name}")


def host(path):
    """The function that people call: its name is the last word of the algorithm's."""
    return function(path, assigned(path, "ALGORITHM").split(".")[-1])


def test_every_hopper_kernel_is_reached_and_every_reachable_one_is_there():
    schedules = FORWARDS[9, 0], BACKWARDS[9, 0]
    names = {Wanted(schedule, *one).name for schedule in schedules for one in INSTANCES}
    assert names == {f"hopper/{path.stem}" for path in HOPPER}
    assert len(names) == len(schedules) * len(INSTANCES)
    for schedule, instance in product(schedules, INSTANCES):
        wanted = Wanted(schedule, *instance)
        module = load(wanted)
        jagged, head_dim, dtype = instance
        assert module.HEAD_DIM.value == head_dim and module.TARGET == "sm_90a"
        assert ("q_offsets" in module.SIGNATURE) == jagged
        short_type = {torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]
        written = "out" if schedule == FORWARDS[9, 0] else "dk"
        assert module.SIGNATURE[written] == f"*{short_type}"
        assert load(wanted) is module


def test_kernels_of_one_name_are_different_modules():
    """What was loaded first must not be taken for another."""
    pair = [load(Wanted(s, False, 128, torch.bfloat16)) for s in ("hopper/fwd", "fwd")]
    assert [m.TARGET for m in pair] == ["sm_90a", "sm_100a"]
    assert pair[0].__name__ != pair[1].__name__
    load.cache_clear()
    again = [load(Wanted(s, False, 128, torch.bfloat16)) for s in ("fwd", "hopper/fwd")]
    assert [m.TARGET for m in again] == ["sm_100a", "sm_90a"]


@pytest.mark.parametrize(
    ("instance", "said"),
    [
        ((False, 64, torch.bfloat16), "head_dim 64, dtype bf16, q broadcast"),
        ((True, 128, torch.bfloat16), "head_dim 128, dtype bf16, q jagged"),
        ((False, 128, torch.float16), "head_dim 128, dtype fp16, q broadcast"),
    ],
)
def test_a_missing_kernel_names_the_schedule_and_what_is_built(instance, said):
    with pytest.raises(ValueError) as caught:
        load(Wanted(FORWARDS[10, 0], *instance))
    message = str(caught.value)
    assert message.startswith(f"no kernel for {said}: `schedules/fwd.sched` would make it")
    assert message.endswith("built are fwd")
    assert (ROOT / "schedules" / "fwd.sched").is_file()


@pytest.mark.parametrize("missing", ["triton", "triton.language.extra.tlx"])
def test_a_broken_triton_is_named_with_the_command_that_helps(missing, monkeypatch):
    real = builtins.__import__

    def broken(name, *rest):
        if name == missing:
            raise ImportError(f"cannot import {name}")
        return real(name, *rest)

    load.cache_clear()
    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(ImportError) as caught:
        load(Wanted("hopper/fwd", False, 128, torch.bfloat16))
    assert f"`fwd.py` needs Triton with TLX (cannot import {missing})" in str(caught.value)
    assert "`jfagen doctor`" in str(caught.value)
    monkeypatch.setattr(builtins, "__import__", real)
    assert load(Wanted("hopper/fwd", False, 128, torch.bfloat16)).TARGET == "sm_90a"


@pytest.mark.parametrize(
    ("capability", "schedule"),
    [((9, 0), "hopper/fwd"), ((10, 0), "fwd"), ((8, 0), None), ((8, 9), None), ((12, 0), None)],
)
def test_devices_get_their_kernels_or_the_reference(capability, schedule, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    # One that is not there, and that no other test asks for: answers may be remembered.
    assert forward_schedule(torch.device("cuda", 10 * capability[0] + capability[1])) == schedule
    for other in ("cpu", "meta", "xpu", "mps"):
        assert forward_schedule(torch.device(other)) is None


def test_every_schedule_that_is_dispatched_to_is_shipped():
    for schedule in FORWARDS.values():
        assert (data_dir("schedules") / f"{schedule}.sched").is_file()
        assert (data_dir("generated") / f"{schedule}.py").is_file()
    assert set(kernels._TYPES) == {torch.bfloat16, torch.float16}


@pytest.mark.parametrize("path", GENERATED, ids=short)
def test_nothing_that_changes_from_batch_to_batch_compiles_a_kernel_anew(path):
    """Integers are compiled in when they are 1 or a multiple of 16, pointers when a multiple of 16.

    Of the pointers only the one to the number of tiles may lie off 16 bytes.
    """
    kernel = function(path, assigned(path, "KERNEL"))
    signature = assigned(path, "SIGNATURE")
    assert [argument.arg for argument in kernel.args.args] == list(signature)
    integers = [name for name, kind in signature.items() if re.fullmatch(r"[iu]\d+", kind)]
    (decorator,) = kernel.decorator_list
    said = {keyword.arg: ast.literal_eval(keyword.value) for keyword in decorator.keywords}
    assert sorted(said.pop("do_not_specialize")) == sorted(integers) and "heads" in integers
    odd = "block_starts[-1:]" in path.read_text()
    assert said == ({"do_not_specialize_on_alignment": ["tile_count"]} if odd else {})


@pytest.mark.parametrize("path", GENERATED, ids=short)
def test_no_count_of_multiprocessors_in_the_text(path):
    """The step between tiles comes from the grid that was launched."""
    tree = parsed(path)
    registers = {
        node.value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for node in call.keywords
        if node.arg == "registers"
    }
    budget = next(n for n in tree.body if ast.unparse(n).startswith("BUDGET"))
    spared = registers | set(ast.walk(budget))
    numbers = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) is int and node not in spared
    }
    assert not numbers & KNOWN_SMS


def descriptors(path):
    """Name of every descriptor of the host part, and the call that makes it."""
    made = {}
    for node in ast.walk(host(path)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func)
            if called in ("create_ragged_descriptor", "TensorDescriptor.from_tensor"):
                made[node.targets[0].id] = called
    return made


def coordinates(path):
    """Descriptor and coordinates of every load and store through one, as text."""
    for node in ast.walk(function(path, assigned(path, "KERNEL"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("tlx.async_descriptor"):
            if node.func.attr == "async_descriptor_load":
                yield ast.unparse(node.args[0]), ast.unparse(node.args[2])
            elif node.func.attr == "async_descriptor_store":
                yield ast.unparse(node.args[0]), ast.unparse(node.args[2])


@pytest.mark.parametrize("path", GENERATED, ids=short)
def test_packed_tensors_are_read_and_written_through_descriptors_that_clip(path):
    """The last tile of a sequence must not reach into the next one."""
    signature = assigned(path, "SIGNATURE")
    made = descriptors(path)
    assert set(made) == {name for name, kind in signature.items() if "tensordesc" in kind}
    packed = dict.fromkeys({"k_desc", "v_desc", "dk_desc", "dv_desc"} & set(made), "key")
    if "q_offsets" in signature or "q_bounds" in signature:
        queries = {"q_desc", "out_desc", "do_desc", "dq_desc"} & set(made)
        # On Hopper dq is summed in blocks of rows of a scratch in which every sequence has its own.
        queries -= {"dq_desc"} if "sm_90a" in path.read_text() else set()
        packed |= dict.fromkeys(queries, "query")
    assert {"q_desc", "k_desc", "v_desc"} <= set(made)
    for name, called in made.items():
        assert (called == "create_ragged_descriptor") == (name in packed), name
    used = list(coordinates(path))
    assert {name for name, _ in used} == set(made)
    for name, where in used:
        # A piece of a row of the gradient of Q starts at a column of its head.
        rows = "ragged_columns" if name == "dq_desc" else "ragged(_head)?_rows"
        clips = rf"{rows}\({packed.get(name)}_start, {packed.get(name)}_count,"
        assert re.match(clips if name in packed else r"\[", where), (name, where)


@pytest.mark.parametrize("path", GENERATED, ids=short)
def test_the_coordinates_of_a_clipping_descriptor_stay_inside_of_a_sequence(path):
    """Rows past the end of a sequence lie outside of the descriptor; those inside are its own."""
    names = {"ragged_rows", "ragged_head_rows"} & set(re.findall(r"def (\w+)", path.read_text()))
    assert "ragged_rows" in names
    space = {"HEAD_DIM": 128, "RAGGED_ROWS": 2**30}
    for name in names:
        rows = function(path, name)
        rows.decorator_list = []
        exec(compile(ast.Module([rows], []), str(path), "exec"), space)
    for start, count, row in ((0, 5, 0), (7, 1, 0), (100, 300, 256), (2**29, 1000, 872), (3, 0, 0)):
        for name in names:
            first, second, *third, column = space[name](start, count, row, 2)
            if name == "ragged_head_rows":
                head, third = third
                assert (head, column) == (2, 0)
            else:
                (third,) = third
                assert column == 2 * 128
            # `create_ragged_descriptor`: strides of the dimensions; addresses wrap around.
            assert -first + second + third == start + row
            assert third + (count - row) == 2**30, "the descriptor ends where the sequence does"


def walks(path):
    """The walk of every role as a function of program, grid, tiles and what is handed out."""
    kernel = function(path, assigned(path, "KERNEL"))
    roles = [
        node
        for node in ast.walk(kernel)
        if isinstance(node, ast.With)
        and ast.unparse(node.items[0].context_expr).startswith("tlx.async_task(")
    ]
    assert len(roles) == len(assigned(path, "BUDGET")["registers"])
    return [role_walk(path, role) for role in roles]


def walk_of(loop, body):
    """The loop over tiles with another body; a bounded one counts from the program by the grid."""
    if isinstance(loop, ast.While):
        return ast.While(loop.test, body, [])
    assert ast.unparse(loop.target) == "tile"
    return ast.For(loop.target, loop.iter, body, [])


def role_walk(path, role):
    names = {"tile", "stride", "clc_phase"}

    def moves(statements):
        """Statements that assign to the names of the walk, nothing else."""
        return [
            node
            for node in statements
            if isinstance(node, ast.Assign | ast.AugAssign)
            and {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & names
            and ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            in names
        ]

    visit = ast.parse("visit(tile)").body
    before = moves(role.body)
    loops = [node for node in role.body if isinstance(node, ast.While | ast.For)]
    inner = [walk_of(node, [*visit, *moves(node.body)]) for node in loops]
    assert len(loops) <= 1 and (before or loops)
    module = ast.Module([*before, *(inner or visit)], [])
    known = {n.id for n in ast.walk(module) if isinstance(n, ast.Name)}
    assert known <= names | {"tl", "tlx", "tiles", "visit", "next_tile", "range"}
    return compile(ast.fix_missing_locations(module), str(path), "exec")


def visited(walk, program, grid, tiles, handed=()):
    """Tiles that one role of one CTA visits; `handed` are those that the hardware gives it."""
    mine = []
    rest = iter(handed)
    language = SimpleNamespace(program_id=lambda axis: program, num_programs=lambda axis: grid)
    extensions = SimpleNamespace(clc_consumer=lambda *_, **__: next(rest, -1))
    extensions.clc_producer = lambda *_, **__: None
    space = {"tl": language, "tlx": extensions, "tiles": tiles, "next_tile": None}
    exec(walk, {**space, "visit": mine.append})
    return mine


@pytest.mark.parametrize("path", GENERATED, ids=short)
@pytest.mark.parametrize("sms", SMS)
@given(tiles=st.integers(1, 3000), seed=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=15)
def test_every_tile_is_dealt_exactly_once(path, sms, tiles, seed):
    """For any number of multiprocessors and of tiles, by all roles alike."""
    text = path.read_text()
    persistent, asks = "num_programs" in text, "clc_consumer" in text
    roles = walks_of(path)
    # With packed queries the tiles are counted on the device, and CTAs may find nothing to do.
    bounded = min(sms, tiles) if "(min(sms, count),)" in text else sms
    grid = bounded if persistent else tiles
    running = min(sms, grid)
    rest = list(range(running, tiles))
    seed.shuffle(rest)
    dealt = []
    for program in range(running if asks else grid):
        handed = rest[program::running] if asks else ()
        found = [visited(walk, program, grid, tiles, handed) for walk in roles]
        assert all(one == found[0] for one in found)
        dealt += found[0]
    assert sorted(dealt) == list(range(tiles))


walks_of = cache(walks)


@pytest.mark.parametrize("path", GENERATED, ids=short)
def test_the_grid_follows_from_the_device_and_the_batch(path):
    launch = next(
        ast.unparse(node.func.slice)
        for node in ast.walk(host(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Subscript)
        and ast.unparse(node.func.value) == assigned(path, "KERNEL")
    )
    source = ast.unparse(host(path))
    legal = (
        "grid = (count,)",
        "grid = (min(sms, count),)",
        "grid = (tile_sequences.numel() * heads,)",
        "grid = (sms or torch.cuda.get_device_properties(q.device).multi_processor_count,)",
    )
    assert launch == "(sms,)" or (launch == "grid" and any(grid in source for grid in legal))


@pytest.mark.parametrize("path", GENERATED, ids=short)
def test_nothing_is_read_for_a_tile_before_it_is_known_to_exist(path):
    """Tiles past the last one read offsets that are not there."""
    kernel = function(path, assigned(path, "KERNEL"))
    loops = [node for node in ast.walk(kernel) if isinstance(node, ast.While)]
    assert {ast.unparse(loop.test) for loop in loops} <= {"tile < tiles", "tile != -1"}
    inside = {inner for loop in loops for inner in ast.walk(loop)}
    calls = [node for node in ast.walk(kernel) if isinstance(node, ast.Call)]
    finds = [call for call in calls if ast.unparse(call.func) == "find_tile"]
    assert finds and all((call in inside) == bool(loops) for call in finds)
    loads = [ast.unparse(call) for call in calls if ast.unparse(call.func) == "tl.load"]
    assert loads in ([], ["tl.load(tile_count)"])
