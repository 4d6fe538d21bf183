"""Nsight Compute's tables and errors, and the process that it profiles."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest
from profile_stands import ANSWER, HEAD, JOB, KERNEL, all_values, fake, quoted, wide

from jfagen import child
from jfagen.bench.records import Dtype
from jfagen.bench.shapes import Direction
from jfagen.profile import ncu, ncu_csv, workload
from jfagen.profile.counters import COUNTERS, metric_names
from jfagen.profile.jobs import MARK, Job, JobFailed, answer, ask

# ---- What ncu writes ----------------------------------------------------------------------------


def test_a_raw_page_is_read_launch_by_launch():
    name = "void fill<4, float>(int, T2)"
    text = wide({"gpu__time_duration.sum": "1,234,567", "a__b.sum": "n/a"}, ("first", name))
    one, two = ncu_csv.parse(text)
    assert (one.kernel, two.kernel) == ("first", name)
    assert one.values["gpu__time_duration.sum"] == 1234567.0 and one.values["a__b.sum"] is None
    assert one.values["device__attribute_clock_rate"] == 1.98e6
    assert one.values["device__attribute_mode"] is None


def test_a_page_with_a_row_for_each_metric_is_read_too():
    head = [*HEAD, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
    rows = [["0", *[""] * 3, "k", *[""] * 6, "s", name, "u", value]
            for name, value in (("a__b.sum", "3"), ("c__d.pct", "4.5"), ("", ""))]  # fmt: skip
    (one,) = ncu_csv.parse("\n".join(map(quoted, [head, *rows])))
    assert one.kernel == "k" and one.values == {"a__b.sum": 3.0, "c__d.pct": 4.5}


@pytest.mark.parametrize("text", ["", "==ERROR== nothing", '"ID","Kernel Name"', '"x"\n"ID"'])
def test_a_text_without_a_table_has_no_launch(text):
    assert ncu_csv.parse(text) == ()


def test_every_figure_has_its_own_key_and_metrics():
    keys = [one.key for one in COUNTERS]
    metrics = [name for one in COUNTERS for name in one.metrics]
    assert len(set(keys)) == len(keys) and len(set(metrics)) == len(metrics)
    assert set(metrics) - set(metric_names(frozenset({"lts__t_sectors"}))) == {
        "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"
    }


# ---- A program that does what ncu does ----------------------------------------------------------


def counted(program, kernels=(KERNEL,)):
    return ncu.count(program, JOB, kernels, timeout_seconds=20)


def test_one_launch_of_each_kernel_is_profiled_and_clocks_are_left_alone(tmp_path):
    found = counted(fake(tmp_path, wide(all_values(), ("a", "b"))), ("a", "b"))
    assert [one.kernel for one in found.launches] == ["a", "b"]
    assert found.answer == ANSWER and found.unknown == frozenset()
    call = (tmp_path / "calls").read_text()
    for words in ("'--kernel-name', 'regex:^(a|b)$'", "'--launch-count', '2'",
                  "'--clock-control', 'none'", "'--csv', '--page', 'raw'"):  # fmt: skip
        assert words in call
    assert "jfagen.profile.workload" in call and '"bq-512-1k-s50"' in call


def test_a_metric_that_ncu_does_not_know_is_left_out_in_another_try(tmp_path):
    found = counted(fake(tmp_path, wide(all_values()), strange="sm__inst_issued"))
    assert found.unknown == {"sm__inst_issued"} and len(found.launches) == 1
    first, second = (tmp_path / "calls").read_text().splitlines()
    assert "sm__inst_issued" in first and "sm__inst_issued" not in second


def test_without_permission_that_is_told(tmp_path):
    log = (
        "==PROF== Connected to process 7\n==ERROR== ERR_NVGPUCTRPERM - The user does not have "
        "permission to access NVIDIA GPU Performance Counters on the target device 0.\n"
    )
    with pytest.raises(ncu.NotPermitted):
        counted(fake(tmp_path, log, code=1))


def test_what_ncu_says_is_the_reason_for_having_no_counters(tmp_path):
    with pytest.raises(ncu.NcuFailed, match="LibraryNotLoaded"):
        counted(fake(tmp_path, "==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n"))
    with pytest.raises(ncu.NcuFailed, match="ended with 0 and wrote no counters"):
        counted(fake(tmp_path, "==WARNING== No kernels were profiled.\n"))
    with pytest.raises(ncu.NcuFailed, match="cannot be started"):
        counted(tmp_path)


def test_a_program_that_failed_under_ncu_is_not_ncu_s_failure(tmp_path):
    log = "==ERROR== The application returned an error code (3).\n"
    with pytest.raises(JobFailed, match="it ended with 3"):
        counted(fake(tmp_path, log, code=3, answers=False))


def test_ncu_is_the_one_asked_for_or_on_path_or_the_newest_of_the_usual_places(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    for name in ("cuda-9.2", "cuda-13.0", "cuda-12.8"):
        (tmp_path / name).mkdir()
        fake(tmp_path / name, "")
    assert ncu.find_ncu(places=()) is None
    assert ncu.find_ncu(tmp_path / "ncu") is None
    places = [f"{tmp_path}/none/ncu", f"{tmp_path}/cuda-*/ncu"]
    assert ncu.find_ncu(places=places) == tmp_path / "cuda-13.0" / "ncu"
    monkeypatch.setenv("PATH", str(tmp_path / "cuda-9.2"))
    assert ncu.find_ncu(places=places) == tmp_path / "cuda-9.2" / "ncu"
    assert ncu.version(tmp_path / "cuda-9.2" / "ncu") == "2025.3.1.0"


# ---- The process on the GPU ---------------------------------------------------------------------


def test_a_job_survives_the_way_to_its_process():
    job = replace(JOB, direction=Direction.BACKWARD, dtype=Dtype.FP16, seed=9)
    assert Job.parse(job.command[-1]) == job and job.shape.name == job.name


def test_a_job_that_fails_gives_one_line(capsys):
    assert workload.main('{"do": "fly"}') == 1
    (line,) = capsys.readouterr().out.strip().splitlines()
    assert line.startswith(MARK) and "ValueError: 'fly'" in line


def test_a_process_without_an_answer_is_a_failure(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(JobFailed, match="it ended with 1: it said nothing"):
        ask(JOB, timeout_seconds=5)


def test_a_process_ends_when_its_time_is_up_with_those_it_has_started():
    began = time.monotonic()
    ended = child.run(["sh", "-c", "echo said; sleep 60; true"], timeout_seconds=0.5)
    assert ended.code is None and ended.out == "said\n" and time.monotonic() - began < 20
    with pytest.raises(JobFailed, match=r"did not end in 0\.5 seconds"):
        answer(ended, 0.5)
