"""`compile`: a real kernel is measured, the compiler's death is a diagnostic."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import subprocess
import sys
import types

import pytest
import typer
from typer.testing import CliRunner

from jfagen.cli import compile as command
from jfagen.toolchain import Compiled, CompileFailed, ToolchainMissing, compile_text, find_toolchain
from jfagen.toolchain.checks import findings
from jfagen.toolchain.emitted import read_emitted
from jfagen.toolchain.ptx import launch_registers, read_log
from jfagen.toolchain.records import Budget, Finding
from jfagen.toolchain.report import as_json, as_text

TINY = """\
import triton
import triton.language as tl
import triton.language.extra.tlx as tlx


@triton.jit
def doubled(x):
    return x * 2


@triton.jit
def tiny(src, dst, n):
    full = tlx.alloc_barriers(num_barriers=1)
    tile = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    with tlx.async_tasks():
        # drain: stores the tile once it is full (tiny.sched:3)
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            places = tl.arange(0, 128)[:, None] * 64 + tl.arange(0, 64)[None, :]
            tl.store(dst + places, tlx.local_load(tile[0]))
        # fill: sums exponentials into the tile (tiny.sched:4)
        with tlx.async_task(num_warps=4, registers=104):
            places = tl.arange(0, 128)[:, None] * 64 + tl.arange(0, 64)[None, :]
            total = tl.zeros((128, 64), tl.float32)
            for step in range(n):
                total += tl.math.exp2(tl.load(src + places + step * 8192))
            tlx.local_store(tile[0], doubled(total))
            tlx.barrier_arrive(full[0])


