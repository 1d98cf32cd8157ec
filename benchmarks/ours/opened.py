"""The time of a command once its model is open."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from encoderlab.runs.models.assembly import reopen


def seconds_once_open(command: Callable[[Any], object], config: Any) -> float:
    """Return the seconds of the whole command, minus those of opening its model again."""
    started = time.perf_counter()
    command(config)
    opened = time.perf_counter()
    reopen(config)
    return (opened - started) - (time.perf_counter() - opened)
