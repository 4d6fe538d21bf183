"""The runtime's imports, plans, and what it hands to a kernel, on a CPU."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch
from builders import ROOT

import jfagen
from jfagen.runtime import operator
from jfagen.runtime.operator import TMA_ALIGNMENT

#: A finder that refuses what the compiler half must do without.
BLOCKED = """
import sys
class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "triton"):
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Refuses())
"""


def child(program):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_compiler_half_needs_neither_torch_nor_triton():
    """Blocked, not only unused: a schedule is compiled and proved."""
    program = BLOCKED + (
        "import jfagen, importlib, pkgutil\n"
        "for package in ('algorithm', 'syntax', 'graph', 'semantics', 'planning', 'passes',\n"
        "                'proof', 'emit', 'readback', 'explain', 'diagnostics'):\n"
        "    top = importlib.import_module(f'jfagen.{package}')\n"
        "    for found in pkgutil.walk_packages(top.__path__, top.__name__ + '.'):\n"
        "        importlib.import_module(found.name)\n"
        "import jfagen.cli, jfagen.driver\n"
        "from jfagen.diagnostics import SourceFile\n"
        "from pathlib import Path\n"
        "path = 'schedules/hopper/fwd.sched'\n"
        "one = jfagen.driver.compile_source(SourceFile(path=path, text=Path(path).read_text()))\n"
        "print(one.kernel.text == Path('generated/hopper/fwd.py').read_text())\n"
        "try:\n"
        "    jfagen.attention\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    assert child(program).splitlines() == ["True", "blocked: torch"]


def test_the_functions_are_imported_when_they_are_asked_for():
    program = (
        "import sys, jfagen, jfagen.driver\n"
        "print('torch' in sys.modules, 'jfagen.runtime' in sys.modules)\n"
        "one, other = jfagen.plan, jfagen.attention\n"
        "print('torch' in sys.modules, 'triton' in sys.modules)\n"
        "import jfagen.driver, jfagen.planning, jfagen.runtime.plan, jfagen.runtime.attention\n"
        "print(callable(jfagen.plan), jfagen.plan is one, jfagen.attention is other)\n"
    )
    assert child(program).splitlines() == ["False False", "True False", "True True True"]


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module `jfagen` has no attribute `atention`"):
        jfagen.atention  # noqa: B018
    assert set(jfagen.__all__) == {"Plan", "__version__", "attention", "plan"}
    assert all(getattr(jfagen, name) for name in jfagen.__all__)


def test_a_spawned_process_computes_the_same():
    """A worker that starts from nothing."""
    program = (
        "import torch, jfagen\n"
        "x = torch.arange(48.).view(6, 2, 4) / 48\n"
        "print(jfagen.attention(x, x, x, torch.tensor([0, 2, 6])).sum().item())\n"
    )
    x = torch.arange(48.0).view(6, 2, 4) / 48
    mine = jfagen.attention(x, x, x, torch.tensor([0, 2, 6])).sum().item()
    assert math.isclose(float(child(program)), mine, rel_tol=1e-6)


def offsets(*values):
    return torch.tensor(values, dtype=torch.int32)


def packed(rows=10, dtype=torch.float32, head_dim=8):
    generator = torch.Generator().manual_seed(rows)
    make = [torch.randn(rows, 2, head_dim, generator=generator) for _ in range(3)]
    return [x.to(dtype) for x in make]


KV, QO = offsets(0, 4, 10), offsets(0, 5, 10)


def test_a_plan_serves_many_layers():
    broadcast = jfagen.plan(KV)
    jagged = jfagen.plan(KV, QO, total_queries=10, total_keys=10)
    for rows in (10, 10, 10):
        q, k, v = (x + rows for x in packed(rows))
        assert torch.equal(
            jfagen.attention(q[:3], k, v, KV, plan=broadcast), jfagen.attention(q[:3], k, v, KV)
        )
        assert torch.equal(
            jfagen.attention(q, k, v, KV, QO, plan=jagged), jfagen.attention(q, k, v, KV, QO)
        )


def test_what_a_plan_is_where_only_the_reference_runs():
    assert jfagen.plan(KV) == jfagen.Plan(2, None, None, ())
    assert jfagen.plan(KV, total_queries=10, total_keys=12) == jfagen.Plan(2, None, 12, ())
    assert jfagen.plan(KV, QO, total_queries=11) == jfagen.Plan(2, 11, None, ())
    assert jfagen.plan(offsets(0)) == jfagen.Plan(0, None, None, ())
    assert jfagen.plan(KV, total_keys=10, check=False).total_keys is None
    with pytest.raises(AttributeError):
        jfagen.plan(KV).sequences = 3


@pytest.mark.parametrize(
    ("made", "given", "said"),
    [
        ({}, {"kv_offsets": offsets(0, 10)}, "the plan is for 2 sequences, kv_offsets for 1"),
        (
            {},
            {"q_offsets": QO},
            "the plan is for shared rows of q, this q has 10 packed rows",
        ),
        (
            {"q_offsets": QO, "total_queries": 10},
            {},
            "the plan is for 10 packed rows of q, this q has shared rows",
        ),
        (
            {"q_offsets": QO, "total_queries": 12},
            {"q_offsets": QO},
            "the plan is for 12 packed rows of q, this q has 10 packed rows",
        ),
        ({"total_keys": 12}, {}, "the plan is for 12 rows of k, k has 10"),
    ],
)
def test_a_plan_of_another_batch_is_refused(made, given, said, monkeypatch):
    monkeypatch.setattr(operator, "reference", lambda *given: pytest.fail("it was computed"))
    plan = jfagen.plan(KV, **made)
    q, k, v = packed()
    with pytest.raises(ValueError, match=said):
        jfagen.attention(q, k, v, **{"kv_offsets": KV, **given}, plan=plan)


def test_a_plan_of_offsets_without_values():
    assert jfagen.plan(KV.to("meta"), QO.to("meta"), total_queries=10).tiles == ()


def test_a_plan_does_not_hide_offsets_past_the_rows_of_k():
    """K has fewer rows than the plan's last offset."""
    q, k, v = packed()
    for plan in (jfagen.plan(KV), jfagen.plan(KV, check=False, total_keys=10)):
        with pytest.raises(ValueError, match="kv_offsets ends with 10, but k has 7 rows"):
            jfagen.attention(q, k[:7], v[:7], KV, plan=plan)
    with pytest.raises(ValueError, match="the plan is for 10 rows of k, k has 7"):
        jfagen.attention(q, k[:7], v[:7], KV, plan=jfagen.plan(KV, total_keys=10))


