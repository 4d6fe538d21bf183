"""What the device found wrong with offsets is said where its trap is noticed, or at the end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jfagen.runtime import complaint
from jfagen.runtime.complaint import device_errors, word


@pytest.fixture
def written():
    """Write into the word as a kernel does."""
    yield lambda whose, sequence: word().fill_((whose << 32) + sequence)
    word().zero_()


def failing(error):
    with device_errors():
        raise error


def test_an_error_of_the_device_names_the_sequence(written):
    trap = RuntimeError("Triton Error [CUDA]: unspecified launch failure")
    with pytest.raises(RuntimeError, match="unspecified launch failure"):
        failing(trap)
    written(2, 2**31 - 1)
    with pytest.raises(RuntimeError, match=r"^q_offsets are wrong at sequence 2147483647$") as said:
        failing(trap)
    assert said.value.__cause__ is trap
    written(1, 0)
    with pytest.raises(ValueError, match="another"):
        failing(ValueError("another"))
    with pytest.raises(RuntimeError, match=r"^kv_offsets are wrong at sequence 0$"):
        failing(trap)


def test_nothing_is_said_of_what_no_kernel_wrote(written):
    assert complaint.complaint() == ""
    written(0, 7)
    assert complaint.complaint() == ""


@pytest.mark.parametrize("noticed", [False, True])
def test_the_end_of_a_process_says_what_nobody_has_said(noticed):
    program = (
        "from jfagen.runtime.complaint import device_errors, word\n"
        "word().fill_((1 << 32) + 3)\n"
        f"if {noticed}:\n"
        "    with device_errors():\n"
        "        raise RuntimeError('trap')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.count("kv_offsets are wrong at sequence 3\n") == 1
    assert done.stderr.endswith("kv_offsets are wrong at sequence 3\n") and not done.stdout
    assert ("jfagen: kv" in done.stderr) is not noticed
