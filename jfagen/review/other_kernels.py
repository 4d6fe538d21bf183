"""A comparison of two kernels, with what is to be said of the other ones."""

from __future__ import annotations

from dataclasses import replace

from .changes import Change, Comparison, Part
from .facts import Facts, settings_of
from .versions import Chosen, Kernel


def as_offered(same: Facts, kernel: Kernel, title: str) -> Facts:
    """Return the facts of a kernel of another text that makes the same one, beside others."""
    return replace(
        same,
        title=title,
        settings=settings_of(kernel.program, kernel.instance.offered),
        kernels=kernel.instance.kernels,
    )


def with_others(found: Comparison, chosen: Chosen) -> Comparison:
    """Return a comparison that says which kernel it is of, and how it is with the others."""
    changes = found.changes
    if chosen.first:
        words = " -> ".join(f"that with {one}" for one in chosen.first)
        changes = (Change(part=Part.KERNEL, name="first kernel", words=words), *changes)
    return replace(
        found,
        changes=changes,
        compared=chosen.compared,
        also_changed=chosen.also_changed,
        new_kernels=chosen.new_kernels,
        gone_kernels=chosen.gone_kernels,
    )
