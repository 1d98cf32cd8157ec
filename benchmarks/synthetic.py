"""Data to measure with: digits, documents and reviews of made-up words in any amount, and texts of public data sets."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from itertools import cycle, islice
from pathlib import Path

import numpy as np

SYLLABLES = [first + vowel for first in "bcdfghklmnprstvwz" for vowel in "aeiou"]
VALIDATION = 300  # rows
SOURCES = {  # arguments of load_dataset, the split and the column
    "sst2": (("nyu-mll/glue", "sst2"), "validation", "sentence"),
    "sst2_train": (("nyu-mll/glue", "sst2"), "train", "sentence"),
    "amazon": (("fancyzhx/amazon_polarity",), "train", "content"),
}


def write_digits(path: Path, rows: int, length: int) -> None:
    """Write a CSV file of rows that are `length` tokens for tokenizer=symbols, [CLS] and [SEP] included,
    with labels.
    """
    digits = np.random.default_rng(0).integers(0, 10, (rows, length - 2)).tolist()
    lines = ["text,label", *(f"{''.join(map(str, row))},{('even', 'odd')[sum(row) % 2]}" for row in digits)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_documents(path: Path, words: int, distinct: int) -> None:
    """Write a .txt file of documents: a paragraph per line, blank lines between documents.

    `distinct` words are as frequent as those of a language (Zipf-Mandelbrot), so that a vocabulary can be trained on
    them.
    """
    draw = np.random.default_rng(0)
    spelt = _words(distinct, draw)
    text = [spelt[place] for place in draw.choice(distinct, words, p=_frequencies(distinct))]
    with path.open("w", encoding="utf-8") as file:
        for number, paragraph in enumerate(_paragraphs(text, draw)):
            file.write(paragraph + ("\n\n" if number % 6 == 5 else "\n"))


def write_reviews(folder: Path, times: int, size: int) -> int:
    """Write `times` batches of reviews, all different, to parquet files; return the number of training rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    columns = pa.schema({"text": pa.string(), "label": pa.string()})
    for name, seeds, rows in (("train", range(1, times + 1), size), ("validation", [0], VALIDATION)):
        with pq.ParquetWriter(folder / f"{name}.parquet", columns) as file:
            for texts, labels in (reviews(rows, seed) for seed in seeds):
                file.write_table(pa.table({"text": texts, "label": labels}))
    return times * size


def reviews(rows: int, seed: int) -> tuple[list[str], list[str]]:
    """Return texts as long as Amazon's reviews (10 to 200 words, 75 on average), each with a label."""
    spelt, draw = _vocabulary_of_reviews(), np.random.default_rng(seed)
    ends = np.cumsum(draw.lognormal(np.log(65), 0.6, rows).clip(10, 200).astype(int))
    words = [spelt[place] for place in draw.choice(len(spelt), ends[-1], p=_frequencies(len(spelt)))]
    texts = [" ".join(words[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    return texts, [("negative", "positive")[label] for label in draw.integers(0, 2, rows)]


@cache
def _vocabulary_of_reviews() -> list[str]:
    return _words(30_000, np.random.default_rng(0))


def _frequencies(distinct: int) -> np.ndarray:
    """Return the probability of each word, the most frequent first (Zipf-Mandelbrot)."""
    frequency = 1 / (np.arange(distinct) + 2.7)
    return frequency / frequency.sum()


def _words(distinct: int, draw: np.random.Generator) -> list[str]:
    """Return distinct words of one to four syllables, the shorter ones first, as in a language."""
    words: dict[str, None] = {}
    while len(words) < distinct:
        words["".join(draw.choice(SYLLABLES, draw.integers(1, 5)))] = None
    return sorted(words, key=len)


def _paragraphs(words: list[str], draw: np.random.Generator) -> Iterator[str]:
    """Yield paragraphs of four sentences of 8 to 29 words each, until the words are used up."""
    start, sentences = 0, []
    while start < len(words):
        size = int(draw.integers(8, 30))
        sentences.append(" ".join(words[start : start + size]).capitalize() + ".")
        start += size
        if len(sentences) == 4 or start >= len(words):
            yield " ".join(sentences)
            sentences = []


def main() -> None:
    """Write texts of a public data set to a file, one per line, repeated as necessary."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--texts", choices=SOURCES, required=True, help="source of the texts")
    parser.add_argument("--count", type=int, help="number of texts (default: all, once)")
    parser.add_argument("output", type=Path, help="file to write")
    options = parser.parse_args()
    from datasets import load_dataset

    path, split, column = SOURCES[options.texts]
    texts = [" ".join(text.split()) or "-" for text in load_dataset(*path, split=split)[column]]
    chosen = texts if options.count is None else islice(cycle(texts), options.count)
    options.output.write_text("".join(f"{text}\n" for text in chosen), encoding="utf-8")


if __name__ == "__main__":
    main()
