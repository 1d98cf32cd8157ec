"""Baselines without an encoder: simple methods fitted on the same rows, to show whether training one was worth it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from encoderlab.baselines.label_sets import cannot_fit, for_label_sets
from encoderlab.baselines.linear import N_TOP, Baseline, cannot_read, joined, tfidf, timed, too_many_cells
from encoderlab.baselines.numbers import for_numbers
from encoderlab.data.examples import Split, Splits, WordsExample
from encoderlab.metrics.classification import given_from
from encoderlab.metrics.intervals import matthews
from encoderlab.metrics.scores import WITHOUT_WARNING
from encoderlab.metrics.tagging import answered_words
from encoderlab.metrics.thresholds import DEFAULT, ThresholdRule

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

MOST_CELLS = (
    5_000_000  # rows times labels: beyond this one regression of all labels would take longer than many a training run
)


def baselines(
    splits: Splits, name: str, threshold: ThresholdRule | None = None, positive: int = 1
) -> dict[str, Baseline]:
    """Fit on the labelled rows of `train`, score on those of the split called `name`.

    Texts: `majority` (always the most frequent label) and `tfidf_logreg`. Words: `majority` and `word_majority` (each
    word's most frequent label, the most frequent overall if a word is new). Numbers: `mean` and `tfidf_ridge`. Both
    splits must hold labelled rows. Sets of labels: `majority` and `tfidf_logreg` for each label. Of two classes, the
    linear model gives the `positive` one from a `threshold` on, found on validation as a model's is.
    """
    train, scored = splits.by_name["train"], splits.by_name[name]
    assert train.labelled and scored.labelled, "baselines are fitted and scored on labelled rows"
    if train.target == "number":
        return for_numbers(train, scored)
    if train.target == "label_set":
        return for_label_sets(train, scored, splits.by_name.get("validation"), len(splits.labels))
    if isinstance(scored[0], WordsExample):
        return _for_words(train, scored, splits.labels)
    return _for_texts(splits, scored, threshold, positive)


def planned(splits: Splits) -> dict[str, str]:
    """Return the baselines that `baselines` would fit, each with why it would be skipped, "" if it would not."""
    train = splits.by_name["train"]
    if train.target == "label_set":
        return {"majority": "", "tfidf_logreg": cannot_fit(train, len(splits.labels))}
    if isinstance(train[0], WordsExample):
        return {"majority": "", "word_majority": ""}
    if train.target == "number":
        return {"mean": "", "tfidf_ridge": cannot_read(train)}
    return {"majority": "", "tfidf_logreg": _cannot_fit(train, _answers(train))}


def _answers(train: Split) -> np.ndarray:
    """Return the known labels: [labelled rows]."""
    return np.array([example.label for example in train.of_texts() if example.label is not None])


def _for_texts(splits: Splits, scored: Split, threshold: ThresholdRule | None, positive: int) -> dict[str, Baseline]:
    from threadpoolctl import threadpool_limits

    train = splits.by_name["train"]
    labels = np.array([-1 if example.label is None else example.label for example in scored.of_texts()])
    answers = _answers(train)

    def majority() -> np.ndarray:
        return np.full(len(scored), np.bincount(answers).argmax())

    model = _linear_model(len(np.unique(answers)))

    def linear() -> np.ndarray:
        texts = [joined(example) for example in train.of_texts() if example.label is not None]
        with threadpool_limits(
            1
        ):  # the solver's vectors are too short for more: two busy cores took 22 s where one takes 3
            model.fit(texts, answers)
            return _linear_answers(model, splits.by_name.get("validation"), scored, threshold, positive)

    figures, reason = partial(_class_figures, labels), _cannot_fit(train, answers)
    return {
        "majority": timed(majority, figures),
        "tfidf_logreg": Baseline(skipped=reason)
        if reason
        else replace(timed(linear, figures), top_features=_top_features(model)),
    }


def _linear_answers(
    model: Pipeline, held_out: Split | None, scored: Split, threshold: ThresholdRule | None, positive: int
) -> np.ndarray:
    texts = [joined(example) for example in scored.of_texts()]
    if threshold is None:
        return model.predict(texts)
    known = [example for example in (held_out.of_texts() if held_out else ()) if example.label is not None]
    least = DEFAULT if threshold.known is None else threshold.known
    if known and threshold.known is None:
        chances = model.predict_proba([joined(example) for example in known])[:, positive]
        least = threshold.on(chances, np.array([example.label == positive for example in known]))
    return given_from(model.predict_proba(texts)[:, positive], least, positive)


def _top_features(fitted: Pipeline) -> dict[int, list[str]]:
    """Return the features with the largest weights for each training class; of two, what supports one opposes the
    other.
    """
    features, linear = cast("TfidfVectorizer", fitted["tfidf"]), cast("LogisticRegression", fitted["logreg"])
    names, weights = np.asarray(features.get_feature_names_out()), np.asarray(linear.coef_)
    by_class = weights if len(weights) > 1 else np.stack([-weights[0], weights[0]])
    best = [np.argsort(-row, kind="stable")[:N_TOP] for row in by_class]
    return {
        int(class_): [str(names[place]) for place in places if row[place] > 0]
        for class_, row, places in zip(linear.classes_, by_class, best, strict=True)
    }


def _linear_model(n_labels: int) -> Pipeline:
    """Return logistic regression on TF-IDF of words, punctuation marks and bigrams.

    On the validation split of SST-2 82.2 percent right, on 2,000 test rows of Amazon polarity (13,000 to train on)
    89.6. The settings were chosen among some forty on such rows, most of which lay within a standard error. Brackets
    and punctuation are tokens of their own, so that texts made of nothing else can be told apart.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

    return Pipeline(
        [("tfidf", tfidf(n_labels)), ("logreg", LogisticRegression(C=10, tol=1e-6, max_iter=1000, random_state=0))]
    )


def _cannot_fit(train: Split, answers: np.ndarray) -> str:
    """Return why the linear model cannot or should not be fitted; "" if it can."""
    n_labels = len(np.unique(answers))
    if n_labels < 2:
        return "the linear baseline needs two labels, but training has one"
    return too_many_cells(len(answers), n_labels, MOST_CELLS) or cannot_read(train)


def _for_words(train: Split, scored: Split, names: Sequence[str]) -> dict[str, Baseline]:
    labels = [
        None if example.labels is None else np.array(example.labels, dtype=np.int64) for example in scored.of_words()
    ]
    overall, by_word = _label_counts(train)
    most_frequent = overall.most_common(1)[0][0]
    best = {word: counts.most_common(1)[0][0] for word, counts in by_word.items()}

    def majority() -> list[np.ndarray]:
        return [np.full(len(example.words), most_frequent) for example in scored.of_words()]

    def word_majority() -> list[np.ndarray]:
        return [
            np.array([best.get(word, most_frequent) for word in example.words], dtype=np.int64)
            for example in scored.of_words()
        ]

    figures = partial(_word_figures, labels, names)
    return {"majority": timed(majority, figures), "word_majority": timed(word_majority, figures)}


def _label_counts(train: Split) -> tuple[Counter[int], dict[str, Counter[int]]]:
    """Return how often each label occurs, and how often on each word."""
    overall: Counter[int] = Counter()
    by_word: dict[str, Counter[int]] = defaultdict(Counter)
    for example in train.of_words():
        if example.labels is not None:
            overall.update(example.labels)
            for word, label in zip(example.words, example.labels, strict=True):
                by_word[word][label] += 1
    return overall, by_word


def _class_figures(labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return the figures of the labelled rows; `labels` are -1 elsewhere."""
    is_labelled = labels >= 0
    labels, predicted = labels[is_labelled], predicted[is_labelled]
    return {"accuracy": float((labels == predicted).mean()), **_f1(labels, predicted), **_matthews(labels, predicted)}


def _word_figures(
    labels: Sequence[np.ndarray | None], names: Sequence[str], predicted: list[np.ndarray]
) -> dict[str, float]:
    pairs = [(a, b) for a, b in zip(labels, predicted, strict=True) if a is not None]
    return answered_words([a for a, _ in pairs], [b for _, b in pairs], names, "token_accuracy").figures


def _matthews(labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    n_classes = int(max(labels.max(), predicted.max())) + 1
    counts = [np.bincount(ids, minlength=n_classes)[None] for ids in (labels[labels == predicted], labels, predicted)]
    return {"matthews": float(matthews(*counts)[0])}


def _f1(labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    from sklearn.metrics import f1_score

    return {"f1_macro": float(f1_score(labels, predicted, average="macro", zero_division=WITHOUT_WARNING))}
