"""Progress bars on standard error: in a terminal, and in a notebook tqdm's own; nowhere else."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, TextIO

from tqdm import tqdm


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
