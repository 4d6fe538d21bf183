"""Launches that go around Triton's binder: what a compiled kernel may be launched with."""

from __future__ import annotations

import ast
import inspect
from itertools import combinations_with_replacement
from types import SimpleNamespace

import pytest
import torch
from host_bench import host_of, recorded
from triton._C.libtriton import native_specialize_impl
from triton.backends.compiler import BaseBackend
from triton.tools.ragged_tma import create_ragged_descriptor
from triton.tools.tensor_descriptor import TensorDescriptor

from jfagen.runtime import launch
from jfagen.runtime.kernels import BACKWARDS, FORWARDS, Wanted, current, load

BASE = torch.zeros(64, 128, dtype=torch.bfloat16)
INTEGERS = (-(2**31) - 1, -(2**31), -16, -1, 0, 1, 2, 16, 17, 2**31 - 1, 2**31, 2**31 + 1, 2**40)
TENSORS = (torch.zeros(8), torch.zeros(8)[1:], torch.zeros(8)[4:], torch.zeros(8).int(), BASE)
DESCRIPTORS = (
    TensorDescriptor.from_tensor(BASE, [64, 64]),
    TensorDescriptor.from_tensor(BASE, [64, 128]),
    TensorDescriptor.from_tensor(BASE.half(), [64, 64]),
    create_ragged_descriptor(BASE, [64, 64]),
)
ARGUMENTS = (*INTEGERS, True, False, 0.5, 2.0, *TENSORS, *DESCRIPTORS)


@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_what_one_kernel_is_launched_with_triton_takes_for_the_same(plain, loose):
    """Arguments of one kind share a compiled kernel, so Triton must make no difference."""
    shared = 0
    for one, other in combinations_with_replacement(ARGUMENTS, 2):
        kinds = [launch._kind(x, False, plain, loose) for x in (one, other)]
        if kinds[0] == kinds[1]:
            made = [
                native_specialize_impl(BaseBackend, x, False, not plain, not loose)
                for x in (one, other)
            ]
            assert made[0] == made[1], (one, other)
            shared += one is not other
    assert shared, "nothing was shared"


def test_constants_are_of_one_kind_only_if_they_are_equal():
    assert launch._kind(64, True, False, False) != launch._kind(128, True, False, False)
    assert launch._kind(64, True, False, False) == launch._kind(64, True, False, False)


@pytest.mark.parametrize("columns", [slice(None), slice(0, 64)])
@pytest.mark.parametrize("rows", [1, 3, 64])
def test_descriptors_are_those_of_triton(rows, columns):
    tensor = BASE[:rows, columns]
    heads, box = tensor.view(rows, 2, -1).transpose(0, 1), [1, 64, 32]
    pairs = (
        (
            launch._ragged_descriptor(heads, box, ragged_dim=1),
            create_ragged_descriptor(heads, box, ragged_dim=1),
        ),
        (launch._ragged_descriptor(tensor, [64, 64]), create_ragged_descriptor(tensor, [64, 64])),
        (launch._from_tensor(tensor, [64, 64]), TensorDescriptor.from_tensor(tensor, [64, 64])),
    )
    for ours, theirs in pairs:
        assert ours.base is theirs.base and type(ours) is type(theirs)
        for field in ("shape", "strides", "block_shape", "padding", "round_f32_to_tf32"):
            mine, right = getattr(ours, field), getattr(theirs, field)
            assert mine == right if isinstance(right, str | bool) else list(mine) == list(right)


class Kernel:
    """Stands for a `@triton.jit` kernel of a pointer, an integer and a constant."""

    def __init__(self, loose=False):
        self.bound, self.launched = [], []
        said = (("rows", False), ("count", False), ("BLOCK", True))
        freedom = {"do_not_specialize": False, "do_not_specialize_on_alignment": loose}
        self.params = [SimpleNamespace(name=n, is_constexpr=c, **freedom) for n, c in said]

    def __getitem__(self, grid):
        def bind(*args, **options):
            self.bound.append((grid, args, options))
            return self._Compiled(self.launched)

        return bind

    class _Compiled:
        def __init__(self, launched):
            self.launched = launched

        def __getitem__(self, grid):
            x, y, z = grid
            return lambda *args: self.launched.append(((x, y, z), args))


@pytest.fixture
def device(monkeypatch):
    here = SimpleNamespace(index=0)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: here.index)
    return here


