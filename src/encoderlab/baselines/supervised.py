"""Baselines without an encoder: simple methods fitted on the same rows, to show whether training one was worth it.

Texts: `majority` (always the most frequent label) and `tfidf_logreg`. Sets of labels: the same for each label. Words:
`majority` and `word_majority` (each word's most frequent label, the most frequent overall if a word is new). Numbers:
`mean` and `tfidf_ridge`.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.data.examples import Split, Splits, TextExample, WordsExample
from encoderlab.metrics.classification import predict_from
from encoderlab.metrics.label_sets import label_set_figures
from encoderlab.metrics.regression import number_figures
from encoderlab.metrics.tagging import tagging_scores
from encoderlab.metrics.thresholds import DEFAULT, ThresholdRule, fit_thresholds

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

# Beyond these a linear model would take longer than many a training run.
MOST_ROWS = 200_000
MOST_CELLS = 5_000_000  # rows times labels of one regression of all labels
MOST_CELLS_OF_SETS = 20_000_000  # of one regression for each label
N_TOP = 100  # words kept for each class
_FEATURES = 100_000  # the most frequent ones; scores as well as all of them, and bounds the memory
_WEIGHTS = 20_000_000  # features times labels of one regression; its solver takes 240 bytes for each

Answers = np.ndarray | list[np.ndarray]
Figures = Callable[[Any], dict[str, float]]  # scores of predictions


@dataclass(frozen=True, slots=True)
class Baseline:
    """One simple method's scores, or why it has none.

    `figures` holds `seconds` and the scores by name: `accuracy` and `f1_macro`, or those for words (`tagging_scores`),
    sets of labels or numbers. `predicted` has a prediction for every row of the scored split, labelled or not: class
    ids [n], a 0 or 1 for each label [n, labels], numbers [n], or one array of class ids per sequence of words.
    `top_features` has the words and bigrams that count most for each class of a linear model, the strongest first.
    """

    figures: dict[str, float] = field(default_factory=dict)
    predicted: Answers | None = None
    skipped: str = ""
    top_features: dict[int, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Data:
    """The rows to fit on and to score, and how a class of two is decided."""

    splits: Splits
    train: Split
    scored: Split
    threshold: ThresholdRule | None
    positive: int

    @property
    def n_labels(self) -> int:
        return len(self.splits.labels)

    @property
    def validation(self) -> Split | None:
        return self.splits.by_name.get("validation")


TopFeatures = dict[int, list[str]]
Method = Callable[[_Data], tuple[Answers, TopFeatures]]


def baselines(
    splits: Splits, name: str, threshold: ThresholdRule | None = None, positive: int = 1
) -> dict[str, Baseline]:
    """Fit on the labelled rows of `train`, score on those of the split called `name`; both must hold some.

    Of two classes, the linear model predicts the `positive` one from a `threshold` on; thresholds are fitted on
    validation as a model's are.
    """
    train, scored = splits.by_name["train"], splits.by_name[name]
    assert train.labelled and scored.labelled, "baselines are fitted and scored on labelled rows"
    data = _Data(splits, train, scored, threshold, positive)
    kind, skipped = _kind(train), planned(splits)
    figures = _FIGURES[kind](data)
    return {name: _run(method, data, figures, skipped[name]) for name, method in _METHODS[kind].items()}


def planned(splits: Splits) -> dict[str, str]:
    """Return the baselines that `baselines` would fit, each with why it would be skipped, "" if it would not."""
    train = splits.by_name["train"]
    kind = _kind(train)
    reason = _cannot_fit(kind, train, len(splits.labels))
    return {name: reason if name.startswith("tfidf") else "" for name in _METHODS[kind]}


def marks_of(split: Split, n_labels: int) -> np.ndarray:
    """Return which labels each row has: bool [rows, labels]."""
    marks = np.zeros((len(split), n_labels), bool)
    for row, example in enumerate(split.of_texts()):
        marks[row, list(example.label) if isinstance(example.label, tuple) else []] = True
    return marks


def joined(example: TextExample) -> str:
    """Return the text, or both texts of a pair with a blank between them."""
    return example.text if example.text_pair is None else f"{example.text} {example.text_pair}"


def tfidf(n_labels: int = 1) -> TfidfVectorizer:
    """Return TF-IDF of words, punctuation marks and bigrams, fewer of them for one regression of over 200 labels.

    Brackets and punctuation are separate tokens, so that texts made of nothing else can be distinguished.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    most = min(_FEATURES, _WEIGHTS // n_labels)
    return TfidfVectorizer(token_pattern=r"\w+|[^\w\s]", ngram_range=(1, 2), max_features=most)


def _run(method: Method, data: _Data, figures: Figures, skipped: str) -> Baseline:
    if skipped:
        return Baseline(skipped=skipped)
    from threadpoolctl import threadpool_limits

    started = time.perf_counter()
    with threadpool_limits(
        1
    ):  # the solvers' vectors are too short for more: two busy cores took 22 s where one takes 3
        predicted, top_features = method(data)
    seconds = time.perf_counter() - started
    return Baseline(figures(predicted) | {"seconds": seconds}, predicted, top_features=top_features)


def _kind(train: Split) -> str:
    return "words" if isinstance(train[0], WordsExample) else train.target


def _cannot_fit(kind: str, train: Split, n_labels: int) -> str:
    """Return why a linear model of words cannot or should not be fitted to the rows; "" if it can be."""
    if kind == "words":
        return ""
    rows = [example for example in train.of_texts() if example.label is not None]
    if kind == "label" and (n_labels := len({example.label for example in rows})) < 2:
        return "the linear baseline needs two labels, but training has one"
    most = {"label": MOST_CELLS, "label_set": MOST_CELLS_OF_SETS}.get(kind)
    if most is not None and len(rows) * n_labels > most:
        more = f"training has {len(rows) * n_labels:,}"
        return f"the linear baseline is fitted on at most {most:,} rows times labels, but {more}"
    if len(rows) > MOST_ROWS:
        return f"the linear baseline is fitted on at most {MOST_ROWS:,} rows, but training has {len(rows):,}"
    if not any(joined(example).strip() for example in rows):
        return "the linear baseline needs words, but every training text is empty"
    return ""


def _texts(split: Split) -> list[str]:
    return [joined(example) for example in split.of_texts()]


def _labelled(split: Split) -> tuple[list[str], np.ndarray]:
    """Return the texts and labels of the rows whose label is known."""
    rows = [example for example in split.of_texts() if example.label is not None]
    return [joined(example) for example in rows], np.array([example.label for example in rows])


# One label for a text


def _majority(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    return np.full(len(data.scored), np.bincount(_labelled(data.train)[1]).argmax()), {}


def _logistic_regression(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    """Predict with logistic regression on TF-IDF.

    On the validation split of SST-2 82.2 percent right, on 2,000 test rows of Amazon polarity (13,000 to train on)
    89.6. The settings were chosen among some forty on such rows, most of which lay within a standard error.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts, labels = _labelled(data.train)
    words = tfidf(len(np.unique(labels)))
    regression = LogisticRegression(C=10, tol=1e-6, max_iter=1000, random_state=0)
    model: Any = make_pipeline(words, regression).fit(texts, labels)
    weights = np.asarray(regression.coef_)
    by_class = weights if len(weights) > 1 else [-weights[0], weights[0]]  # of two, one opposes the other
    top = _top_features(words, dict(zip(regression.classes_.tolist(), by_class, strict=True)))
    if data.threshold is None:
        return model.predict(_texts(data.scored)), top
    least = DEFAULT if data.threshold.known is None else data.threshold.known
    if data.threshold.known is None and data.validation is not None and data.validation.labelled:
        texts, labels = _labelled(data.validation)
        least = data.threshold.on(model.predict_proba(texts)[:, data.positive], labels == data.positive)
    return predict_from(model.predict_proba(_texts(data.scored))[:, data.positive], least, data.positive), top


def _class_figures(data: _Data) -> Figures:
    from sklearn.metrics import f1_score, matthews_corrcoef

    labels = np.array([-1 if example.label is None else example.label for example in data.scored.of_texts()])
    known = labels >= 0
    zero: Any = 0  # scikit-learn has no types, and type checkers infer text from its default

    def figures(predicted: np.ndarray) -> dict[str, float]:
        true, mine = labels[known], predicted[known]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A single label")
            f1, matthews = f1_score(true, mine, average="macro", zero_division=zero), matthews_corrcoef(true, mine)
        return {"accuracy": float((true == mine).mean()), "f1_macro": float(f1), "matthews": float(matthews)}

    return figures


def _top_features(words: TfidfVectorizer, weights: dict[int, np.ndarray]) -> TopFeatures:
    """Return the features with the largest weights for each class."""
    names = words.get_feature_names_out()
    best = {class_: np.argsort(-row, kind="stable")[:N_TOP] for class_, row in weights.items()}
    return {class_: [str(names[i]) for i in best[class_] if row[i] > 0] for class_, row in weights.items()}


# A set of labels for a text


def _majority_set(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    most_frequent = marks_of(data.train, data.n_labels).sum(0).argmax()
    return np.tile(np.arange(data.n_labels) == most_frequent, (len(data.scored), 1)), {}


def _regression_for_each_label(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    """Predict each label with a logistic regression of its own; a label that all rows or none have gets a constant."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    words, model = tfidf(), OneVsRestClassifier(LogisticRegression(C=10, solver="liblinear", random_state=0))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Label")  # constant labels
        model.fit(words.fit_transform(_texts(data.train)), marks_of(data.train, data.n_labels).astype(int))

    def probabilities(split: Split) -> np.ndarray:  # of a single label scikit-learn returns both sides
        return model.predict_proba(words.transform(_texts(split)))[:, -data.n_labels :]

    thresholds = np.full(data.n_labels, DEFAULT)
    if data.validation is not None:
        marks = marks_of(data.validation, data.n_labels)
        thresholds = fit_thresholds(probabilities(data.validation), marks)
    fitted: Any = model.estimators_
    weights = {id_: one.coef_[0] for id_, one in enumerate(fitted) if hasattr(one, "coef_")}
    return probabilities(data.scored) >= thresholds, _top_features(words, weights)


# A label for each word


def _majority_of_words(data: _Data) -> tuple[list[np.ndarray], TopFeatures]:
    overall = Counter(label for example in data.train.of_words() for label in example.labels or ())
    return [np.full(len(example.words), overall.most_common(1)[0][0]) for example in data.scored.of_words()], {}


def _majority_of_each_word(data: _Data) -> tuple[list[np.ndarray], TopFeatures]:
    overall, by_word = Counter[int](), defaultdict[str, Counter[int]](Counter)
    for example in data.train.of_words():
        overall.update(example.labels or ())
        for word, label in zip(example.words, example.labels or (), strict=False):
            by_word[word][label] += 1
    best = {word: counts.most_common(1)[0][0] for word, counts in by_word.items()}
    new = overall.most_common(1)[0][0]
    return [np.array([best.get(word, new) for word in one.words], np.int64) for one in data.scored.of_words()], {}


def _word_figures(data: _Data) -> Figures:
    labels = [None if one.labels is None else np.array(one.labels, np.int64) for one in data.scored.of_words()]

    def figures(predicted: Sequence[np.ndarray]) -> dict[str, float]:
        known = [(true, mine) for true, mine in zip(labels, predicted, strict=True) if true is not None]
        true, mine = zip(*known, strict=True)
        return tagging_scores(true, mine, data.splits.labels, "token_accuracy").figures

    return figures


# A number for a text


def _mean(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    return np.full(len(data.scored), _labelled(data.train)[1].mean()), {}


def _ridge_regression(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    model: Any = make_pipeline(tfidf(), Ridge(random_state=0)).fit(*_labelled(data.train))
    return np.asarray(model.predict(_texts(data.scored))), {}


def _number_figures(data: _Data) -> Figures:
    labels = np.array([np.nan if one.label is None else one.label for one in data.scored.of_texts()])
    known = ~np.isnan(labels)
    return lambda predicted: number_figures(labels[known], predicted[known])


_METHODS: dict[str, dict[str, Method]] = {
    "label": {"majority": _majority, "tfidf_logreg": _logistic_regression},
    "label_set": {"majority": _majority_set, "tfidf_logreg": _regression_for_each_label},
    "words": {"majority": _majority_of_words, "word_majority": _majority_of_each_word},
    "number": {"mean": _mean, "tfidf_ridge": _ridge_regression},
}
_FIGURES: dict[str, Callable[[_Data], Figures]] = {
    "label": _class_figures,
    "label_set": lambda data: partial(label_set_figures, marks_of(data.scored, data.n_labels)),
    "words": _word_figures,
    "number": _number_figures,
}
