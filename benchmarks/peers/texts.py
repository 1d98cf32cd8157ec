"""The options of every side that predicts or embeds a file of texts, and its numbers."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from itertools import islice
from pathlib import Path

TRIED = 2_000  # texts, to find the best batch size


def options_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options: texts, output folder, and how to measure."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--input", type=Path, required=True, help="one text per line")
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--repeats", type=int, default=1, help="how many times to measure")
    parser.add_argument("--limit", type=int, help="at most this many texts")
    return parser


def first_lines(path: Path, limit: int | None, shortened: Path) -> tuple[Path, int]:
    """Return the file with the first `limit` lines of `path` (None: `path` itself) and its number of lines."""
    with path.open(encoding="utf-8", newline="\n") as file:
        if limit is None:
            return path, sum(1 for _ in file)
        lines = list(islice(file, limit))
    shortened.write_text("".join(lines), encoding="utf-8", newline="\n")
    return shortened, len(lines)


def measure_best(options: argparse.Namespace, sizes: tuple[int, ...], seconds: Callable[[Path, int], float]) -> None:
    """Print the median speed on all texts, at the batch size that suits the first of them best.

    `seconds` predicts the texts of a file in batches of a size, from reading to the last output written.
    """
    path, count = first_lines(options.input, options.limit, options.output / "texts.txt")
    few, _ = first_lines(path, TRIED, options.output / "few.txt")
    seconds(few, sizes[0])  # the first run of a process is slower
    best = min(sizes, key=lambda size: seconds(few, size))
    took = statistics.median(seconds(path, best) for _ in range(options.repeats))
    print(json.dumps(speed(took, count) | {"batch_size": best}))


def speed(seconds: float, count: int) -> dict[str, float]:
    """Return what a side prints of its speed."""
    return {"seconds": round(seconds, 3), "examples_per_second": round(count / seconds, 1), "texts": count}
