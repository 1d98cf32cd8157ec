"""What `encoderlab data` prints: the facts of a dataset, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO

from rich.console import Console

from encoderlab.errors import one_line
from encoderlab.reports.parts.console import console_on, line, listing, number, table_of
from encoderlab.reports.training.screen import show_survey

_ODD_TEXT = 90  # characters of an odd row's text that fit next to its place
_QUANTILES = ("min", "median", "p90", "p95", "p99", "max")


def show_rows(facts: Mapping[str, Any], file: TextIO) -> None:
    """Print what `runs.inspection.data_facts.example_facts` found."""
    console, splits = console_on(file), facts["splits"]
    show_survey(splits, file)
    _lengths(console, {name: split["tokens"] for name, split in splits.items()}, facts["max_length"], "row")
    _pieces(console, facts["pieces"])
    for name, split in splits.items():
        if split["odd_rows"]:
            console.print()
            listing(console, f"Odd rows of {name}", _odd(split["odd_rows"]))
    for name, split in splits.items():
        if split["examples"]:
            console.print()
            listing(console, f"Rows of {name}", _examples(split["examples"]))


def show_documents(facts: Mapping[str, Any], file: TextIO) -> None:
    """Print what `runs.inspection.data_facts.document_facts` found."""
    console, splits = console_on(file), facts["splits"]
    first = next(iter(splits.values()))
    rows = "pairs" if "labels" in first else "texts"
    table = table_of("split", "documents", "paragraphs", "sentences", "tokens", f"{rows} of an epoch")
    for name, split in splits.items():
        counted = f"{name}, the first window of {split['shards']:,} shards" if "shards" in split else name
        table.add_row(
            counted, *(number(split[key]) for key in ("documents", "paragraphs", "sentences", "tokens", "pairs"))
        )
    console.print(table)
    line(console, "Sentences", f"found by {first['sentence_splitter']}")
    _lengths(
        console, {name: split["tokens_of_a_row"] for name, split in splits.items()}, facts["max_length"], rows[:-1]
    )
    _pieces(console, facts["pieces"])
    for name, split in splits.items():
        if split["examples"]:
            console.print()
            listing(console, f"{rows.capitalize()} of {name}", _pairs(split["examples"]))


def _lengths(console: Console, by_split: Mapping[str, Mapping[str, Any]], max_length: int, what: str) -> None:
    table = table_of(f"tokens of a {what}", *_QUANTILES, f"truncated at {max_length}")
    for name, lengths in by_split.items():
        table.add_row(
            name,
            *(f"{lengths[key]:,.0f}" if key in lengths else "-" for key in _QUANTILES),
            f"{lengths['truncated']:.1%}",
        )
    console.print("", table, sep="\n")
    console.print(
        f"Lengths include special tokens; the model reads up to model.max_length={max_length}.", soft_wrap=True
    )


def _pieces(console: Console, cutting: Mapping[str, Any] | None) -> None:
    if cutting is None:
        return
    parts = [
        f"{cutting['pieces_per_word']:.2f} tokens per word",
        f"{cutting['whole_words']:.1%} of the words whole",
        f"{cutting['unknown_pieces']:.2%} of the tokens unknown",
        f"a vocabulary of {cutting['vocabulary_size']:,}",
    ]
    line(console, "Pieces", ", ".join(parts))


def _odd(kinds: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for kind in kinds:
        yield f"{number(kind['count'])} with {kind['kind']}"
        for row in kind["first"]:
            like = f" (as {row['like']})" if "like" in row else ""
            yield f"    {row['where']}{like}: {_quoted(row['text'])}"


def _quoted(text: str) -> str:
    plain = one_line(text)
    return f"{plain[:_ODD_TEXT]}..." if len(plain) > _ODD_TEXT else plain


def _examples(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield three lines for each row: its place and its label, its text, its tokens."""
    for row in rows:
        yield f"{row['where']}, {row['tokens']} tokens, {'no label' if row['label'] is None else one_line(row['label'])}"
        yield f"    {one_line(row['text'])}"
        more = " ..." if row["tokens"] > len(row["pieces"]) else ""
        yield f"    {' '.join(row['pieces'])}{more}"


def _pairs(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        first, *second = (" ".join(pieces) for pieces in row["pieces"])
        yield first if row["label"] is None else f"{row['label']}: {first}"
        yield from (f"    {pieces}" for pieces in second)
