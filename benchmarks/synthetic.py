"""Generated data: rows of an exact number of tokens, and any number of documents and reviews of made-up words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

SYLLABLES = [first + vowel for first in "bcdfghklmnprstvwz" for vowel in "aeiou"]


def write_digits(path: Path, rows: int, length: int) -> None:
    """Write a CSV file of rows that are `length` tokens for tokenizer=symbols, [CLS] and [SEP] included, with one of
    two labels.
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
    text = _text(words, distinct, draw)
    with path.open("w", encoding="utf-8") as file:
        for number, paragraph in enumerate(_paragraphs(text, draw)):
            file.write(paragraph + ("\n\n" if number % 6 == 5 else "\n"))


def documents(count: int) -> list[str]:
    """Return documents of one paragraph, about 500 characters each."""
    draw = np.random.default_rng(0)
    found = list(_paragraphs(_text(80 * count, 20_000, draw), draw))
    assert len(found) >= count, "a paragraph has 74 words on average"
    return found[:count]


def _text(words: int, distinct: int, draw: np.random.Generator) -> list[str]:
    spelt = _words(distinct, draw)
    return [spelt[place] for place in draw.choice(distinct, words, p=_frequencies(distinct))]


def reviews(rows: int, seed: int) -> tuple[list[str], list[str]]:
    """Return texts as long as Amazon's reviews (10 to 200 words, 75 on average), each with a label; they depend on the
    seed.
    """
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
    found: dict[str, None] = {}
    while len(found) < distinct:
        found["".join(draw.choice(SYLLABLES, draw.integers(1, 5)))] = None
    return sorted(found, key=len)


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
