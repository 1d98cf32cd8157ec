"""Data to measure with: documents of made-up words in any amount, and texts of public data sets."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import numpy as np

SYLLABLES = [first + vowel for first in "bcdfghklmnprstvwz" for vowel in "aeiou"]
SOURCES = {  # arguments of load_dataset, the split and the column
    "sst2": (("nyu-mll/glue", "sst2"), "validation", "sentence"),
    "sst2_train": (("nyu-mll/glue", "sst2"), "train", "sentence"),
    "amazon": (("fancyzhx/amazon_polarity",), "train", "content"),
}


def write_documents(path: Path, words: int, distinct: int) -> None:
    """Write a .txt file of documents: a paragraph per line, blank lines between documents.

    `distinct` words are as frequent as those of a language (Zipf-Mandelbrot), so that a vocabulary can be trained on
    them.
    """
    draw = np.random.default_rng(0)
    spelt = _words(distinct, draw)
    frequencies = 1 / (np.arange(distinct) + 2.7)
    text = [spelt[place] for place in draw.choice(distinct, words, p=frequencies / frequencies.sum())]
    with path.open("w", encoding="utf-8") as file:
        for number, paragraph in enumerate(_paragraphs(text, draw)):
            file.write(paragraph + ("\n\n" if number % 6 == 5 else "\n"))


def _words(distinct: int, draw: np.random.Generator) -> list[str]:
    """Return distinct words of one to four syllables, the shorter ones first, as in a language."""
    words: dict[str, None] = {}
    while len(words) < distinct:
        words["".join(draw.choice(SYLLABLES, draw.integers(1, 5)))] = None
    return sorted(words, key=len)


def _paragraphs(words: list[str], draw: np.random.Generator) -> Iterator[str]:
    """Yield paragraphs of four sentences of 8 to 29 words each, until the words are used up."""
    start = 0
    sentences = []
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
