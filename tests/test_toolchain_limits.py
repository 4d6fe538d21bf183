"""Limits that the toolchain does not keep: register requests, memory, threads."""

from __future__ import annotations

import dataclasses

import pytest

from jfagen.toolchain.checks import dropped_registers, explained, findings
from jfagen.toolchain.emitted import read_emitted
from jfagen.toolchain.ptx import launch_registers, setmaxnreg_values, threads
from jfagen.toolchain.records import Arch, Budget, CompileFailed, Finding, Resources

PTX = """
.visible .entry k()
.reqntid 512
.maxnreg 128
{
	setmaxnreg.inc.sync.aligned.u32 	256;
	setmaxnreg.dec.sync.aligned.u32 	152;
	setmaxnreg.inc.sync.aligned.u32 	168;
	setmaxnreg.dec.sync.aligned.u32 	24;
	setmaxnreg.dec.sync.aligned.u32 	24;
	// setmaxnreg.dec.sync.aligned.u32 	200;
}
"""
FITS = Resources(
    smem_bytes=232_448,
    tmem_columns=512,
    threads=1024,
    cluster=(1, 1, 1),
    registers_per_thread=64,
    setmaxnreg=(),
)


def check(budget, resources=FITS, arch=Arch.SM_100A) -> list[str]:
    return [found.id for found in findings(arch, budget, resources, 64, ())]


# ---- register requests


def survivors(ptx: str, text: str) -> list[str]:
    """Return the messages about the requests of an emitted text that the PTX has dropped."""
    emitted = read_emitted(text)
    dropped = dropped_registers(
        emitted.budget, setmaxnreg_values(ptx), launch_registers(ptx), emitted.roles
    )
    return [finding.message for finding in dropped]


def roles(**registers: tuple[int, int]) -> str:
    """Return an emitted text with one role a name, of (warps, registers)."""
    tasks = [
        f"        # {name}: (toy.sched:1)\n        with tlx.async_task(num_warps={warps}):\n"
        "            pass\n"
        for name, (warps, _) in registers.items()
    ]
    budget = {name: count for name, (_, count) in registers.items()}
    return (
        "def k():\n    with tlx.async_tasks():\n"
        + "".join(tasks)
        + "SIGNATURE = {}\nOPTIONS = {}\n"
        f"BUDGET = {{'registers': {budget}}}\n"
    )


def test_ptx_values_are_read_in_order_without_comments():
    assert setmaxnreg_values(PTX) == (256, 152, 168, 24)
    assert (launch_registers(PTX), threads(PTX)) == (128, 512)


def test_requests_that_the_ptx_sets_survive():
    assert survivors(PTX, roles(a=(4, 152), b=(4, 168), c=(1, 24))) == []


def test_a_request_that_the_ptx_does_not_set_is_named():
    (message,) = survivors(PTX, roles(a=(4, 152), b=(4, 200)))
    assert message == "`b` asks for 200 registers, the PTX sets 256, 152, 168, 24"


def test_without_any_setmaxnreg_every_request_is_dropped():
    bare = ".entry k()\n.reqntid 512\n{ }\n"
    assert len(survivors(bare, roles(a=(4, 240), b=(1, 24)))) == 2


def test_a_request_for_what_a_thread_has_at_launch_needs_no_setmaxnreg():
    assert survivors(PTX, roles(a=(4, 128))) == []


def test_narrow_roles_get_the_largest_request_of_their_group():
    grouped = PTX.replace("	24;", "	48;")
    assert survivors(grouped, roles(a=(1, 24), b=(1, 32), c=(1, 48))) == []
    assert len(survivors(grouped, roles(a=(4, 32), b=(1, 48)))) == 1


def test_a_request_under_24_becomes_24():
    assert survivors(PTX, roles(a=(4, 16))) == []
    assert len(survivors(PTX.replace("	24;", "	32;"), roles(a=(4, 16)))) == 1


def test_a_refusal_by_ptxas_is_explained_by_the_requests_that_its_ptx_dropped():
    refused = Finding(id="compiler-refused", message="refused", notes=("insufficient registers",))
    bare = CompileFailed(refused, ".entry k()\n.reqntid 512\n{ }\n")
    emitted = read_emitted(roles(a=(4, 240), b=(1, 24)))
    finding = explained(bare, emitted).finding
    assert finding.id == "registers-dropped"
    assert "`a` asks for 240" in finding.message
    assert "`b` asks for 24" in finding.notes[0]
    assert finding.notes[-1] == "insufficient registers"


def test_a_refusal_whose_ptx_keeps_every_request_stays_what_it_is():
    refused = Finding(id="compiler-refused", message="refused")
    emitted = read_emitted(roles(a=(4, 168)))
    assert explained(CompileFailed(refused, PTX), emitted).finding is refused
    assert explained(CompileFailed(refused), emitted).finding is refused


# ---- capacity


def test_exactly_the_hardware_is_allowed():
    assert check(Budget(registers={})) == []


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("smem_bytes", 232_449, "smem-over-limit"),
        ("tmem_columns", 1024, "tmem-over-limit"),
        ("threads", 1056, "threads-over-limit"),
    ],
)
def test_more_than_the_hardware_is_refused(field, value, expected):
    over = dataclasses.replace(FITS, **{field: value})
    assert check(Budget(registers={}), over) == [expected]


def test_more_than_the_budget_is_refused_and_exactly_the_budget_is_not():
    budget = Budget(smem_bytes=232_448, tmem_columns=512, registers={})
    assert check(budget) == []
    smaller = Budget(smem_bytes=232_447, tmem_columns=256, registers={})
    assert check(smaller) == ["smem-over-budget", "tmem-over-budget"]


def test_the_hardware_limits_hold_on_hopper_too():
    over = dataclasses.replace(FITS, smem_bytes=232_449, tmem_columns=0)
    assert check(Budget(registers={}), over, Arch.SM_90A) == ["smem-over-limit"]


def test_matmuls_that_run_one_by_one_are_a_finding():
    budget = Budget(smem_bytes=None, tmem_columns=None, registers={})
    hopper = dataclasses.replace(FITS, tmem_columns=0)
    log = (
        "ptxas info    : (C7513) Potential Performance Loss: wgmma.mma_async instructions are "
        "serialized due to non wgmma instructions defining input registers of a wgmma between "
        "start and end of the pipeline stage in the function 'k'"
    )
    (found,) = findings(Arch.SM_90A, budget, hopper, 64, (), log)
    assert found.id == "matmuls-serialized"
    assert "non wgmma instructions defining input registers" in found.message
    assert findings(Arch.SM_90A, budget, hopper, 64, (), "ptxas info : nothing") == ()
