"""What baselines of texts share: their words as features, and what is known of one that was scored."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from encoderlab.data.examples import Split, TextExample

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

MOST_ROWS = 200_000  # beyond this a linear model would take longer than many a training run
N_TOP = 100  # words kept for each class
_FEATURES = 100_000  # the most frequent ones; scores as well as all of them, and bounds the memory
_WEIGHTS = 20_000_000  # features times labels of one regression; its solver takes 240 bytes for each

Answers = np.ndarray | list[np.ndarray]
Predicted = TypeVar("Predicted", np.ndarray, list[np.ndarray])


@dataclass(frozen=True, slots=True)
class Baseline:
    """One simple method's scores, or why it has none.

    `figures` holds `seconds` and the scores by name: `accuracy` and `f1_macro`, or those for words (`answered_words`),
    sets of labels or numbers. `predicted` has a prediction for every row of the scored split, labelled or not: class
    ids [n], a 0 or 1 for each label [n, labels], numbers [n], or one array of class ids per sequence of words.
    `top_features` has the words and bigrams that count most for each class of a linear model, the strongest first.
    """

    figures: dict[str, float] = field(default_factory=dict)
    predicted: Answers | None = None
    skipped: str = ""
    top_features: dict[int, list[str]] = field(default_factory=dict)


def timed(answer: Callable[[], Predicted], figures: Callable[[Predicted], dict[str, float]]) -> Baseline:
    """Return the baseline whose predictions `answer` computes, with their `figures` and the `seconds` they took."""
    started = time.perf_counter()
    predicted = answer()
    seconds = time.perf_counter() - started
    return Baseline(figures(predicted) | {"seconds": seconds}, predicted)


def tfidf(n_labels: int = 1) -> TfidfVectorizer:
    """Return TF-IDF of words, punctuation marks and bigrams, fewer of them for one regression of over 200 labels.

    Brackets and punctuation are separate tokens, so that texts made of nothing else can be distinguished.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        token_pattern=r"\w+|[^\w\s]", ngram_range=(1, 2), max_features=min(_FEATURES, _WEIGHTS // n_labels)
    )


def joined(example: TextExample) -> str:
    """Return the text, or both texts of a pair with a blank between them."""
    return example.text if example.text_pair is None else f"{example.text} {example.text_pair}"


def too_many_cells(n_rows: int, n_labels: int, most: int) -> str:
    """Return that rows times labels are more than the `most` a linear model is fitted on; "" if they are not."""
    if n_rows * n_labels <= most:
        return ""
    return (
        f"the linear baseline is fitted on at most {most:,} rows times labels, but training has {n_rows * n_labels:,}"
    )


def cannot_read(train: Split) -> str:
    """Return why a linear model of words should not be fitted to the rows; "" if it can be."""
    labelled = [example for example in train.of_texts() if example.label is not None]
    if len(labelled) > MOST_ROWS:
        return f"the linear baseline is fitted on at most {MOST_ROWS:,} rows, but training has {len(labelled):,}"
    if not any(joined(example).strip() for example in labelled):
        return "the linear baseline needs words, but every training text is empty"
    return ""
