"""`jfagen profile`: what figures point to, what is printed and written, and what is missing."""

from __future__ import annotations

import json
import os
import sys

import pytest
from builders import compiled
from profile_stands import ANSWER, FACTS, JOB, KERNEL, all_values, fake, wide
from typer.testing import CliRunner

from jfagen.bench.records import Dtype
from jfagen.bench.shapes import SHAPES, Direction
from jfagen.cli import app
from jfagen.kernels import BACKWARDS
from jfagen.profile import ncu, session
from jfagen.profile.counters import COUNTERS
from jfagen.profile.jobs import Do, JobFailed
from jfagen.profile.parts import Part, loops_of, parts_of
from jfagen.profile.subjects import launched_by, program_of, subjects_of
from jfagen.toolchain import Arch, Finding, ToolchainMissing

# ---- What figures point to ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "part", "words"),
    [
        ("fwd", Part.MATMULS, "mma: pv[0][i-1], qk[0][i], pv[1][i-1], qk[1][i] (fwd.sched:36)"),
        ("fwd", Part.WARPS, "softmax: softmax[g][i] (fwd.sched:37)"),
        ("fwd", Part.SMEM_OF_WARPS, "correction: finish[g] on out (fwd.sched:41)"),
        ("fwd", Part.OPERANDS, "smem: kv (fwd.sched:21)"),
        ("fwd", Part.BUFFERS, "smem: kv 98,304 bytes (fwd.sched:21)"),
        ("fwd", Part.REGISTERS, "softmax: registers 184 (fwd.sched:15)"),
        ("hopper/fwd", Part.MATMULS, "consumer: qk[g][i], pv[g][i-1] (fwd.sched:39)"),
        ("hopper/fwd", Part.SMEM_PIPE, "smem: k (fwd.sched:24)"),
        ("hopper/fwd", Part.SMEM_PIPE, "consumer: finish[g] on out (fwd.sched:41)"),
        ("hopper/fwd", Part.WARPS, "consumer: softmax[g][i], rescale[g][i] (fwd.sched:39)"),
        ("hopper/fwd", Part.TRAFFIC, "load: load_k[i], load_v[i] (fwd.sched:37)"),
        ("bwd", Part.MATMULS, "mma: st[j], dk[j-1], dq[j-1], dpt[j], dv[j] (bwd.sched:49)"),
        ("bwd", Part.SUMS, "reduce: reduce_dq[j] (bwd.sched:51)"),
        ("bwd", Part.SMEM_OF_WARPS, "reduce: reduce_dq[j] on stage (bwd.sched:51)"),
        ("bwd", Part.REGISTERS, "compute: registers 176 that are left (bwd.sched:19)"),
    ],
)
def test_a_part_of_a_schedule_is_named_with_its_line(schedule, part, words):
    one = compiled(schedule)
    assert words in [place.words for place in parts_of(one.program, one.resources.registers)[part]]


def test_operands_use_the_pipe_of_warps_only_where_matmuls_leave_results_in_registers():
    for schedule, shared in (("fwd", False), ("bwd", False), ("hopper/fwd", True)):
        parts = parts_of(compiled(schedule).program, {})
        assert set(parts[Part.SMEM_OF_WARPS]) <= set(parts[Part.SMEM_PIPE])
        assert (set(parts[Part.OPERANDS]) <= set(parts[Part.SMEM_PIPE])) is shared


def test_only_an_op_that_writes_in_every_step_adds():
    for schedule in ("fwd", "hopper/fwd"):
        assert parts_of(compiled(schedule).program, {})[Part.SUMS] == ()


def test_names_are_the_schedule_s():
    one = compiled("bwd", ("reduce ", "adder "), (" stage ", " parcels "))
    parts = parts_of(one.program, {})
    assert parts[Part.SUMS][0].owner == "adder"
    assert "adder: reduce_dq[j] on parcels (bwd.sched:51)" in [
        place.words for place in parts[Part.SMEM_OF_WARPS]
    ]
    assert [place.names for place in loops_of(one.program)["adder"]] == [("reduce_dq[j]",)]


@pytest.mark.parametrize(
    ("direction", "arch", "launched"),
    [
        (Direction.FORWARD, Arch.SM_90A, (KERNEL,)),
        (Direction.FORWARD, Arch.SM_100A, ("jfa_fwd",)),
        (
            Direction.BACKWARD,
            Arch.SM_100A,
            ("jfa_bwd_preprocess", "jfa_bwd", "jfa_bwd_postprocess"),
        ),
    ],
)
def test_all_kernels_of_a_call_are_found(direction, arch, launched):
    (subject,), missing = subjects_of(SHAPES[:2], direction, Dtype.BF16, arch)
    assert subject.launched == launched and subject.kernel in launched and not missing
    assert subject.shapes == SHAPES[:2]


def test_only_calls_with_a_grid_are_launches():
    assert launched_by("f[g](a[0](), h(1))\nmodule.x[1](2)\nf[g]()\nk[2]()") == ("f", "a", "k")


