"""Reports on the terminal: every character printable, tables of fixed width, lines to copy unwrapped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

from rich import box
from rich import table as rich_table
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text as Styled

from encoderlab.errors import printable
from encoderlab.reports.tables import Block, Code, Heading, Items, Passage, Table, Text

WIDTH = 100  # if the output is not a terminal


class _SafeConsole(Console):
    """A console that does not pass control characters in labels and texts to the terminal, as rich itself does."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield rich's segments with their texts made printable."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else "\n".join(map(printable, text.split("\n"))), style, control)


def console_on(file: TextIO | None, width: int = WIDTH) -> Console:
    """Return a console that prints texts unchanged (brackets too), plain and `width` wide if it is not a terminal.

    This includes notebooks, where rich would make a cell of HTML of each line. Without a file it is standard error.
    """
    target = file or sys.stderr
    fixed = None if target.isatty() else width
    return _SafeConsole(file=target, width=fixed, markup=False, emoji=False, highlight=False, force_jupyter=False)


def show(blocks: Iterable[Block], file: TextIO | None = None, width: int = WIDTH) -> None:
    """Print the blocks, on standard error unless `file` is given. Only pages have plots, matrices and folded parts."""
    console = console_on(file, width)
    for block in blocks:
        if isinstance(block, Table):
            console.print("", _rich_table(block.without_bars()), "", sep="\n")
        elif isinstance(block, Heading):
            console.print()
            console.print(Styled(block.title, style="bold"), soft_wrap=True)
        elif isinstance(block, Text) and block.words:
            title = Styled(f"{block.title}: " if block.title else "", style="bold")
            bold = "bold" if block.tone in ("bold", "good", "bad") else ""
            console.print(title.append(Styled(block.words, style=bold)), soft_wrap=True)
        elif isinstance(block, Items) and block.lines:
            console.print(Styled(block.title, style="bold"))
            for line in block.lines:
                console.print(Styled(f"  {line}"), soft_wrap=True)
        elif isinstance(block, Code):
            console.print(Styled(block.words), soft_wrap=True)
        elif isinstance(block, Passage):
            console.print(Styled("".join(words for words, _ in block.heading), style="bold"), soft_wrap=True)
            for text in block.texts:
                console.print(Styled("".join(part["text"] for part in text)), soft_wrap=True)


def _rich_table(table: Table) -> rich_table.Table:
    printed = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, name in enumerate(table.columns):
        printed.add_column(name, justify="left" if place < table.n_texts else "right", overflow="fold")
    for row in table.rows:
        printed.add_row(*map(str, row))
    return printed
