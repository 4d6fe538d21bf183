"""`jfagen bench`: shapes, statistics, what is printed and written, and calls that cannot be."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from bench_stands import OnCpu, Ticks, cpu_stand, small_shape
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from jfagen import nvidia_smi
from jfagen.bench import chart, device, report, run
from jfagen.bench.device import Device
from jfagen.bench.records import Case, Dtype, Lap, Measurement, Status
from jfagen.bench.report import Head, Report, as_json, cautions, means, ratios
from jfagen.bench.shapes import SHAPES, Direction, Mode, draw_lengths
from jfagen.bench.statistics import geometric_mean, percentile, spread, tflops
from jfagen.cli import app
from jfagen.cli import bench as command
from jfagen.cli.bench_table import closing_lines, head_lines, reason_lines, result_table
from jfagen.nvidia_smi import Reading

#: Key rows of all sequences of seed 1, as the committed baseline was measured with them.
BASELINE_KEYS = {
    "bq-512-1k-s50": 394247, "bq-512-1k-s100": 786432, "bq-512-4k-s25": 767650,
    "bq-512-4k-s50": 1626464, "bq-512-4k-s100": 3145728, "bq-512-16k-s50": 1583070,
    "bq-256-1k-s50": 389222, "self-512-s50": 287742, "self-1k-s50": 616622,
    "self-2k-s50": 1210963, "dense-1k": 786432, "dense-8k": 131072,
}  # fmt: skip
WARM = Reading(
    name="NVIDIA B200", driver="580.1", sm_mhz=1830.0, sm_max_mhz=1965.0, power_w=845.2,
    power_limit_w=1000.0, temperature_c=61.0,
)  # fmt: skip
COLD = replace(WARM, sm_mhz=345.0, power_w=141.9, temperature_c=34.0)
values = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40)

# ---- Shapes -------------------------------------------------------------------------------------


def test_lengths_are_those_that_the_baseline_was_measured_with():
    drawn = draw_lengths(1)
    assert {name: sum(drawn[name]) for name in BASELINE_KEYS} == BASELINE_KEYS
    assert [shape.name for shape in SHAPES] == [*BASELINE_KEYS, "dense-b4"]


def test_lengths_are_within_their_bounds_and_follow_the_seed():
    drawn, other = draw_lengths(7), draw_lengths(8)
    assert drawn == draw_lengths(7)
    for shape in SHAPES:
        least, most = shape.length_bounds
        lengths = drawn[shape.name]
        assert len(lengths) == shape.batch and least <= min(lengths) and max(lengths) <= most
        assert (lengths == other[shape.name]) is (least == most)
        mean = sum(lengths) / len(lengths)
        assert mean == pytest.approx(shape.density * shape.longest, rel=0.15)


@pytest.mark.parametrize(
    ("density", "bounds"),
    [(1.0, (1024, 1024)), (0.75, (512, 1024)), (0.5, (0, 1024)), (0.25, (0, 512))],
)
def test_density_gives_the_bounds(density, bounds):
    assert replace(SHAPES[0], density=density).length_bounds == bounds


def test_operations_are_counted_by_pairs_of_rows():
    broadcast, own = small_shape(mode=Mode.BROADCAST), small_shape()
    assert broadcast.flops((10, 0, 5)) == 4 * 16 * 2 * 24 * 15
    assert own.flops((10, 0, 5)) == 4 * 16 * 2 * (100 + 25)
    assert own.flops((10,), Direction.BACKWARD) == 2.5 * own.flops((10,))


def test_the_baseline_rate_follows_from_the_baseline_time():
    shape = SHAPES[0]
    assert tflops(shape.flops(draw_lengths(1)[shape.name]), 1.2555) == pytest.approx(
        329.3, abs=0.05
    )


# ---- Statistics ---------------------------------------------------------------------------------


def test_percentiles_lie_between_neighbours():
    assert [percentile([4.0, 1.0, 3.0, 2.0], share) for share in (0, 0.5, 1)] == [1.0, 2.5, 4.0]
    assert percentile([0.0, 10.0], 0.1) == pytest.approx(1.0)
    assert spread([5.0]).median == spread([5.0]).p10 == spread([5.0]).p90 == 5.0


@given(values)
def test_percentiles_are_ordered_and_inside(found):
    one = spread(found)
    assert min(found) <= one.p10 <= one.median <= one.p90 <= max(found)
    assert one.count == len(found)


@given(values, st.floats(0.1, 10))
def test_the_geometric_mean_is_a_mean_and_scales(found, factor):
    mean = geometric_mean(found)
    assert min(found) * 0.999 <= mean <= max(found) * 1.001
    assert geometric_mean([value * factor for value in found]) == pytest.approx(mean * factor)
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0) and geometric_mean([]) is None


# ---- A report that nobody measured --------------------------------------------------------------


def laps(*milliseconds):
    return tuple(Lap(device_ms=ms, host_ms=0.05) for ms in milliseconds)


def rows_of(number, speeds):
    """Rows of the shape of that number; the baseline takes 2 ms, the others that over `speed`."""
    shape = SHAPES[number]
    case = Case(shape=shape, seed=1, lengths=draw_lengths(1)[shape.name])
    rows = []
    for name, speed in speeds.items():
        row = Measurement(case=case, provider=name, status=Status.MEASURED)
        if speed is None:
            row = replace(row, status=Status.UNFIT, reason="only for sequences of one length")
        elif speed == 0:
            row = replace(
                row, status=Status.WRONG, error=math.inf, tolerance=0.0156,
                reason="out of sequence 3 (12 keys), head 1 is off by inf",
            )  # fmt: skip
        else:
            ms = 2.0 / speed
            rounds = (laps(ms, 1.1 * ms), laps(0.9 * ms, ms))
            row = replace(row, rounds=rounds, sets=2, error=0.00341, tolerance=0.0156)
        rows.append(row)
    return rows


@pytest.fixture(scope="module")
def made_up():
    rows = [
        *rows_of(0, {"jfagen": 1.25, "fa4": 1.0, "cudnn": None, "torch-varlen": 0.5}),
        *rows_of(3, {"jfagen": 0.8, "fa4": 1.0, "cudnn": None, "torch-varlen": 0}),
        *rows_of(12, {"jfagen": 0.9, "fa4": 1.0, "cudnn": 1.5, "torch-varlen": 0.5}),
    ]
    head = Head(
        device="NVIDIA B200", capability=(10, 0), sms=148, l2_bytes=126 * 2**20,
        memory_bytes=179 * 2**30, versions={"torch": "2.13.0", "CUDA": "13.0"},
        direction=Direction.FORWARD, dtype=Dtype.BF16, seeds=(1,), rounds=2, baseline="fa4",
        missing={"jfagen-plan": "`jfagen` has no `plan`"},
        notes={"fa4": ("q is repeated",), "jfagen": ()}, before=COLD,
    )  # fmt: skip
    readings = {(row.case.shape.name, 1): WARM for row in rows}
    return Report(head=head, rows=tuple(rows), readings=readings, after=WARM)


def test_the_report_as_it_is_printed(made_up, golden):
    text = io.StringIO()
    console = Console(file=text, width=120, color_system=None, highlight=False)
    for line in head_lines(made_up.head):
        console.print(line, markup=False, soft_wrap=True)
    console.print(result_table(made_up))
    for line in [*reason_lines(made_up.rows), *closing_lines(made_up)]:
        console.print(line, markup=False, soft_wrap=True)
    golden.check("\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n")


def test_ratios_and_their_means_are_of_what_was_measured_beside_the_baseline(made_up):
    speeds = ratios(made_up.rows, "fa4")
    assert speeds["bq-512-1k-s50", 1, "jfagen"] == pytest.approx(1.25)
    assert ("bq-512-1k-s50", 1, "cudnn") not in speeds
    found = {(one.provider, one.mode): (one.ratio, one.cases) for one in means(made_up.rows, "fa4")}
    assert found["jfagen", Mode.BROADCAST] == (pytest.approx(math.sqrt(1.25 * 0.8)), 2)
    assert found["torch-varlen", Mode.BROADCAST] == (pytest.approx(0.5), 1)
    assert found["cudnn", Mode.SELF] == (pytest.approx(1.5), 1)
    assert ("cudnn", Mode.BROADCAST) not in found
    without = [row for row in made_up.rows if row.provider != "fa4"]
    assert ratios(without, "fa4") == {} and means(without, "fa4") == []


def test_the_json_has_everything_and_a_version(made_up):
    found = json.loads(as_json(made_up), parse_constant=lambda word: pytest.fail(word))
    assert (found["schema"], found["schema_version"]) == ("jfagen-bench", 1)
    assert found["versions"]["torch"] == "2.13.0" and found["missing"].keys() == {"jfagen-plan"}
    assert found["before"]["sm_mhz"] == 345.0 and found["after"]["power_limit_w"] == 1000.0
    first = found["cases"][0]
    assert first["shape"]["name"] == "bq-512-1k-s50" and first["total_keys"] == 394247
    assert first["reading"]["sm_mhz"] == 1830.0
    ours, theirs, unfit, _ = first["results"]
    assert ours["round_medians_ms"] == [pytest.approx(1.68), pytest.approx(1.52)]
    assert ours["ms"]["median"] == pytest.approx(1.6) and ours["ms"]["count"] == 4
    assert ours["speed_over_baseline"] == pytest.approx(1.25) and ours["host_ms"]["median"] == 0.05
    assert theirs["tflops"] == pytest.approx(first["flops"] / 2.0 / 1e9)
    assert (unfit["status"], unfit["ms"]) == ("does not fit", None)
    assert found["cases"][1]["results"][3]["error"] == "inf"
    assert {mean["mode"] for mean in found["geometric_means"]} == {"broadcast", "self"}


def test_figures_that_are_less_than_they_seem_are_named(made_up):
    assert cautions(made_up) == []
    row = made_up.rows[0]
    slow = replace(row, rounds=((Lap(device_ms=1.0, host_ms=0.95),),))
    few = replace(row, sets=1)
    large = replace(made_up.head, l2_bytes=row.case.call_bytes)
    found = cautions(replace(made_up, rows=(slow, few), head=large))
    assert found == [
        "bq-512-1k-s50, jfagen: 2 input sets do not fill the L2 three times",
        "bq-512-1k-s50, jfagen: the host takes 0.95 ms to queue a call",
        "bq-512-1k-s50, jfagen: 1 input sets do not fill the L2 three times",
    ]


def test_a_wrong_provider_or_a_broken_run_is_a_failure(made_up):
    assert report.is_wrong(made_up)
    right = tuple(row for row in made_up.rows if row.status is not Status.WRONG)
    assert not report.is_wrong(replace(made_up, rows=right))
    assert report.is_wrong(replace(made_up, rows=right, broken_off="somewhere"))


def test_the_chart_has_a_bar_for_each_measured_row(made_up, monkeypatch):
    drawn = []
    figures = chart.Figure

    def figure(**options):
        drawn.append(figures(**options))
        return drawn[-1]

    monkeypatch.setattr(chart, "Figure", figure)
    image = chart.chart(made_up)
    assert image.startswith(b"\x89PNG") and image == chart.chart(made_up)
    bars = [bar for bar in drawn[0].axes[0].patches if bar.get_height() > 0]
    heights = sorted(row.tflops for row in made_up.rows if row.tflops is not None)
    assert sorted(bar.get_height() for bar in bars) == pytest.approx(heights)
    edges = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars)
    assert all(end <= start for (_, end), (start, _) in pairwise(edges))


# ---- nvidia-smi ---------------------------------------------------------------------------------


def test_readings_are_parsed_and_what_the_driver_hides_is_none():
    text = (
        "NVIDIA H200, 580.159.03, 1980 MHz, 1980 MHz, 76.50 W, 700.00 W, 31\n"
        "NVIDIA B200 MIG 1g, 580.1, [N/A], [Unknown Error], [N/A], , 40\n"
        "No devices were found\n"
    )
    first, second = nvidia_smi.parse(text)
    assert (first.name, first.driver, first.sm_mhz) == ("NVIDIA H200", "580.159.03", 1980.0)
    assert (first.power_w, first.power_limit_w, first.temperature_c) == (76.5, 700.0, 31.0)
    assert (second.sm_mhz, second.power_w, second.power_limit_w) == (None, None, None)


def test_without_nvidia_smi_there_is_no_reading(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nvidia_smi.read_gpus() == ()
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert nvidia_smi.read_gpus("GPU-1") == ()
    (tmp_path / "nvidia-smi").write_text(
        '#!/bin/sh\n[ "$2" = GPU-1 ] && echo B, 5, 1, 2, 3, 4, 5\n'
    )
    assert [one.name for one in nvidia_smi.read_gpus("GPU-1")] == ["B"]


# ---- The command --------------------------------------------------------------------------------


def call(*arguments, **environment):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)], env=environment)


@pytest.fixture
def bench(monkeypatch):
    """The command on a stand of this CPU, with kernels of the tests and shapes of few rows."""
    ticks = Ticks()
    shapes = (small_shape(name="few", mode=Mode.BROADCAST), small_shape(name="own"))
    gpu = Device(name="a CPU", capability=(10, 0), sms=1, l2_bytes=0, memory_bytes=2**40, uuid="")
    monkeypatch.setattr(command, "SHAPES", shapes)
    monkeypatch.setattr(run, "draw_lengths", lambda seed: draw_lengths(seed, shapes))
    monkeypatch.setattr(device, "why_no_gpu", lambda: None)
    monkeypatch.setattr(device, "this_device", lambda: gpu)
    monkeypatch.setattr(device, "cuda_stand", lambda found, rounds: cpu_stand(ticks, rounds=rounds))

    def invoke(*arguments, providers=None):
        chosen = providers or [OnCpu("jfagen", 1.0), OnCpu("fa4", 1.5)]
        for one in chosen:
            one.ticks = ticks
        monkeypatch.setattr(command, "PROVIDERS", tuple(chosen))
        return call(*arguments)

    return invoke


def test_a_whole_run(bench, tmp_path):
    result = bench("--seeds", "1,2", "--rounds", "3", "--json", tmp_path / "a.json",
                   "--png", tmp_path / "a.png")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert len(re.findall(r" 1\.500  ", result.stdout)) == 4 and "\x1b" not in result.output
    assert "\u2026" not in result.stdout
    assert "jfagen  broadcast       1.500 over 2 cases" in result.stdout
    assert "jfagen  self and dense  1.500 over 2 cases" in result.stdout
    assert "1 of 4  few, seed 1" in result.stderr and "4 of 4  own, seed 2" in result.stderr
    found = json.loads((tmp_path / "a.json").read_text())
    cases = [(one["shape"]["name"], one["seed"]) for one in found["cases"]]
    assert cases == [("few", 1), ("few", 2), ("own", 1), ("own", 2)]
    assert found["cases"][0]["results"][0]["round_medians_ms"] == [1.0] * 3
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_wrong_provider_ends_in_1_and_has_no_time(bench, tmp_path):
    wrong = OnCpu("jfagen", mistake="loses the last key")
    result = bench("--shapes", "own", "--json", tmp_path / "a.json", providers=[wrong])
    assert result.exit_code == 1
    assert "WRONG" in result.stdout and "jfagen WRONG: out of sequence" in result.stdout
    (one,) = json.loads((tmp_path / "a.json").read_text())["cases"][0]["results"]
    assert one["status"] == "WRONG" and one["ms"] is None and one["error"] > one["tolerance"]


def test_a_run_that_is_broken_off_writes_what_it_has(bench, tmp_path):
    broken = OnCpu("jfagen", error=KeyboardInterrupt(), after=30)
    result = bench("--json", tmp_path / "a.json", "--rounds", "8", providers=[broken])
    assert result.exit_code == 1 and "broken off at own, seed 1: interrupted" in result.stderr
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["broken_off"].startswith("own") and len(found["cases"]) == 1


def test_if_no_provider_is_here_that_is_said(bench, monkeypatch):
    absent = OnCpu("fa4")
    monkeypatch.setattr(absent, "available", lambda: "`flash_attn` is not installed")
    result = bench(providers=[absent])
    assert result.exit_code == 2 and not result.stdout
    assert "fa4: `flash_attn` is not installed" in result.stderr


@pytest.mark.parametrize("cuda", [None, "13.0"])
def test_without_a_gpu_there_is_one_reason_and_a_help(monkeypatch, cuda):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = call()
    assert result.exit_code == 2 and not result.stdout
    error, help = result.stderr.splitlines()
    assert error.startswith("error: nothing can be measured here: torch ")
    assert ("without CUDA" in error) is (cuda is None) and help.startswith("help: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shapes", "dense-9k"], "there is no shape `dense-9k`\nhelp: did you mean `dense-8k`?"),
        (["--providers", "fa3"], "there is no provider `fa3`\nhelp: did you mean `fa4`?"),
        (["--providers", ","], "no provider is named"),
        (["--seeds", "1,x"], "seeds `1,x` are no whole numbers"),
        (["--seeds", str(2**63)], f"the seed {2**63} is more than"),
        (["--json", "nowhere/a.json"], "`nowhere/a.json` cannot be written"),
        (["--png", "."], "`.` cannot be written: it is a folder"),
        (["--rounds", "0"], "--rounds"),
        (["--pass", "sideways"], "sideways"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_call_is_refused_before_anything_is_measured(arguments, words, monkeypatch):
    monkeypatch.setattr(command, "_why_no_gpu", lambda: pytest.fail("measures"))
    result = call(*arguments)
    assert result.exit_code == 2 and not result.stdout and words in result.stderr


def test_the_list_names_all_shapes_and_providers_and_what_is_missing():
    result = call("--list")
    assert result.exit_code == 0 and not result.stderr
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line}
    assert {shape.name for shape in SHAPES} <= set(rows)
    assert {one.name for one in command.PROVIDERS} <= set(rows)
    assert "512   1024   0.5" in rows["bq-512-1k-s50"]
    assert "not installed" in rows["fa4"] or "available" in rows["fa4"]


def test_names_may_be_patterns():
    chosen = command.chosen("shape", "dense-*,bq-256*", {one.name: one for one in SHAPES})
    assert [one.name for one in chosen] == ["bq-256-1k-s50", "dense-1k", "dense-8k", "dense-b4"]
