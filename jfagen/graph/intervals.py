"""Shelves: which intervals fit side by side."""

from __future__ import annotations


def first_fit(widths: list[tuple[str, int]], room: int) -> list[list[str]]:
    """Return names on shelves of width `room`, each on the first shelf that still has room.

    Every item is aligned to its own width, as the TMEM allocator of the toolchain does.
    """
    shelves: list[tuple[list[str], int]] = []
    for name, width in widths:
        for index, (names, used) in enumerate(shelves):
            start = -(-used // width) * width
            if start + width <= room:
                shelves[index] = ([*names, name], start + width)
                break
        else:
            shelves.append(([name], width))
    return [names for names, _ in shelves]
