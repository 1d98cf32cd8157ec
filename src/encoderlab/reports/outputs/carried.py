"""Columns of the input that are copied to the output, such as an id."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, time
from typing import Any


def carried_names(names: Iterable[str], ours: Iterable[str]) -> dict[str, str]:
    """Return the output name of each carried column: its own, or prefixed with input_ if it is among `ours`."""
    taken, found = set(ours), {}
    for name in names:
        free = name
        while free in taken:
            free = f"input_{free}"
        taken.add(free)
        found[name] = free
    return found


def cell(value: Any) -> str | int | float:
    """Return a carried value as a table cell; None is an empty one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, str | int | float):
        return "" if value is None else value
    return in_json(value)


def in_json(value: Any) -> Any:
    """Return a carried value for JSON: times in ISO 8601, other objects as they print."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if isinstance(value, date | time) else str(value)
