"""Building blocks of everything printed: consoles, tables, lines, and formatted numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from encoderlab.errors import printable

OF_POSITIVE = ("f1", "roc_auc", "average_precision", "threshold")  # the figures about one of two classes
WIDTH = 100  # if the output is not a terminal


class _SafeConsole(Console):
    """A console that does not pass control characters in labels and texts to the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """See `Console.render`. rich itself lets escape sequences pass."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else "\n".join(map(printable, text.split("\n"))), style, control)


def console_on(file: TextIO | None) -> Console:
    """Return a console that prints text unchanged (brackets too), plain and of fixed width if it is not a terminal.

    This includes notebooks, where rich would make a cell of HTML of each line.
    """
    target = file or sys.stderr
    width = None if target.isatty() else WIDTH
    return _SafeConsole(file=target, width=width, markup=False, emoji=False, highlight=False, force_jupyter=False)


def table_of(first: str, *others: str) -> Table:
    """Return a table with text in the first column and numbers in the others."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table


def table_of_rows(rows: Iterable[Sequence[str]]) -> Table:
    """Return a table with its heading in the first row."""
    heading, *others = rows
    table = table_of(*heading)
    for row in others:
        table.add_row(*row)
    return table


def listing(console: Console, title: str, lines: Iterable[str]) -> None:
    """Print a title, and lines under it that are never wrapped, so that they can be copied; nothing if there are no
    lines.
    """
    lines = list(lines)
    if lines:
        console.print(Text(title, style="bold"))
    for one in lines:
        console.print(Text(f"  {one}"), soft_wrap=True)


def line(console: Console, title: str, words: str) -> None:
    """Print one line with its title; nothing if there are no words."""
    if words:
        console.print(Text.assemble((title, "bold"), f": {words}"), soft_wrap=True)


def words_of(name: str) -> str:
    """Return a figure's name in words."""
    return name.replace("_", " ").replace("roc auc", "ROC AUC").replace("matthews", "Matthews correlation")


def named_figure(name: str, scores: Mapping[str, Any]) -> str:
    """Return a figure's name in words, with the positive label of `scores` if it is about that one."""
    label = scores.get("positive_label")
    return f"{words_of(name)} of {printable(label)}" if label is not None and name in OF_POSITIVE else words_of(name)


def figure(value: float | None) -> str:
    """Return a score, to three decimals."""
    return "-" if value is None else f"{value:.3f}"


def number(value: float | None) -> str:
    """Return a count, or a measured number with its significant digits."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def with_interval(scores: Mapping[str, Any], name: str) -> str:
    """Return a score with its 95% interval, if it has one."""
    value = figure(scores[name])
    if f"{name}_ci95" not in scores:
        return value
    low, high = scores[f"{name}_ci95"]
    return f"{value} (95% interval {figure(low)} to {figure(high)})"


def lead(scores: Mapping[str, Any], name: str) -> str:
    """Return the difference `name` between two scores with its 95% interval, both with their signs."""
    low, high = scores[f"{name}_ci95"]
    return f"{scores[name]:+.3f} ({low:+.3f} to {high:+.3f})"


def speed(throughput: Mapping[str, float | None]) -> str:
    """Return the measured figures in words, without those that were not measured."""
    forms = {
        "tokens_per_second": "{:,.0f} tokens/s",
        "examples_per_second": "{:,.0f} examples/s",
        "padding_fraction": "{:.1%} padding",
        "train_seconds": "{:,.1f} s of training",
        "evaluation_seconds": "{:,.1f} s of evaluation",
    }
    return ", ".join(form.format(throughput[name]) for name, form in forms.items() if throughput.get(name) is not None)


def chosen(checkpoint: Mapping[str, Any]) -> str:
    """Return which checkpoint was scored, and why."""
    step = f"step {number(checkpoint['step'])}"
    if checkpoint["chosen_on"] is None:
        return f"{step}, the {checkpoint['chosen_by']}"
    return f"{step}, chosen by {words_of(checkpoint['chosen_by'])} on {checkpoint['chosen_on']}"
