"""Tables of tokenizers: how they split the same texts, and one text's tokens above their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from rich.cells import cell_len

from encoderlab.reports.parts.console import console_on, table_of


def show_cuttings(cuttings: Mapping[str, Mapping[str, Any]], texts: str, file: TextIO) -> None:
    """Print a row for each tokenizer, with figures named as in `inspection.cutting.Cutting`; `texts` says on what."""
    pieces = "tokens in a text: median, p95, max"
    table = table_of("tokenizer", "vocabulary", "tokens per word", "whole words", "unknown tokens", pieces)
    for name, figures in cuttings.items():
        lengths = " ".join(f"{figures[f'pieces_{key}']:,.0f}" for key in ("median", "p95", "max"))
        shares = [f"{figures[key]:.2%}" for key in ("whole_words", "unknown_pieces")]
        table.add_row(name, f"{figures['vocabulary_size']:,}", f"{figures['pieces_per_word']:.3f}", *shares, lengths)
    console = console_on(file)
    console.print(table)
    console.print(f"Counted on {texts}.", soft_wrap=True)


def show_pieces(cuts: Mapping[str, Sequence[tuple[str, int]]], file: TextIO) -> None:
    """Print for each tokenizer one text's tokens, with their ids below."""
    console = console_on(file)
    for name, pieces in cuts.items():
        console.print(f"\n{name}: {len(pieces)} token{'s' * (len(pieces) != 1)}", soft_wrap=True)
        for line in _two_lines(pieces, console.width):
            console.print(line, soft_wrap=True)


def _two_lines(pieces: Sequence[tuple[str, int]], width: int) -> Iterator[str]:
    """Yield lines of tokens, each followed by the line of their ids, with as many tokens per line as fit."""
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