def test_a_kind_of_arguments_is_bound_once(device):
    kernel, rows = Kernel(), TENSORS[0]
    launches = launch.Launcher(kernel)
    launches[7,](rows, 32, 128, num_warps=4)
    launches[9, 2](rows, 64, 128, num_warps=4)
    assert len(kernel.bound) == 1 and kernel.launched == [((9, 2, 1), (rows, 64, 128))]
    others = (
        ((rows, 33, 128), 4),
        ((TENSORS[1], 32, 128), 4),
        ((rows, 32, 64), 4),
        ((rows, 32, 128), 8),
    )
    for made, (args, warps) in enumerate(others, start=2):
        launches[7,](*args, num_warps=warps)
        assert len(kernel.bound) == made and len(kernel.launched) == 1
    device.index = 1
    launches[7,](rows, 32, 128, num_warps=4)
    assert len(kernel.bound) == 6, "another device has kernels of its own"


def test_where_alignment_does_not_matter_only_1_is_a_kind_of_its_own(device):
    """Triton still compiles an integer in that is 1."""
    kernel, rows = Kernel(loose=True), torch.zeros(9)
    launches = launch.Launcher(kernel)
    for made, count, x in ((1, 32, rows), (1, 33, rows[1:]), (2, 1, rows), (2, 64, rows)):
        launches[7,](x, count, 128)
        assert len(kernel.bound) == made


def test_constants_are_given_by_position(device):
    with pytest.raises(AssertionError, match="every argument by position"):
        launch.Launcher(Kernel())[1,](TENSORS[0], 32, BLOCK=128)


REACHED = [
    *(
        Wanted(schedule, jagged, head_dim, dtype)
        for schedule in (FORWARDS[9, 0], BACKWARDS[9, 0], BACKWARDS[10, 0])
        for jagged in (False, True)
        for head_dim in (64, 128)
        for dtype in (torch.bfloat16, torch.float16)
    ),
    Wanted(FORWARDS[10, 0], False, 128, torch.bfloat16),
]


@pytest.mark.parametrize("wanted", REACHED, ids=lambda wanted: wanted.name)
def test_every_kernel_takes_what_the_operator_gives(wanted):
    module = load(wanted)
    offsets = (None, None) if wanted.jagged else (None,)
    if backward := wanted.schedule in BACKWARDS.values():
        given = inspect.signature(module.backward)
        given.bind(*[None] * 6, *offsets, scale=1.0, dlse=None)
    else:
        inspect.signature(module.forward).bind(None, None, None, *offsets, scale=1.0, tiles=())
    launched = [x for x in vars(module).values() if isinstance(x, launch.Launcher)]
    assert len(launched) == (3 if backward else 1), "before, itself and after"
    assert module.create_ragged_descriptor is launch._ragged_descriptor


@pytest.mark.parametrize("wanted", REACHED, ids=lambda wanted: wanted.name)
def test_every_host_part_gives_all_arguments_by_position(wanted):
    module = load(wanted)
    calls = [
        (node.func.value.id, node.args)
        for node in ast.walk(ast.parse(inspect.getsource(host_of(module))))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(module.KERNEL)
    ]
    launched = {n: x for n, x in vars(module).items() if isinstance(x, launch.Launcher)}
    for name, args in calls:
        assert len(args) == len(launched[name]._constant)
        assert not any(isinstance(argument, ast.Starred) for argument in args)
    assert sorted(name for name, _ in calls) == sorted(launched)


@pytest.mark.parametrize("wanted", REACHED, ids=lambda wanted: wanted.name)
def test_every_host_part_gives_its_kernels_what_it_gives_them_through_triton(wanted):
    module = load.__wrapped__(wanted)
    launches, ours = recorded(module, wanted)
    vars(module).update(
        create_ragged_descriptor=create_ragged_descriptor, TensorDescriptor=TensorDescriptor
    )
    again, theirs = recorded(module, wanted)
    assert [len(args) for args in launches] == [len(args) for args in again]
    assert len(ours) == len(theirs) > 3
    for mine, right in zip(ours, theirs, strict=True):
        fields = [
            (list(x.shape), list(x.strides), list(x.block_shape), x.base.dtype, x.padding)
            for x in (mine, right)
        ]
        assert fields[0] == fields[1]


def test_all_kernels_of_a_schedule_take_the_same_tile_list():
    """A plan is made without the head dimension and the type of what it will be used for."""
    for schedule in FORWARDS.values():
        for jagged in (False, True):
            made = [load(w) for w in REACHED if (w.schedule, w.jagged) == (schedule, jagged)]
            assert len({(module.ORDER, module.TILE_ROWS) for module in made}) <= 1


def test_what_triton_interprets_is_launched_by_triton():
    interpreted = object()
    assert launch.launcher(interpreted) is interpreted


def test_only_another_device_is_made_the_current_one(device, monkeypatch):
    entered = []
    monkeypatch.setattr(torch.cuda, "device", lambda there: entered.append(there))
    current(torch.device("cpu"))
    current(torch.device("cuda", 0))
    assert entered == []
    current(torch.device("cuda", 1))
    assert entered == [torch.device("cuda", 1)]