@pytest.mark.parametrize("value", [(), 3, "plan", torch.zeros(2)])
def test_what_is_no_plan(value):
    said = f"plan is a {type(value).__name__}, not what `jfagen.plan` returns"
    with pytest.raises(TypeError, match=said):
        jfagen.attention(*packed(), KV, plan=value)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (TypeError, {"kv_offsets": [0, 1]}, "kv_offsets is a list, not a tensor"),
        (TypeError, {"q_offsets": [0, 1], "total_queries": 1}, "q_offsets is a list, not a tensor"),
        (ValueError, {"q_offsets": QO}, "total_queries is None: with q_offsets the rows of q are"),
        (ValueError, {"q_offsets": QO, "total_queries": -1}, "total_queries is -1, not a number"),
        (TypeError, {"q_offsets": QO, "total_queries": 1.5}, "total_queries is a float, not a"),
        (TypeError, {"total_keys": torch.tensor(3)}, "total_keys is a Tensor, not a number of"),
        (TypeError, {"total_keys": True}, "total_keys is a bool, not a number of rows"),
        (ValueError, {"total_keys": 9}, "kv_offsets ends with 10, but k has 9 rows"),
        (ValueError, {"q_offsets": QO, "total_queries": 9}, "q_offsets ends with 10, but q has 9"),
        (ValueError, {"q_offsets": offsets(0, 9), "total_queries": 9}, "for 2 sequences, q_offset"),
        (
            ValueError,
            {"kv_offsets": torch.tensor([0, 2**40])},
            f"kv_offsets ends with {2**40}, more than {2**31 - 1} rows",
        ),
    ],
)
def test_what_a_plan_is_not_made_from(kind, given, said):
    with pytest.raises(kind, match=said):
        jfagen.plan(**{"kv_offsets": KV, **given})


class Kernel:
    """Stands for the module of a generated kernel and keeps what it was called with."""

    def __init__(self):
        self.calls = []

    def forward(self, *tensors, **options):
        self.calls.append((tensors, options))
        q, kv = tensors[0], tensors[3]
        shape = q.shape if len(tensors) == 5 else (kv.numel() - 1, *q.shape)
        return q.new_ones(shape), q.new_ones(shape[:-1], dtype=torch.float32)


@pytest.fixture
def kernel(monkeypatch):
    """A device that has kernels: tensors on the CPU go to one that only keeps them."""
    made = Kernel()
    monkeypatch.setattr(operator, "forward_schedule", lambda device: "hopper/fwd")
    monkeypatch.setattr(operator, "load", lambda wanted: made)
    listed = lambda kernel, kv, *rest, **how: (kv,) * (kv.numel() > 1)  # noqa: E731
    monkeypatch.setattr(operator, "list_tiles", listed)
    return made


@pytest.mark.parametrize("jagged", [False, True])
def test_what_a_kernel_is_called_with(jagged, kernel):
    q, k, v = packed(dtype=torch.bfloat16, head_dim=64)
    out = jfagen.attention(q, k, v, KV, QO if jagged else None)
    ((tensors, options),) = kernel.calls
    assert bool((out == 1).all()) and options["scale"] == 64**-0.5
    for one, other in zip(tensors, (q, k, v, KV, QO), strict=False):
        assert one is other, "what TMA can read is passed on as it is"
    assert len(tensors) == (5 if jagged else 4) and options["tiles"][0] is KV


