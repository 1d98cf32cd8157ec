"""Texts to predict, one per line: SST-2's phrases or Amazon's reviews, repeated as necessary."""

from __future__ import annotations

import argparse
from itertools import cycle, islice
from pathlib import Path

SOURCES = {  # arguments of load_dataset, the split and the column
    "sst2": (("nyu-mll/glue", "sst2"), "validation", "sentence"),
    "sst2_train": (("nyu-mll/glue", "sst2"), "train", "sentence"),
    "amazon": (("fancyzhx/amazon_polarity",), "train", "content"),
}


def first_lines(path: Path, limit: int | None, shortened: Path) -> tuple[Path, int]:
    """Return the file with the first `limit` lines of `path` (`shortened`, or `path` if None) and its number of lines."""
    with path.open(encoding="utf-8", newline="\n") as file:
        if limit is None:
            return path, sum(1 for _ in file)
        lines = list(islice(file, limit))
    shortened.write_text("".join(lines), encoding="utf-8", newline="\n")
    return shortened, len(lines)


def options_parser(description: str | None, *, output: str) -> argparse.ArgumentParser:
    """Return a parser for the options of every side that predicts or embeds: texts, `output` folder, and how to
    measure.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--input", type=Path, required=True, help="one text per line")
    parser.add_argument("--output", type=Path, required=True, help=f"folder for the {output}")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--repeats", type=int, default=1, help="how many times to measure")
    parser.add_argument("--limit", type=int, help="at most this many texts")
    return parser


def speed(seconds: float, count: int) -> dict[str, float]:
    """Return what a side prints of its speed."""
    return {"seconds": round(seconds, 3), "examples_per_second": round(count / seconds, 1), "texts": count}


def main() -> None:
    """Write the requested texts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=SOURCES, required=True, help="source of the texts")
    parser.add_argument("--count", type=int, help="number of texts, repeated if there are fewer (default: all)")
    parser.add_argument("--output", type=Path, required=True, help="file to write")
    options = parser.parse_args()
    from datasets import load_dataset

    path, split, column = SOURCES[options.data]
    found = [" ".join(text.split()) or "-" for text in load_dataset(*path, split=split)[column]]
    texts = found if options.count is None else islice(cycle(found), options.count)
    options.output.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


if __name__ == "__main__":
    main()
