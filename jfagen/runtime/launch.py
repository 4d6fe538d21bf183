"""Launches that cost the host little: what Triton checks and binds at every call, done once.

A short kernel runs for less time than its launch through Triton's binder takes. A launcher binds
once for each kind of arguments and calls the compiled kernel from then on; descriptors are made
without Triton's checks, since the runtime has checked their tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from .arguments import MOST_KERNEL_ROWS, MOST_ROWS

#: What Triton looks at when it specialises a pointer or a whole number on divisibility.
_DIVISOR = 16
#: The extent of the two dimensions that a ragged descriptor has before its rows
#: (`triton.tools.ragged_tma`).
_RAGGED_EXTENT = 0x7FFF0000


class Launcher:
    """Launches a `@triton.jit` kernel as `kernel[grid](...)` does, all arguments by position.

    After the first launch with one kind of arguments, changes of Triton's debug settings, of
    global values and of hooks before a run are not looked at; hooks around a launch are called.
    """

    def __init__(self, kernel: triton.JITFunction[Any]) -> None:
        """Remember the kernel; nothing is compiled yet."""
        self._kernel = kernel
        self._constant = [parameter.is_constexpr for parameter in kernel.params]
        self._plain = [parameter.do_not_specialize for parameter in kernel.params]
        self._loose = [parameter.do_not_specialize_on_alignment for parameter in kernel.params]
        self._compiled: dict[tuple[object, ...], Any] = {}

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        """Return what launches the kernel on a grid, on the current device and stream."""
        return partial(self._launch, grid)

    def _launch(self, grid: tuple[int, ...], *args: Any, **options: Any) -> None:  # noqa: ANN401
        kinds = map(_kind, args, self._constant, self._plain, self._loose)
        key = (torch.cuda.current_device(), *kinds, *options.items())
        compiled = self._compiled.get(key)
        if compiled is None:
            assert len(args) == len(self._constant), "every argument by position"
            self._compiled[key] = self._kernel[grid](*args, **options)
        else:
            compiled[(*grid, 1, 1)[:3]](*args)


def _kind(argument: Any, constant: bool, plain: bool, loose: bool) -> object:  # noqa: ANN401
    """Return all that a compiled kernel knows of an argument."""
    if constant:
        return argument
    if isinstance(argument, torch.Tensor):
        return argument.dtype, plain or loose or argument.data_ptr() % _DIVISOR == 0
    if isinstance(argument, int) and not isinstance(argument, bool):
        wide = not -MOST_ROWS - 1 <= argument <= MOST_ROWS
        return wide if plain else (wide, argument == 1, not loose and argument % _DIVISOR == 0)
    if isinstance(argument, TensorDescriptor):
        return argument.base.dtype, tuple(argument.block_shape)
    return type(argument)


def launcher(kernel: Any) -> Any:  # noqa: ANN401
    """Return what launches a kernel: itself where Triton interprets it."""
    return Launcher(kernel) if isinstance(kernel, triton.JITFunction) else kernel


def use_launchers(module: ModuleType) -> None:
    """Let a generated kernel's host part use launchers and descriptors of this file.

    What runs before and after the kernel has its name with an ending, and is launched likewise.
    """
    kernels = [name for name in vars(module) if name.startswith(module.KERNEL)]
    here = {
        **{name: launcher(getattr(module, name)) for name in kernels},
        "create_ragged_descriptor": _ragged_descriptor,
        "TensorDescriptor": SimpleNamespace(from_tensor=_from_tensor),
    }
    vars(module).update(here)


def _descriptor(
    base: torch.Tensor, shape: list[int], strides: list[int], block_shape: list[int]
) -> TensorDescriptor:
    made = object.__new__(TensorDescriptor)
    made.base, made.shape, made.strides, made.block_shape = base, shape, strides, block_shape
    made.padding, made.round_f32_to_tf32 = "zero", False
    return made


def _from_tensor(tensor: torch.Tensor, block_shape: list[int]) -> TensorDescriptor:
    return _descriptor(tensor, list(tensor.shape), list(tensor.stride()), block_shape)


def _ragged_descriptor(
    rows: torch.Tensor, block_shape: list[int], ragged_dim: int = 0
) -> TensorDescriptor:
    """Return a descriptor of packed rows, [T, width], that clips at the end of each sequence.

    With heads as a dimension of their own it is [heads, T, elements], and `ragged_dim` is 1.
    """
    shape, strides = list(rows.shape), list(rows.stride())
    stride, shape[ragged_dim] = strides[ragged_dim], MOST_KERNEL_ROWS
    return _descriptor(
        rows,
        [_RAGGED_EXTENT, _RAGGED_EXTENT, *shape],
        [2**34 - stride, stride, *strides],
        [1, 1, *block_shape],
    )
