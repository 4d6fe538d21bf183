"""`jfagen doctor`: what facts mean, and that the facts of this install are found."""

from __future__ import annotations

import base64
import hashlib
import importlib
import importlib.metadata
import json
import sys
from dataclasses import replace

import pytest
from builders import ROOT
from typer.testing import CliRunner

from jfagen.cli import app
from jfagen.cli import doctor as command
from jfagen.doctor import Facts, Gpu, Install, Level, Program, Requirement, Torch, gather, judge
from jfagen.doctor.gather import PROGRAMS, compare_files, probe, program, requirements, torch_facts
from jfagen.doctor.judge import TESTED_FBTRITON
from jfagen.kernels import GeneratedKernel, fits, generated_kernels
from jfagen.nvidia_smi import Reading

#: The package has a function of that name.
gathering = importlib.import_module("jfagen.doctor.gather")
B200 = Gpu(name="NVIDIA B200", capability=(10, 0), sms=148)
H200 = Gpu(name="NVIDIA H200", capability=(9, 0), sms=132)
READING = Reading(
    name="NVIDIA B200", driver="580.1", sm_mhz=345.0, sm_max_mhz=1965.0, power_w=140.0,
    power_limit_w=1000.0, temperature_c=33.0,
)  # fmt: skip
WHOLE = Facts(
    python=(3, 11, 7),
    jfagen="0.1.0",
    requirements=[Requirement(name="lark", floor="1.3", below="2", installed="1.3.1")],
    install=Install(fbtriton=TESTED_FBTRITON, triton=None),
    programs=[Program(name=name, version="13.1.80") for name in PROGRAMS],
    torch=Torch(version="2.13.0", cuda="13.0", gpus=(B200,)),
    readings=[READING],
    kernels=[GeneratedKernel(name="fwd", target="sm_100a")],
)
NO_GPU = replace(WHOLE, torch=Torch(version="2.13.0+cpu"), readings=[])


def not_ok(facts):
    """The lines that are not fine, by subject."""
    return {line.subject: line for line in judge(facts) if line.level is not Level.OK}


# ---- Judgement ----------------------------------------------------------------------------------


def test_a_whole_install_is_fine_and_every_fact_has_a_line():
    lines = judge(WHOLE)
    assert not_ok(WHOLE) == {}
    subjects = [line.subject for line in lines]
    assert subjects == ["python", "torch", "toolchain", "tlx", *PROGRAMS, "lark", "gpu", "kernels"]
    gpu = next(line for line in lines if line.subject == "gpu").message
    assert gpu == "NVIDIA B200, sm_100, 148 SMs, driver 580.1, power limit 1000 W"


def test_a_missing_gpu_is_a_warning_only():
    assert {name: line.level for name, line in not_ok(NO_GPU).items()} == {"gpu": Level.WARNING}


