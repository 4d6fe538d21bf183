"""The small kernels beside the backward: they compile for B200."""

from __future__ import annotations

import subprocess
import sys

import pytest
from builders import ROOT

PROGRAM = """
import importlib.util, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

spec = importlib.util.spec_from_file_location("kernel", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
target = GPUTarget("cuda", 100, 32)
wide, kind = "*fp32", "*bf16"


def build(name, signature, constants):
    function = getattr(module, f"{module.KERNEL}_{name}")
    whole = dict(zip(function.arg_names, signature, strict=True))
    source = ASTSource(function, whole, constexprs=constants)
    print(name, len(triton.compile(source, target=target).asm["cubin"]) > 0)


jagged = "q_offsets" in module.SIGNATURE
counts = ["*i32", "*i32", "i32", "i32"] if jagged else ["i32", "i32", "i32"]
for flag in (True, False):
    signature = [kind, kind, wide, wide, wide, wide, *counts, "constexpr"]
    build("preprocess", signature, {"HAS_DLSE": flag})
build("postprocess", [wide, kind, "i32", "fp32"], {})
"""


@pytest.mark.parametrize("name", ["bwd", "bwd_jagged"])
def test_the_kernels_before_and_after_compile_for_the_target(name):
    """In a process of its own: an assertion of the toolchain would end this one."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT / "generated" / f"{name}.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n")[:3] == ["preprocess True", "preprocess True", "postprocess True"]