SIGNATURE = {"src": "*fp32", "dst": "*fp32", "n": "i32"}
CONSTEXPRS = {}
OPTIONS = {"num_warps": 4, "num_stages": 1}
TARGET = "sm_100a"
KERNEL = "tiny"
BUDGET = {"smem_bytes": 65536, "tmem_columns": 64, "registers": {"drain": 256, "fill": 104}}
"""


@pytest.fixture(scope="module")
def tiny() -> Compiled:
    return compile_text(TINY, name="tiny")


@pytest.fixture
def cli(monkeypatch):
    """Return a runner of the command whose compiler is a stand-in."""
    app = typer.Typer()
    app.command("compile")(command.compile_command)

    def run(outcome, *arguments):
        def stand_in(text, **options):
            if isinstance(outcome, Exception):
                raise outcome
            return dataclasses.replace(outcome, sha256=text)

        monkeypatch.setattr(command, "compile_text", stand_in)
        return CliRunner().invoke(app, [str(each) for each in arguments])

    return run


def ids(found) -> list[str]:
    return [finding.id for finding in found]


# ---- emitted text


def test_roles_are_read_with_their_lines_warps_and_schedule_places():
    emitted = read_emitted(TINY)
    drain, fill = emitted.roles
    assert (drain.name, drain.source, drain.warps) == ("drain", "tiny.sched:3", 4)
    assert (fill.name, fill.source, fill.registers) == ("fill", "tiny.sched:4", 104)
    lines = TINY.splitlines()
    assert "async_task(num_warps=4" in lines[fill.first_line - 1]
    assert "barrier_arrive" in lines[fill.last_line - 1]
    assert emitted.role_at(fill.first_line - 1) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("SIGNATURE =", "OTHER =", "does not define `SIGNATURE`"),
        ('KERNEL = "tiny"', 'KERNEL = "huge"', "no function has that name"),
        ('TARGET = "sm_100a"', 'TARGET = "sm_70"', "`TARGET` is `sm_70`"),
        ("BUDGET = {", "BUDGET = other | {", "`BUDGET` is not a plain literal"),
        ("def tiny(", "def tiny((", "is not Python"),
    ],
)
def test_a_file_that_build_did_not_write_is_refused(old, new, message):
    with pytest.raises(CompileFailed, match=message):
        compile_text(TINY.replace(old, new))


def test_a_kernel_of_another_target_is_refused():
    with pytest.raises(CompileFailed) as caught:
        compile_text(TINY, arch="sm_90a")
    assert caught.value.finding.id == "other-target"


def test_the_log_of_another_kernel_is_no_figure():
    log = (
        "ptxas info    : Function properties for tiny\n"
        "    40 bytes stack frame, 68 bytes spill stores, 108 bytes spill loads\n"
        "ptxas info    : Used 128 registers, used 4 barriers\n"
    )
    spills = read_log(log, "tiny").spills
    assert (spills.stack_bytes, spills.store_bytes, spills.load_bytes) == (40, 68, 108)
    with pytest.raises(CompileFailed, match="no figures for `huge`"):
        read_log(log, "huge")


# ---- the installation


def test_a_triton_without_tlx_is_told_apart_with_the_order_to_install_in(tmp_path):
    with pytest.raises(ToolchainMissing) as caught:
        find_toolchain(tmp_path)
    finding = caught.value.finding
    assert "has no TLX" in finding.message
    torch, fbtriton = finding.help.index("torch==2.13.0"), finding.help.index("fbtriton==3.7.4")
    assert torch < fbtriton


@pytest.mark.parametrize("package", ["triton", "torch"])
def test_a_package_that_is_not_there_is_one_diagnostic(monkeypatch, package):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == package else find_spec(name)
    )
    with pytest.raises(ToolchainMissing) as caught:
        find_toolchain()
    assert caught.value.finding.id == "toolchain-missing"
    assert f"no `{package}` package" in caught.value.finding.message


def test_importing_needs_neither_triton_nor_torch():
    code = (
        "import sys; sys.modules.update(triton=None, torch=None)\n"
        "import jfagen.toolchain, jfagen.cli.compile"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- the real compiler


def test_a_real_kernel_keeps_its_budget(tiny):
    assert tiny.findings == ()
    assert tiny.resources.tmem_columns == 64
    assert tiny.resources.threads == 256
    assert 104 in tiny.resources.setmaxnreg
    assert tiny.cubin.startswith(b"\x7fELF")
    assert tiny.versions.ptxas[0].isdigit()


def test_the_hot_loop_of_a_real_kernel_is_traced_to_its_role(tiny):
    (loop,) = tiny.loops
    assert loop.role == "fill"
    # 128 x 64 elements over 128 threads: 64 exponentials a thread and lap.
    assert loop.counts["EX2"] == 64
    assert loop.registers_named <= loop.register_limit == 104
    fill = tiny.roles[1]
    assert fill.first_line <= loop.first_line <= loop.last_line <= fill.last_line


def test_no_path_of_this_machine_reaches_the_ptx(tiny):
    assert '"tiny.py"' in tiny.ptx
    assert "/tmp" not in tiny.ptx


def test_a_real_kernel_over_its_budget_is_refused(tiny):
    small = Budget(smem_bytes=1024, tmem_columns=32, registers={"drain": 256, "fill": 208})
    found = findings(
        tiny.arch, small, tiny.resources, launch_registers(tiny.ptx), read_emitted(TINY).roles
    )
    assert ids(found) == ["smem-over-budget", "tmem-over-budget", "registers-dropped"]


def test_the_death_of_the_compiler_is_a_diagnostic():
    with pytest.raises(CompileFailed) as caught:
        compile_text(TINY.replace("local_alloc((128,", "local_alloc((256,"))
    finding = caught.value.finding
    assert finding.id == "compiler-died"
    assert "SIGABRT" in finding.message
    assert any("blockM must be 64 or 128 but got 256" in note for note in finding.notes)


def test_an_exception_of_the_compiler_names_the_emitted_line():
    broken = TINY.replace("x * 2", "x * nothing")
    with pytest.raises(CompileFailed) as caught:
        compile_text(broken, name="broken")
    line = broken.splitlines().index("    return x * nothing") + 1
    assert f"broken.py:{line}" in caught.value.finding.message
    assert any("nothing is not defined" in note for note in caught.value.finding.notes)


def test_a_compiler_that_does_not_end_is_stopped():
    endless = TINY.replace("CONSTEXPRS", "import time\ntime.sleep(60)\nCONSTEXPRS")
    with pytest.raises(CompileFailed) as caught:
        compile_text(endless, timeout_seconds=0.3)
    assert caught.value.finding.id == "compiler-timeout"


# ---- the command


def test_the_tables_name_what_was_measured_and_fit_100_columns(tiny):
    text = as_text(tiny)
    assert max(len(line) for line in text.splitlines()) <= 100
    assert text.splitlines()[-1].endswith("nothing was run on a GPU")
    assert "fill" in text and "104/104" in text


def test_the_json_holds_the_record_without_its_artefacts(tiny):
    record = json.loads(as_json(tiny))
    assert record["ok"] is True
    assert record["loops"][0]["counts"]["EX2"] == 64
    assert not {"ptx", "cubin", "sass"} & record.keys()


def test_four_files_are_written_when_everything_is_right(tiny, cli, tmp_path):
    source, out = tmp_path / "tiny.py", tmp_path / "out"
    source.write_text(TINY)
    result = cli(tiny, source, "-o", out)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == [
        "tiny.cubin",
        "tiny.json",
        "tiny.ptx",
        "tiny.sass",
    ]
    assert (out / "tiny.cubin").read_bytes() == tiny.cubin


def test_nothing_is_written_when_a_limit_is_broken(tiny, cli, tmp_path):
    source, out = tmp_path / "tiny.py", tmp_path / "out"
    source.write_text(TINY)
    broken = dataclasses.replace(
        tiny, findings=(Finding(id="smem-over-limit", message="too much"),)
    )
    result = cli(broken, source, "-o", out)
    assert result.exit_code == 1
    assert "error[smem-over-limit]: too much" in result.output
    assert not out.exists()


def test_a_schedule_goes_through_the_whole_compiler(tiny, cli, monkeypatch):
    driver = types.SimpleNamespace(emit_text=lambda path: f"emitted from {path}")
    monkeypatch.setitem(sys.modules, "jfagen.driver", driver)
    result = cli(tiny, "fwd.sched", "--format", "json")
    assert json.loads(result.stdout)["sha256"] == "emitted from fwd.sched"


def test_a_missing_toolchain_is_a_wrong_call(cli, tmp_path):
    source = tmp_path / "tiny.py"
    source.write_text(TINY)
    finding = Finding(id="toolchain-missing", message="no `triton`", help="install it")
    result = cli(ToolchainMissing(finding), source)
    assert result.exit_code == 2
    assert "help: install it" in result.output


def test_a_failed_compile_is_a_wrong_schedule_also_in_json(cli, tmp_path):
    source = tmp_path / "tiny.py"
    source.write_text(TINY)
    failed = CompileFailed(Finding(id="compiler-died", message="died", notes=("last words",)))
    result = cli(failed, source, "--format", "json")
    assert result.exit_code == 1
    record = json.loads(result.stdout)
    assert record["ok"] is False
    assert record["findings"][0]["notes"] == [{"message": "last words"}]


def test_a_file_that_is_not_there_is_a_wrong_call(cli):
    assert cli(None, "nowhere.py").exit_code == 2
