"""The host part of a kernel on a CPU: what it launches is kept, not run."""

from __future__ import annotations

import inspect

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from jfagen.kernels import BACKWARDS


class Recorder:
    """Stands for a launcher: keeps grid and arguments."""

    def __init__(self):
        self.launched = []

    def __getitem__(self, grid):
        return lambda *args, **options: self.launched.append((grid, args))


def recorded(module, wanted):
    """Run a host part on the CPU; return what it launches, and the descriptors among it."""
    names = [name for name in vars(module) if name.startswith(module.KERNEL)]
    recorder = Recorder()
    vars(module).update(dict.fromkeys(names, recorder))
    rows = torch.zeros(9, 2, wanted.head_dim, dtype=wanted.dtype)
    offsets = [torch.tensor([0, 5, 9])] * (2 if wanted.jagged else 1)
    q = rows if wanted.jagged else rows[:4]
    if wanted.schedule in BACKWARDS.values():
        shape, log = (q.shape, (9, 2)) if wanted.jagged else ((2, *q.shape), (2, 2, 4))
        out = torch.zeros(shape, dtype=wanted.dtype)
        given = (out, q, rows, rows, out, torch.zeros(log), *offsets)
    else:
        given = (q, rows, rows, *offsets)
    host = host_of(module)
    persistent = "sms" in inspect.signature(host).parameters
    host(*given, scale=1.0, **({"sms": 3} if persistent else {}))
    found = [args for _, args in recorder.launched]
    return found, [x for args in found for x in args if isinstance(x, TensorDescriptor)]


def host_of(module):
    """The function that a user calls."""
    return module.backward if hasattr(module, "backward") else module.forward
