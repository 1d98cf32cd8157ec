"""Texts of a data set on a page: cut to a length that is said, with nothing in them that does not print, and with words marked."""

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
    """The text in one line, cut to `most` characters, which is said; control characters are escapes."""
    return _one_line(text) if len(text) <= most else f"{_one_line(text[:most])}{_cut(text)}"


def _one_line(text: str) -> str:
    return printable(re.sub(r"\s+", " ", text))


def _cut(text: str) -> str:
    return f"… ({len(text):,} characters)"


def marked_texts(example: Any, explained: TokenImportance | None) -> list[list[dict[str, Any]]]:
    """The example's texts, each in parts with `text` and `weight`: how much a word speaks for the class that is `explained`.

    The strongest word of the example weighs 1 or -1; what stands between words weighs 0, and so does all that was cut off, and
    everything where nothing is explained. Of a text the first 600 characters are shown.
    """
    words = [] if explained is None else explained.words()
    greatest = max((abs(word.score) for word in words), default=0.0) or 1.0
    weights = [[] for _ in texts_of(example)]
    for word in words:
        weights[word.text].append((word.begin, word.end, round(word.score / greatest, 3)))
    return [list(_parts(text, sorted(found))) for text, found in zip(texts_of(example), weights, strict=True)]


def _parts(text: str, weights: Iterable[tuple[int, int, float]]) -> Iterator[dict[str, Any]]:
    """The text cut before and behind each weighted stretch of characters [begin, end)."""
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
    """How long each example is, both texts of a pair together, [examples], and in what: words, parted by white space.

    Where most have one or two, as in languages written without blanks, it is characters.
    """
    words = np.array([sum(len(text.split()) for text in texts_of(example)) for example in examples], dtype=np.int64)
    if np.median(words) > 2 or any(hasattr(example, "words") for example in examples[:1]):
        return words, "words"
    return np.array([sum(map(len, texts_of(example))) for example in examples], dtype=np.int64), "characters"