@pytest.mark.parametrize(
    ("change", "subject", "level", "message", "help"),
    [
        ({"python": (3, 10, 2)}, "python", "wrong", "3.10.2, at least 3.11", "Python 3.11"),
        ({"torch": Torch(version=None)}, "torch", "wrong", "not installed", "torch==2.13.0"),
        (
            {"torch": Torch(version=None, error="OSError: libtorch.so")},
            "torch", "wrong", "OSError: libtorch.so", "torch==2.13.0",
        ),
        (
            {"torch": Torch(version="2.13.0", cuda="13.0", error="RuntimeError: driver too old")},
            "torch", "wrong", "driver too old", "nvidia-smi",
        ),
        (
            {"torch": Torch(version="2.13.0+cpu")},
            "torch", "wrong", "there is a GPU (NVIDIA B200)", "CUDA build",
        ),
        (
            {"torch": Torch(version="2.13.0", cuda="13.0")},
            "gpu", "wrong", "the driver shows NVIDIA B200, torch sees none", "CUDA_VISIBLE_DEVICES",
        ),
        (
            {"install": Install(fbtriton=None, triton=None, tlx_error="no module")},
            "toolchain", "wrong", "no `triton` module", "fbtriton==3.7.4",
        ),
        (
            {"install": Install(fbtriton=None, triton="3.8.0")},
            "toolchain", "wrong", "stock triton 3.8.0, without fbtriton", "pip uninstall -y triton",
        ),
        (
            {"install": Install(fbtriton="3.7.4", triton="3.8.0", shared=600)},
            "toolchain", "warning", "they share 600 files, and fbtriton's are in place", "last",
        ),
        (
            {"install": Install(
                fbtriton="3.7.4", triton="3.8.0", overwritten=("triton/a.py", "triton/b.py")
            )},
            "toolchain", "wrong", "damaged by stock triton 3.8.0: 2 overwritten, `triton/a.py`",
            "pip uninstall -y triton fbtriton",
        ),
        (
            {"install": Install(fbtriton="3.7.4", triton=None, gone=("triton/a.py",))},
            "toolchain", "wrong", "are damaged: 1 gone, `triton/a.py`", "pip install fbtriton",
        ),
        (
            {"install": Install(fbtriton="3.9.0", triton=None)},
            "toolchain", "warning", "fbtriton 3.9.0, tested is 3.7.4", "fbtriton==3.7.4",
        ),
        (
            {"install": Install(fbtriton="3.7.4", triton=None, tlx_error="ImportError: x")},
            "tlx", "wrong", "cannot be imported: ImportError: x", "pip install fbtriton",
        ),
        (
            {"programs": [Program(name="ptxas-blackwell", error="there is no /a/ptxas-blackwell")]},
            "ptxas-blackwell", "wrong", "there is no /a/ptxas-blackwell", "pip install fbtriton",
        ),
        ({"requirements": None}, "packages", "warning", "not installed", "pip install -e ."),
        ({"kernels": []}, "kernels", "warning", "no generated kernel", "jfagen build fwd"),
        (
            {"torch": Torch(version="2.13.0", cuda="13.0", gpus=(H200,))},
            "kernels", "warning", "none runs on NVIDIA H200 (sm_90); there are those for sm_100a",
            "sm_90a",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)  # fmt: skip
def test_one_thing_amiss_is_one_line_with_how_to_mend_it(change, subject, level, message, help):
    found = not_ok(replace(WHOLE, **change))
    line = found.pop(subject)
    assert line.level == level and message in line.message and help in line.help
    # A missing torch takes its GPUs along, and no toolchain its TLX; nothing else is touched.
    assert set(found) <= {"gpu", "tlx"}


@pytest.mark.parametrize(
    ("floor", "below", "installed", "level"),
    [
        ("1.3", "2", "1.3", "ok"),
        ("1.3", "2", "1.3.0", "ok"),
        ("1.3", "2", "1.10", "ok"),
        ("1.3", "2", "1.2.9", "wrong"),
        ("1.3", "2", "2.0", "wrong"),
        ("1.3.0", "", "1.3", "ok"),
        ("", "2", "1.99rc1", "ok"),
        ("", "", "0.1", "ok"),
        ("1.3", "2", None, "wrong"),
    ],
)
def test_versions_are_held_against_what_is_declared(floor, below, installed, level):
    one = Requirement(name="lark", floor=floor, below=below, installed=installed)
    line = next(one for one in judge(replace(WHOLE, requirements=[one])) if one.subject == "lark")
    assert line.level == level
    if level == "wrong":
        assert line.help == "`pip install 'lark>=1.3,<2'`"


@pytest.mark.parametrize(
    ("target", "capability", "expected"),
    [
        ("sm_100a", (10, 0), True),
        ("sm_100a", (10, 3), False),
        ("sm_100f", (10, 3), True),
        ("sm_90a", (9, 0), True),
        ("sm_90a", (10, 0), False),
        ("sm_80", (8, 6), True),
        ("sm_86", (8, 0), False),
        ("sm_120a", (12, 0), True),
        ("gfx942", (9, 4), False),
    ],
)
def test_which_gpu_runs_which_target(target, capability, expected):
    assert fits(target, capability) is expected


def test_kernels_for_several_targets_are_told_apart():
    kernels = [*WHOLE.kernels, GeneratedKernel(name="hopper/fwd", target="sm_90a")]
    both = Torch(version="2.13.0", cuda="13.0", gpus=(B200, H200, H200))
    lines = judge(replace(WHOLE, torch=both, kernels=kernels))
    assert [line.message for line in lines if line.subject == "kernels"] == [
        "on NVIDIA B200: fwd",
        "on NVIDIA H200: hopper/fwd",
    ]


# ---- Facts --------------------------------------------------------------------------------------


def test_generated_kernels_are_found_by_the_target_that_they_name(tmp_path):
    (tmp_path / "ladder").mkdir()
    (tmp_path / "a.py").write_text('X = 1\nTARGET = "sm_100a"\n')
    (tmp_path / "ladder" / "b.py").write_text('TARGET = "sm_90a"\n')
    (tmp_path / "c.py").write_text('# TARGET = "sm_90a"\n')
    found = [(kernel.name, kernel.target) for kernel in generated_kernels(tmp_path)]
    assert found == [("a", "sm_100a"), ("ladder/b", "sm_90a")]
    names = {kernel.name for kernel in generated_kernels()}
    assert "fwd" in names and len(names) == len(list((ROOT / "generated").rglob("*.py")))


@pytest.fixture
def distribution(tmp_path):
    """An installed distribution of three files, as its RECORD has them."""
    contents = {"triton/a.py": b"x = 1\n", "triton/b.py": b"y = 2\n", "triton/c.so": b"\0" * 9}
    rows = []
    for name, content in contents.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        rows.append(f"{name},sha256={digest},{len(content)}")
    info = tmp_path / "fbtriton-3.7.4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fbtriton\nVersion: 3.7.4\n")
    (info / "RECORD").write_text("\n".join([*rows, "fbtriton-3.7.4.dist-info/RECORD,,"]) + "\n")
    return importlib.metadata.Distribution.at(info)


def compared(distribution):
    return compare_files(distribution.files)


def test_files_that_are_gone_or_overwritten_are_found(distribution, tmp_path):
    assert compared(distribution) == ((), ())
    (tmp_path / "triton" / "a.py").write_bytes(b"x = 7\n")
    assert compared(distribution) == ((), ("triton/a.py",))
    (tmp_path / "triton" / "c.so").write_bytes(b"\0" * 8)
    assert compared(distribution) == ((), ("triton/a.py", "triton/c.so"))
    (tmp_path / "triton" / "b.py").unlink()
    assert compared(distribution) == (("triton/b.py",), ("triton/a.py", "triton/c.so"))


def test_both_distributions_of_triton_are_looked_at(distribution, monkeypatch):
    files = {"fbtriton": distribution.files, "triton": distribution.files[:2]}
    monkeypatch.setattr(gathering, "_files", lambda name: list(files[name]))
    monkeypatch.setattr(gathering, "_version", {"fbtriton": "3.7.4", "triton": "3.8.0"}.get)
    found = gathering.install(tlx_error="")
    assert (found.fbtriton, found.triton, found.shared) == ("3.7.4", "3.8.0", 2)
    assert not found.gone and not found.overwritten


def test_requirements_are_read_without_extras(monkeypatch):
    declared = ["lark<2,>=1.3", "rich>=13.9", "pytest>=9; extra == 'dev'", "nosuch[x] (>=1)", "a"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: declared)
    found = {one.name: one for one in requirements()}
    assert list(found) == ["lark", "rich", "nosuch", "a"]
    assert (found["lark"].floor, found["lark"].below) == ("1.3", "2")
    assert found["lark"].installed == importlib.metadata.version("lark")
    assert (found["nosuch"].floor, found["nosuch"].installed) == ("1", None)
    assert (found["a"].floor, found["a"].below) == ("", "")


def test_without_a_distribution_requirements_are_not_known():
    assert requirements("no-such-distribution") is None


def test_programs_run_or_say_why_not(monkeypatch, tmp_path):
    for name in PROGRAMS:
        assert program(name).version[0].isdigit() and not program(name).error
    assert "there is no" in program("nosuch").error
    monkeypatch.setattr(gathering, "_BINARIES", tmp_path)
    (tmp_path / "ptxas").write_text("not a program")
    assert "does not run: PermissionError" in program("ptxas").error


def test_the_probe_imports_torch_and_tlx_elsewhere():
    before = set(sys.modules)
    found = probe()
    assert found["tlx_error"] == ""
    installed = importlib.metadata.version("torch")
    assert torch_facts(found["torch"]).version.split("+")[0] == installed.split("+")[0]
    assert set(sys.modules) == before


def test_an_import_that_ends_the_process_is_a_fact(monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("import os; os._exit(9)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    found = probe()
    assert found["tlx_error"] == "the import ended the process with 9"
    assert torch_facts(found["torch"]).error == found["tlx_error"]


def test_an_import_that_raises_is_a_fact(monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libcuda.so.1: cannot open\\nmore')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    facts = torch_facts(probe()["torch"])
    assert (facts.version, facts.error) == (None, "OSError: libcuda.so.1: cannot open")


def test_gpus_of_the_probe_are_read():
    found = {"version": "2.13.0", "cuda": "13.0", "gpus": [["NVIDIA B200", 10, 0, 148]]}
    assert torch_facts(found) == Torch(version="2.13.0", cuda="13.0", gpus=(B200,))


# ---- The command --------------------------------------------------------------------------------


def call(*arguments):
    return CliRunner().invoke(app, ["doctor", *arguments])


def test_this_install_is_whole():
    wrong = [line for line in judge(gather()) if line.level is Level.WRONG]
    assert wrong == []


@pytest.mark.parametrize(
    ("facts", "code", "word"),
    [
        (WHOLE, 0, "nothing wrong"),
        (NO_GPU, 0, "nothing wrong, 1 to be aware of"),
        (replace(NO_GPU, python=(3, 9, 0)), 1, "1 wrong, 1 to be aware of"),
    ],
    ids=("whole", "no gpu", "wrong"),
)
def test_the_exit_code_tells_whether_something_is_wrong(monkeypatch, facts, code, word):
    monkeypatch.setattr(command, "gather", lambda: facts)
    result = call()
    assert result.exit_code == code and result.stdout.splitlines()[-1] == word
    assert "\x1b" not in result.stdout
    found = json.loads(call("--format", "json").stdout)
    assert (found["schema"], found["schema_version"]) == ("jfagen-doctor", 1)
    assert found["ok"] is (code == 0)
    assert {line["level"] for line in found["lines"]} <= {"ok", "warning", "wrong"}
    assert len(found["lines"]) == len(judge(facts))
    assert call("--format", "json").exit_code == code


def test_the_doctor_as_it_is_printed(monkeypatch, golden):
    install = Install(fbtriton="3.7.4", triton="3.8.0", overwritten=("triton/__init__.py",))
    monkeypatch.setattr(command, "gather", lambda: replace(NO_GPU, install=install))
    golden.check(call().stdout)
