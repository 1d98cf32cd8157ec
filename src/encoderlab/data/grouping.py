"""Items in lists of limited size, so that only a list at a time is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def grouped(
    items: Iterable[Item], size_of: Callable[[Item], int], largest: int, most: int | None = None
) -> Iterator[list[Item]]:
    """Yield the items in lists. A list ends with the item that brings its total size to `largest`, or with the
    `most`th.
    """
    group: list[Item] = []
    size = 0
    for item in items:
        group.append(item)
        size += size_of(item)
        if size >= largest or len(group) == most:
            yield group
            group, size = [], 0
    if group:
        yield group
