"""What a user reads on standard error while a command works: lines, and progress bars.

Bars are drawn in a terminal, and in a notebook by tqdm's own; elsewhere long work says in a line now and then how far
it is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any, TextIO

from tqdm import tqdm

FIRST_SECONDS = 10.0  # after which long work says for the first time how far it is, where no bar is drawn
SECONDS = 30.0  # between such lines


_unsaid: ContextVar[bool] = ContextVar("unsaid", default=False)


def say(line: str) -> None:
    """Print a line, unless it is to stay `unsaid`."""
    if not _unsaid.get():
        _print_line(line)


@contextmanager
def unsaid() -> Iterator[None]:
    """Say nothing within this context: of rows that a run has read before, it was said when they were."""
    token = _unsaid.set(True)
    try:
        yield
    finally:
        _unsaid.reset(token)


def _print_line(line: str) -> None:
    print(f"encoderlab: {as_named(line)}", file=sys.stderr)


_NAMES: dict[str, str] = {}  # of files that users know by another name than their path


def name_file(path: str, name: str) -> None:
    """Let messages name the file at `path` as its user does, such as a pipe, of which a copy is read."""
    _NAMES[path] = name


def as_named(text: str) -> str:
    """Return a text with the files that it mentions as their users name them."""
    for path, name in _NAMES.items():
        text = text.replace(path, name)
    return text


def print_lines(*lines: str) -> None:
    """Print each of the lines, with a capital letter."""
    for line in lines:
        print(line[:1].upper() + line[1:], file=sys.stderr)


def say_once(line: str) -> None:
    """Print a line, unless this process has printed it before: a file may be read several times."""
    if not _unsaid.get():
        _print_once(line)


@cache
def _print_once(line: str) -> None:
    _print_line(line)


def progress_bar(description: str, unit: str, total: int | None = None, **options: Any) -> tqdm[Any]:
    """Return a progress bar of `total` units; `options` are tqdm's."""
    options |= {"desc": description, "unit": f" {unit}", "total": total}
    if is_notebook(sys.stderr):
        with suppress(ImportError):  # ipywidgets, which draws it; without it there is no bar
            from tqdm.notebook import tqdm as notebook_bar

            return notebook_bar(disable=False, **options)
    return tqdm(file=sys.stderr, disable=None, dynamic_ncols=True, **options)


class RowsDone:
    """How many of `total` rows (None: it is not known) are done: a bar, or where none is drawn a line now and then."""

    def __init__(self, doing: str, total: int | None) -> None:
        self._doing = doing
        self._total = total
        self._bar = progress_bar(doing, "rows", total, leave=False)
        self._done = 0
        self._skipped = 0
        self._started = time.monotonic()
        self._next_line = self._started + FIRST_SECONDS

    def update(self, n_rows: int, *, known: bool = False) -> None:
        """Count rows; those that are `known` took no time."""
        self._bar.update(n_rows)
        self._done += n_rows
        self._skipped += n_rows if known else 0
        now = time.monotonic()
        if self._bar.disable and now >= self._next_line:
            self._next_line = now + SECONDS
            _print_line(self._line(now - self._started))

    def _line(self, seconds: float) -> str:
        rate = (self._done - self._skipped) / max(seconds, 1e-9)
        of_total = "" if self._total is None else f" of {self._total:,}"
        line = f"{self._doing}: {self._done:,}{of_total} rows, {rate:,.0f} rows/s"
        if self._total is None or rate == 0:
            return line
        return f"{line}, {tqdm.format_interval((self._total - self._done) / rate)} left"

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()


@contextmanager
def rows_done(doing: str, total: int | None) -> Iterator[RowsDone]:
    """Show how many rows are done within this context."""
    rows = RowsDone(doing, total)
    try:
        yield rows
    finally:
        rows.close()


def is_notebook(file: TextIO) -> bool:
    """Return whether `file` prints into the cells of a notebook, as the streams of its kernel do."""
    return type(file).__module__.partition(".")[0] == "ipykernel"