def test_packed_queries_have_a_kernel_of_their_own():
    found, missing = subjects_of(SHAPES[6:8], Direction.FORWARD, Dtype.BF16, Arch.SM_90A)
    assert [one.name for one in found] == ["hopper/fwd", "hopper/fwd_jagged"] and not missing
    assert program_of("hopper/fwd_jagged", "hopper/fwd").problem.q == "jagged"
    found, missing = subjects_of(SHAPES[6:8], Direction.FORWARD, Dtype.BF16, Arch.SM_100A)
    assert [one.name for one in found] == ["fwd"]
    assert missing == {"self-512-s50": "no generated kernel `fwd_jagged` for sm_100a"}


# ---- The command --------------------------------------------------------------------------------


def call(*arguments, **environment):
    return CliRunner().invoke(app, ["profile", *map(str, arguments)], env=environment)


@pytest.fixture
def on_gpu(monkeypatch, tmp_path):
    """The command where a GPU seems to be; `ncu` is nowhere, and nothing is compiled."""

    def say(job, timeout_seconds):
        laps = [1.0, 2.0, 4.0] if job.do is Do.TIME else []
        return FACTS if job.do is Do.FACTS else ANSWER | {"laps_ms": laps}

    def no_toolchain(*args, **options):
        raise ToolchainMissing(Finding(id="toolchain-missing", message="none", help="install it"))

    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(ncu.find_ncu, "__defaults__", (None, ()))
    monkeypatch.setattr(session, "ask", say)
    monkeypatch.setattr(session, "compile_text", no_toolchain)
    monkeypatch.setattr("jfagen.profile.peaks._highest_clock", lambda uuid: 1980.0)
    return monkeypatch


@pytest.fixture
def cubin(on_gpu):
    """And with a compiler that makes nothing, but finds nothing wrong."""
    on_gpu.setattr(session, "_compile", lambda request, subject, found: None)
    return on_gpu


def row_of(text, figure):
    return next(line for line in text.splitlines() if line.startswith(figure))


def test_figures_are_printed_with_what_they_point_to(cubin, tmp_path):
    program = fake(tmp_path, wide(all_values(lts__t_sectors_op_red_DOT_sum="n/a")))
    result = call("--shapes", JOB.name, "--ncu", program, "--json", tmp_path / "a.json")
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert f"counters  by ncu 2025.3.1.0 ({program})" in text and "\x1b" not in text
    assert f"{KERNEL} for sm_90a" in text and "measured by ncu" in text
    assert row_of(text, "duration, ms").split()[-1] == "2.0000"
    assert row_of(text, "TFLOP/s of attention").split()[-1] == "200.0"
    assert row_of(text, "the same, % of peak").split()[-1] == "18.7"
    tensor = row_of(text, "tensor pipe")
    assert "50.0" in tensor and "consumer: qk[g][i], pv[g][i-1] (fwd.sched:39)" in tensor
    assert row_of(text, "L2 sectors added to").split()[-1] == "-"
    assert "`-`: this ncu has no value here for l2_sectors_added" in text
    found = json.loads((tmp_path / "a.json").read_text())
    assert (found["schema"], found["schema_version"]) == ("jfagen-profile", 1)
    assert found["counters"]["access"] == "read" and found["gpu"]["name"] == "NVIDIA H200"
    (kernel,) = found["kernels"]
    figures = {one["key"]: one for one in kernel["figures"]}
    assert {one.key for one in COUNTERS} <= set(figures)
    pipe = figures["tensor_pipe_percent"]
    assert pipe["by_shape"] == {JOB.name: 50.0}
    assert pipe["metrics"][JOB.name].startswith("sm__pipe_tensor_cycles_active.")
    assert pipe["points_to"] == [
        {"owner": "consumer", "names": ["qk[g][i]", "pv[g][i-1]"], "place": "fwd.sched:39"}
    ]
    assert figures["l2_sectors_added"]["by_shape"] == {JOB.name: None}


def test_a_metric_without_a_value_gives_way_to_the_next_one(cubin, tmp_path):
    first, second = next(c for c in COUNTERS if c.key == "tensor_pipe_percent").metrics
    values = all_values() | {first: "n/a", second: "61.0"}
    program = fake(tmp_path, wide(values), strange="sm__inst_issued")
    text = call("--shapes", JOB.name, "--ncu", program).stdout
    assert "61.0" in row_of(text, "tensor pipe")
    assert "does not know sm__inst_issued" in text and "50.0" in row_of(text, "issue slots")


def test_kernels_that_no_schedule_describes_have_no_places(cubin, tmp_path):
    cubin.setattr(session, "ask", lambda job, timeout_seconds: FACTS | {"capability": [10, 0]})
    names = ("jfa_bwd_preprocess", "jfa_bwd", "jfa_bwd_postprocess")
    program = fake(tmp_path, wide(all_values(), names))
    text = call("--shapes", JOB.name, "--pass", "backward", "--ncu", program).stdout
    before, main, after = text.split("\njfa_bwd")[1:]
    assert "outside of the schedule" in before and "outside of the schedule" in after
    assert "points to" not in before + after
    assert "reduce: reduce_dq[j] (bwd.sched:51)" in row_of(main, "L2 sectors added to")


