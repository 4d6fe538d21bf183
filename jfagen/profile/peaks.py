"""What a GPU could do at most: dense 16-bit matmuls at its highest clock, and its memory."""

from __future__ import annotations

from typing import Any

from ..nvidia_smi import read_gpus
from .records import Gpu

#: Dense bf16 or fp16 operations of one SM in a cycle, a multiply and an add counted as two:
#: 4 tensor cores with 512 multiply-adds each (NVIDIA H100 Tensor Core GPU Architecture, "H100 SM");
#: Blackwell's do twice as many (datasheets: 989 TFLOP/s of 132 SMs at 1,830 MHz, 2,250 of 148 at
#: 1,850 MHz).
FLOPS_A_CYCLE = {(9, 0): 4096, (10, 0): 8192}


def gpu_of(facts: dict[str, Any]) -> Gpu:
    """Return the GPU that the process on it has described."""
    capability = (facts["capability"][0], facts["capability"][1])
    sms, bandwidth = facts["sms"], facts["memory_bytes_per_second"]
    megahertz = _highest_clock(facts["uuid"])
    per_cycle = FLOPS_A_CYCLE.get(capability)
    words, flops = "the peak of matmuls is not known", None
    if megahertz is not None and per_cycle is not None:
        flops = sms * per_cycle * megahertz * 1e6
        words = f"{sms} SMs x {per_cycle:,} FLOP a cycle x {megahertz:,.0f} MHz"
        words = f"{flops / 1e12:,.0f} TFLOP/s ({words})"
    if bandwidth is not None:
        words += f", {bandwidth / 1e9:,.0f} GB/s (memory clock and width)"
    return Gpu(
        name=facts["name"],
        capability=capability,
        sms=sms,
        flops_per_second=flops,
        bytes_per_second=bandwidth,
        peak_words=words,
        versions=facts["versions"],
    )


def _highest_clock(uuid: str) -> float | None:
    """Return the highest clock of the SMs in MHz; None where the driver's tool does not answer."""
    found = read_gpus(f"GPU-{uuid}") if uuid else ()
    return found[0].sm_max_mhz if found else None
