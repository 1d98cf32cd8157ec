"""What is shown of tokenizers: a table of how they cut the same texts, and one text's pieces above their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from rich.cells import cell_len

from encoderlab.reports.parts.console import console_on, table_of


def show_cuttings(cuttings: Mapping[str, Mapping[str, Any]], texts: str, file: TextIO) -> None:
    """A row for each tokenizer, its figures by name as in `inspection.cutting.Cutting`; `texts` says on what they were counted."""
    pieces = "pieces in a text: median, p95, max"
    table = table_of("tokenizer", "vocabulary", "pieces per word", "whole words", "unknown pieces", pieces)
    for name, figures in cuttings.items():
        lengths = " ".join(f"{figures[f'pieces_{key}']:,.0f}" for key in ("median", "p95", "max"))
        shares = [f"{figures[key]:.2%}" for key in ("whole_words", "unknown_pieces")]
        table.add_row(name, f"{figures['vocabulary_size']:,}", f"{figures['pieces_per_word']:.3f}", *shares, lengths)
    console = console_on(file)
    console.print(table)
    console.print(f"Counted on {texts}.", soft_wrap=True)


def show_pieces(cuts: Mapping[str, Sequence[tuple[str, int]]], file: TextIO) -> None:
    """For each tokenizer one text's pieces, their ids under them."""
    console = console_on(file)
    for name, pieces in cuts.items():
        console.print(f"\n{name}: {len(pieces)} piece{'s' * (len(pieces) != 1)}", soft_wrap=True)
        for line in _two_lines(pieces, console.width):
            console.print(line, soft_wrap=True)


def _two_lines(pieces: Sequence[tuple[str, int]], width: int) -> Iterator[str]:
    """Lines of pieces, each followed by the line of their ids, as many pieces side by side as fit."""
    above, below = "", ""
    for piece, id_ in pieces:
        taken = max(cell_len(piece), len(str(id_)))
        if above and cell_len(above) + 2 + taken > width:
            yield from (above.rstrip(), below.rstrip())
            above, below = "", ""
        above += "  " + piece + " " * (taken - cell_len(piece))
        below += "  " + str(id_).ljust(taken)
    if above:
        yield from (above.rstrip(), below.rstrip())
