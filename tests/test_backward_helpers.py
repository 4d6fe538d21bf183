"""The small kernels beside the backward: they compile for their targets."""

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
target = GPUTarget("cuda", {"sm_100a": 100, "sm_90a": 90}[module.TARGET], 32)
kinds = {"scale": "fp32", "HAS_DLSE": "constexpr"}
kinds |= dict.fromkeys(("out", "dout", "dq"), "*bf16")
kinds |= dict.fromkeys(("lse", "dlse", "lse_rows", "delta_rows", "dq_sum"), "*fp32")
kinds |= dict.fromkeys(("row_sequences", "q_offsets"), "*i32")
kinds |= dict.fromkeys(("queries", "heads", "blocks", "rows"), "i32")


def build(name, constants):
    function = getattr(module, f"{module.KERNEL}_{name}")
    signature = {argument: kinds[argument] for argument in function.arg_names}
    source = ASTSource(function, signature, constexprs=constants)
    print(name, len(triton.compile(source, target=target).asm["cubin"]) > 0)


for flag in (True, False):
    build("preprocess", {"HAS_DLSE": flag})
build("postprocess", {})
"""


@pytest.mark.parametrize("name", ["bwd", "bwd_jagged", "hopper/bwd", "hopper/bwd_jagged_d64"])
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
