"""Which generated kernel computes what, and its module."""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import torch

from ..kernels import BACKWARDS, FORWARDS, kernel_name
from ..paths import data_dir

_TYPES = {torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a kernel has to compute.

    Attributes:
        schedule: that makes it, below `schedules/` without suffix.
        jagged: packed queries, or one q for all sequences.
        head_dim: elements of a head.
        dtype: of q, k and v.
    """

    schedule: str
    jagged: bool
    head_dim: int
    dtype: torch.dtype

    @property
    def name(self) -> str:
        """Return the name of its file below `generated/`, without suffix."""
        return kernel_name(
            self.schedule,
            jagged=self.jagged,
            head_dim=self.head_dim,
            dtype=_TYPES[self.dtype],
        )


def forward_schedule(device: torch.device) -> str | None:
    """Return the schedule whose kernels run on a device; None where only the reference does."""
    capability = _capability_of(device)
    return None if capability is None else FORWARDS.get(capability)


def backward_schedule(device: torch.device) -> str | None:
    """Return the schedule whose kernels sum gradients on a device; None for the reference.

    Raises:
        NotImplementedError: the device's forward is a kernel, but its backward is not built.
    """
    capability = _capability_of(device)
    if capability is None or capability in BACKWARDS or capability not in FORWARDS:
        return None if capability is None else BACKWARDS.get(capability)
    raise NotImplementedError(
        f"the backward of jfagen.attention has no kernel for compute capability "
        f"{'.'.join(map(str, capability))} yet; call it under torch.no_grad(), or use "
        "jfagen.runtime.reference.reference, which torch differentiates"
    )


def _capability_of(device: torch.device) -> tuple[int, int] | None:
    """Return the compute capability of a GPU; None for another device."""
    if device.type != "cuda":
        return None
    return _capability(torch.cuda.current_device() if device.index is None else device.index)


@cache
def _capability(index: int) -> tuple[int, int]:
    major, minor = torch.cuda.get_device_capability(index)
    return major, minor


def current(device: torch.device) -> AbstractContextManager[object]:
    """Make a device the current one for what is launched inside; free where it is already."""
    if device.index is None or torch.cuda.current_device() == device.index:
        return nullcontext()
    guard: AbstractContextManager[object] = torch.cuda.device(device)
    return guard


@cache
def load(wanted: Wanted) -> ModuleType:
    """Return the module of a generated kernel.

    Raises:
        ValueError: there is no such kernel; the message says which schedule would make it.
        ImportError: Triton with TLX is missing or broken.
    """
    path = data_dir("generated") / f"{wanted.name}.py"
    if not path.is_file():
        mode = "jagged" if wanted.jagged else "broadcast"
        said = f"head_dim {wanted.head_dim}, dtype {_TYPES[wanted.dtype]}, q {mode}"
        built = sorted(
            found.stem for found in path.parent.glob(f"{wanted.schedule.rsplit('/', 1)[-1]}*.py")
        )
        raise ValueError(
            f"no kernel for {said}: `schedules/{wanted.schedule}.sched` would make it, if its "
            f"problem offered these values; built are {', '.join(built)}"
        )
    spec = importlib.util.spec_from_file_location(f"jfagen_kernels.{path.stem}_{_id(wanted)}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        from .launch import use_launchers

        spec.loader.exec_module(module)
    except ImportError as error:
        raise ImportError(
            f"the kernel `{path.name}` needs Triton with TLX ({error}); `jfagen doctor` says how "
            "to install it"
        ) from error
    use_launchers(module)
    return module


def _id(wanted: Wanted) -> str:
    return wanted.schedule.replace("/", "_")
