"""The GPU that measures: its clock, its facts, and why there is none."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..nvidia_smi import Reading, read_gpus
from .interleave import Call
from .records import Lap
from .session import Stand

_DISTRIBUTIONS = ("fbtriton", "triton", "flash-attn-4", "nvidia-cutlass-dsl", "jfagen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What stands at the head of a report; `l2_bytes` in bytes, `memory_bytes` too."""

    name: str
    capability: tuple[int, int]
    sms: int
    l2_bytes: int
    memory_bytes: int
    uuid: str

    def reading(self) -> Reading | None:
        """Return clocks and power now; None where the driver's tool does not answer."""
        found = read_gpus(f"GPU-{self.uuid}") if self.uuid else ()
        return found[0] if found else None


class EventClock:
    """CUDA events around every call; the device is waited for once a burst."""

    def burst(self, lead: Call, calls: Sequence[Call]) -> tuple[Lap, ...]:
        """Return a lap for each of the calls, queued behind an untimed one."""
        timed = []
        lead()
        for call in calls:
            start = torch.cuda.Event(enable_timing=True)
            stop = torch.cuda.Event(enable_timing=True)
            began = time.perf_counter()
            start.record()
            call()
            stop.record()
            timed.append((start, stop, (time.perf_counter() - began) * 1e3))
        torch.cuda.synchronize()
        return tuple(
            Lap(device_ms=float(start.elapsed_time(stop)), host_ms=host)
            for start, stop, host in timed
        )


def why_no_gpu() -> str | None:
    """Return why nothing can be measured here, None if something can."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "torch sees no GPU: there is none, or no driver for it"
    return None


def this_device() -> Device:
    """Return the facts of torch's current GPU."""
    facts = torch.cuda.get_device_properties(torch.cuda.current_device())
    return Device(
        name=str(facts.name),
        capability=(int(facts.major), int(facts.minor)),
        sms=int(facts.multi_processor_count),
        l2_bytes=int(facts.L2_cache_size),
        memory_bytes=int(facts.total_memory),
        uuid=str(getattr(facts, "uuid", "")),
    )


def cuda_stand(device: Device, *, rounds: int) -> Stand:
    """Return the stand on torch's current GPU."""

    def release() -> None:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    return Stand(
        device="cuda",
        clock=EventClock(),
        l2_bytes=device.l2_bytes,
        capability=device.capability,
        free_bytes=lambda: int(torch.cuda.mem_get_info()[0]),
        release=release,
        rounds=rounds,
    )


def versions() -> dict[str, str]:
    """Return the versions of what takes part, those that are installed."""
    found = {"python": platform.python_version(), "torch": str(torch.__version__)}
    if torch.version.cuda is not None:
        found["CUDA"] = str(torch.version.cuda)
    if torch.backends.cudnn.is_available():
        found["cuDNN"] = str(torch.backends.cudnn.version())
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
