"""A dataset's texts on a page: shortened with a note, with control characters escaped, and with words marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.errors import printable
from encoderlab.runs.inference.token_spans import texts_of

if TYPE_CHECKING:
    from encoderlab.runs.inference.importance import TokenImportance

MOST_CHARACTERS = 600


def shown(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return the text in one line, shortened to `most` characters with a note; control characters are escaped."""
    return _one_line(text) if len(text) <= most else f"{_one_line(text[:most])}{_cut(text)}"


def _one_line(text: str) -> str:
    return printable(re.sub(r"\s+", " ", text))


def _cut(text: str) -> str:
    return f"… ({len(text):,} characters)"


def marked_texts(example: Any, explained: TokenImportance | None) -> list[list[dict[str, Any]]]:
    """Return the example's texts, each in parts with `text` and `weight`: how much a word supports the class that is
    `explained`.

    The strongest word of the example weighs 1 or -1; text between words and truncated text weigh 0, and so does
    everything if nothing is explained. The first 600 characters of a text are shown.
    """
    words = [] if explained is None else explained.words()
    greatest = max((abs(word.score) for word in words), default=0.0) or 1.0
    weights = [[] for _ in texts_of(example)]
    for word in words:
        weights[word.text].append((word.begin, word.end, round(word.score / greatest, 3)))
    return [list(_parts(text, sorted(found))) for text, found in zip(texts_of(example), weights, strict=True)]


def _parts(text: str, weights: Iterable[tuple[int, int, float]]) -> Iterator[dict[str, Any]]:
    """Yield the text split before and after each weighted range of characters [begin, end)."""
    done, end_of_all = 0, min(len(text), MOST_CHARACTERS)
    for begin, end, weight in weights:
        if begin >= end_of_all:
            break
        if begin > done:
            yield {"text": _one_line(text[done:begin]), "weight": 0}
        yield {"text": _one_line(text[begin : min(end, end_of_all)]), "weight": weight}
        done = min(end, end_of_all)
    if done < end_of_all:
        yield {"text": _one_line(text[done:end_of_all]), "weight": 0}
    if end_of_all < len(text):
        yield {"text": _cut(text), "weight": 0}


def lengths_of(examples: Sequence[Any]) -> tuple[np.ndarray, str]:
    """Return how long each example is, both texts of a pair together, [examples], and the unit: words, separated by
    white space.

    If most have one or two, as in languages written without blanks, it is characters.
    """
    words = np.array([sum(len(text.split()) for text in texts_of(example)) for example in examples], dtype=np.int64)
    if np.median(words) > 2 or any(hasattr(example, "words") for example in examples[:1]):
        return words, "words"
    return np.array([sum(map(len, texts_of(example))) for example in examples], dtype=np.int64), "characters"
