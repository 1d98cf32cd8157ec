"""What a user reads on standard error while a command works: lines, and progress bars.

Bars are drawn in a terminal, and in a notebook by tqdm's own; nowhere else.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from typing import Any, TextIO

from tqdm import tqdm


def say(line: str) -> None:
    """Print a line."""
    print(f"encoderlab: {line}", file=sys.stderr)


def print_lines(*lines: str) -> None:
    """Print each of the lines, with a capital letter."""
    for line in lines:
        print(line[:1].upper() + line[1:], file=sys.stderr)


@cache
def say_once(line: str) -> None:
    """Print a line, unless this process has printed it before: a file may be read several times."""
    say(line)


def progress_bar(description: str, unit: str, total: int | None = None, **options: Any) -> tqdm[Any]:
    """Return a progress bar of `total` units; `options` are tqdm's."""
    options |= {"desc": description, "unit": f" {unit}", "total": total}
    if is_notebook(sys.stderr):
        with suppress(ImportError):  # ipywidgets, which draws it; without it there is no bar
            from tqdm.notebook import tqdm as notebook_bar

            return notebook_bar(disable=False, **options)
    return tqdm(file=sys.stderr, disable=None, dynamic_ncols=True, **options)


def is_notebook(file: TextIO) -> bool:
    """Return whether `file` prints into the cells of a notebook, as the streams of its kernel do."""
    return type(file).__module__.partition(".")[0] == "ipykernel"