def test_without_ncu_calls_are_timed_and_it_says_how_to_get_it(cubin):
    result = call("--shapes", JOB.name)
    assert result.exit_code == 0, result.output
    assert "counters  none, ncu not found" in result.stdout and "--ncu" in result.stdout
    row = row_of(result.stdout, JOB.name).split()
    assert row == [JOB.name, "2.0000", "1.2000..3.6000", "200.0", "18.7", "2,400.0", "50.0"]
    assert "L2 is warm" in result.stdout.replace("\n", " ")


def test_without_permission_calls_are_timed_and_it_says_who_can_give_it(cubin, tmp_path):
    program = fake(tmp_path, "==ERROR== ERR_NVGPUCTRPERM - The user has no permission\n", code=1)
    result = call("--shapes", "bq-512-1k-*", "--ncu", program)
    assert result.exit_code == 0 and "NVreg_RestrictProfilingToAdminUsers=0" in result.stdout
    assert row_of(result.stdout, "bq-512-1k-s100")
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_an_ncu_that_fails_otherwise_ends_in_1(cubin, tmp_path):
    program = fake(tmp_path, "==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n")
    result = call("--shapes", JOB.name, "--ncu", program)
    assert result.exit_code == 1 and "LibraryNotLoaded" in result.stdout
    assert row_of(result.stdout, JOB.name)


def test_a_kernel_that_fails_ends_in_1_with_its_error(cubin):
    def fails(job, timeout_seconds):
        if job.do is Do.FACTS:
            return FACTS
        raise JobFailed("RuntimeError: an illegal memory access")

    cubin.setattr(session, "ask", fails)
    other = SHAPES[1].name
    result = call("--shapes", f"{JOB.name},{other}")
    assert f"error: {other}: RuntimeError: an illegal memory access" in result.stderr
    assert result.exit_code == 1 and "nothing is known" not in result.stderr


def test_a_gpu_without_a_kernel_is_told_and_the_others_targets_are_compiled(cubin):
    cubin.delitem(BACKWARDS, (9, 0))
    result = call("--pass", "backward")
    assert "there is no kernel of the backward for NVIDIA H200, sm_90" in result.stdout
    assert "compiling bwd" in result.stderr


def test_without_gpu_and_toolchain_nothing_is_known(on_gpu):
    on_gpu.setattr(session, "ask", lambda job, timeout_seconds: {"reason": "no torch"})
    result = call()
    assert result.exit_code == 2 and "counters  none, no GPU: no torch" in result.stdout
    assert result.stderr.count("error[toolchain-missing]") == 1 and "Traceback" not in result.output


def test_without_a_gpu_the_machine_code_is_looked_at(tmp_path):
    """The real look at this machine, and the real compiler."""
    result = call("--arch", "sm_90a", "--json", tmp_path / "a.json", CUDA_VISIBLE_DEVICES="")
    assert result.exit_code == 0, result.output
    assert "counters  none, no GPU: torch" in result.stdout
    assert "measured from the cubin, nothing was run" in result.stdout
    loop = row_of(result.stdout, "loop 1 of consumer, instructions a lap")
    assert "consumer: qk[g][i], pv[g][i-1], softmax[g][i], rescale[g][i] (fwd.sched:39)" in loop
    (kernel,) = json.loads((tmp_path / "a.json").read_text())["kernels"]
    figures = {one["key"]: one["value"] for one in kernel["figures"]}
    assert figures["spill_bytes_stored"] == 0 and figures["smem_bytes"] > 200_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shapes", "bq-512-1k-s51"], "there is no shape `bq-512-1k-s51`\nhelp: did you mean"),
        (["--shapes", ","], "no shape is named"),
        (["--ncu", "nowhere/ncu"], "there is no file `nowhere/ncu`\nhelp: leave out `--ncu`"),
        (
            ["--pass", "backward", "--arch", "sm_90a"],
            "there is no kernel of the backward for sm_90a\nhelp: there are kernels for sm_100a",
        ),
        (["--json", "nowhere/a.json"], "`nowhere/a.json` cannot be written: its folder"),
        (["--pass", "sideways"], "sideways"),
        (["--timeout", "0"], "--timeout"),
        (["--seed", "-1"], "--seed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_call_is_refused_before_anything_is_started(arguments, words, monkeypatch):
    monkeypatch.setattr(session, "ask", lambda *a, **k: pytest.fail("starts"))
    monkeypatch.delitem(BACKWARDS, (9, 0))
    result = call(*arguments)
    assert result.exit_code == 2 and not result.stdout and words in result.stderr


def test_importing_it_needs_no_torch():
    code = "import sys, jfagen.cli.profile, jfagen.profile; sys.exit('torch' in sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0