@pytest.mark.parametrize("jagged", [False, True])
@pytest.mark.parametrize("batch", [0, 8])
@pytest.mark.parametrize("queries", [0, 100])
def test_an_empty_batch_launches_no_kernel(batch, jagged, queries, kernel):
    """Total length 0, with and without sequences."""
    zeros = torch.zeros(batch + 1, dtype=torch.int32)
    empty = torch.empty(0, 4, 128, dtype=torch.bfloat16)
    q = torch.randn(queries, 4, 128).bfloat16()
    out, lse = jfagen.attention(q, empty, empty, zeros, zeros if jagged else None, return_lse=True)
    assert out.shape == ((queries, 4, 128) if jagged else (batch, queries, 4, 128))
    assert lse.shape == ((queries, 4) if jagged else (batch, 4, queries))
    assert (out.dtype, lse.dtype) == (torch.bfloat16, torch.float32)
    assert bool((out == 0).all()) and bool((lse == -math.inf).all())
    assert kernel.calls == []


def test_a_kernel_refuses_before_it_is_loaded(kernel, monkeypatch):
    """A head dimension, and elements that only the reference takes."""
    monkeypatch.setattr(operator, "load", lambda wanted: pytest.fail("it was loaded"))
    monkeypatch.setattr(operator, "list_tiles", lambda *_, **how: pytest.fail("tiles were made"))
    x = torch.zeros(10, 2, 72, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="q has a head_dim of 72, kernels are built for 64, 128"):
        jfagen.attention(x, x, x, KV)
    with pytest.raises(TypeError, match=r"q has elements of type torch.float32, not one of"):
        jfagen.attention(*packed(head_dim=64), KV)


def layouts():
    """The same numbers in other places of memory: tensor, whether TMA reads it where it is."""
    dense = packed(70, torch.bfloat16, 64)[0]
    rows = dense.flatten(1)

    def strided(elements):
        wide = torch.zeros(70, elements, dtype=torch.bfloat16)
        wide[:, :128] = rows
        return wide[:, :128].unflatten(1, (2, 64))

    def shifted(elements):
        memory = torch.zeros(70 * 128 + elements, dtype=torch.bfloat16)
        memory[elements:] = rows.flatten()
        return memory[elements:].view(70, 2, 64)

    fused = torch.stack([dense, dense, dense], 1)
    heads_apart = torch.stack([dense, dense], 2)[:, :, 0]
    return {
        "dense": (dense, True),
        "slice of a fused projection": (fused[:, 1], True),
        "every second row": (dense.repeat_interleave(2, 0)[::2], True),
        "rows of 1022 bytes": (strided(511), False),
        "rows of 1032 bytes": (strided(516), False),
        "rows of 1040 bytes": (strided(520), True),
        "address off by 2 bytes": (shifted(1), False),
        "address off by 16 bytes": (shifted(8), True),
        "transposed": (dense.transpose(0, 1).contiguous().transpose(0, 1), False),
        "heads apart": (heads_apart, False),
        "elements apart": (torch.stack([dense, dense], 3)[..., 0], False),
        "elements of one head apart": (torch.stack([dense, dense], 3)[:, :1, :, 0], False),
        "one head for all": (dense[:, :1].expand(70, 2, 64), False),
        "one row for all": (dense[:1].expand(70, 2, 64), False),
        "one head with a stride of its own": (heads_apart[:, :1], True),
        "no rows": (dense[:0], True),
    }


@pytest.mark.parametrize("name", layouts())
@pytest.mark.parametrize("place", [0, 1, 2])
def test_layouts_that_tma_reads_and_those_that_are_copied(name, place, kernel):
    """A row that is no multiple of 16 bytes gives wrong tiles in silence."""
    x, fits = layouts()[name]
    given = [x.contiguous().clone()] * 3
    given[place] = x
    rows = offsets(0, x.shape[0])
    jfagen.attention(*given, rows, rows)
    if not x.shape[0]:
        assert kernel.calls == []
        return
    got = kernel.calls[0][0][place]
    assert (got is x) == fits and torch.equal(got, x)
    row, head, element = got.stride()
    assert element == 1 and (head == 64 or x.shape[1] == 1) and row > 0
    assert got.data_ptr() % TMA_ALIGNMENT == 0 and 2 * row % TMA_ALIGNMENT == 0
    width = x.shape[1] * 64
    assert got.reshape(-1, width).data_ptr() == got.data_ptr(), "the descriptor sees no copy"


def test_an_error_of_the_device_lets_it_speak_first(kernel, monkeypatch):
    def broken(*given, **options):
        raise RuntimeError("CUDA error: unspecified launch failure")

    waited = []
    kernel.forward = broken
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(True))
    with pytest.raises(RuntimeError, match="unspecified launch failure"):
        jfagen.attention(*packed(dtype=torch.float16, head_dim=128), KV)
    assert waited == [True]
