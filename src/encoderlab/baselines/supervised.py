"""Baselines: simple methods fitted on the same rows, to show whether training an encoder was worth it.

Texts: `majority` (always the most frequent label), `tfidf_logreg` on n-grams chosen by cross-validation, and
`frozen_encoder_logreg` on the vectors of an encoder that is not trained. Sets of labels: the same for each label.
Words: `majority` and `word_majority` (each word's most frequent label, the most frequent overall if a word is new).
Numbers: `mean`, `tfidf_ridge` and `frozen_encoder_ridge`.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from encoderlab.data.corpus import Corpus
from encoderlab.data.examples import Split, texts_of
from encoderlab.linear.choice import RankedCandidates, choose
from encoderlab.linear.model import Kind, LinearModel, fit
from encoderlab.linear.vectors import evenly_spaced, tuned_on_vectors
from encoderlab.metrics import scores_of_predictions
from encoderlab.metrics.calibration import DEFAULT, ThresholdRule, fit_thresholds

# Beyond these a linear model would take longer than many a training run.
MOST_ROWS = 200_000
MOST_CELLS = {"label": 5_000_000, "label_set": 20_000_000}  # rows times labels
# A frozen encoder reads about as much as a short run does, and the rest of the training rows is left out.
MOST_FROZEN_ROWS = 20_000
MOST_FROZEN_CELLS = 2_000_000  # rows times labels
MOST_FROZEN_CHARACTERS = 10_000_000  # of training; the scored split may have ten times as many
_CHARACTERS_READ = 2_500  # of a text: about what fits into 512 tokens

Predictions = np.ndarray | list[np.ndarray]
Features = Callable[["Split"], Any]  # of a frozen encoder: vectors [rows, features] of about length 1


@dataclass(frozen=True, slots=True)
class Baseline:
    """One simple method's scores, or why it has none."""

    scores: dict[str, float] = field(default_factory=dict)  # by name, and `seconds`
    predicted: Predictions | None = None  # for all scored rows, labelled or not, as `targets_of` has targets
    skipped: str = ""
    note: str = ""
    choice: RankedCandidates | None = None  # of a linear model on n-grams

    def description(self) -> dict[str, Any]:
        """Return the setting of a linear model on n-grams, and the candidates that it was chosen from; {} for others.

        Candidates have their scores in cross-validation on `compared_on` training rows; the one with the least loss
        was chosen.
        """
        if self.choice is None:
            return {}
        candidates = []
        for one in self.choice.candidates:
            candidates.append({"setting": str(one.setting), self.choice.score_name: one.score, "loss": one.loss})
        setting = str(self.choice.setting)
        return {"setting": setting, "candidates": candidates, "compared_on": self.choice.n_rows}


@dataclass(frozen=True, slots=True)
class NGramModel:
    """A linear model of the n-grams of labelled training rows, and how its setting was chosen; both took `seconds`."""

    model: LinearModel
    choice: RankedCandidates
    seconds: float


@dataclass(frozen=True, slots=True)
class _Data:
    """What baselines are fitted and scored on, and how a class of two is decided."""

    train: Split  # labelled rows
    scored: Split
    validation: Split | None  # labelled rows to fit thresholds on; None: there are none
    labels: list[str]
    threshold: ThresholdRule | None
    positive: int

    @property
    def n_labels(self) -> int:
        return len(self.labels)


# Also the probability of the positive one of two classes, [n], from a method that has one
Method = Callable[[_Data], tuple[Predictions, np.ndarray | None]]


def baselines(
    splits: Corpus,
    name: str,
    threshold: ThresholdRule | None = None,
    positive: int = 1,
    *,
    frozen: Features | str,
    on_ngrams: NGramModel | None = None,
) -> dict[str, Baseline]:
    """Fit on the labelled rows of `train`, score on those of the split called `name`; both must hold some.

    Of two classes, the linear models predict the `positive` one from a `threshold` on; thresholds are fitted on
    validation as a model's are. `frozen` computes an encoder's vectors, or says why it is not used. A model `on_ngrams`
    of these training rows is used where there is one already.
    """
    train = labelled(splits.by_name["train"])
    scored = splits.by_name[name]
    assert len(train) and scored.known().any(), "baselines are fitted and scored on labelled rows"
    validation = labelled(splits.by_name["validation"]) if "validation" in splits.by_name else None
    data = _Data(train, scored, validation or None, splits.labels, threshold, positive)
    by_name = {method_name: _run(method, data) for method_name, method in _SIMPLE[data.train.target].items()}
    if data.train.target == "words":
        return by_name
    suffix = "ridge" if data.train.target == "number" else "logreg"
    by_name[f"tfidf_{suffix}"] = _linear_baseline(data, on_ngrams or fit_on_ngrams(train, data.n_labels))
    by_name[f"frozen_encoder_{suffix}"] = _frozen_baseline(frozen, data)
    return by_name


def probes(
    splits: Corpus,
    name: str,
    threshold: ThresholdRule | None = None,
    positive: int = 1,
    *,
    by_layer: Mapping[int, Features],
) -> dict[int, Baseline]:
    """Fit a linear model to the vectors after each layer of an encoder (Alain and Bengio 2016), and score it, as
    `baselines` does the frozen encoder.
    """
    train = labelled(splits.by_name["train"])
    validation = labelled(splits.by_name["validation"]) if "validation" in splits.by_name else None
    data = _Data(train, splits.by_name[name], validation or None, splits.labels, threshold, positive)
    return {layer: _frozen_baseline(vectors, data) for layer, vectors in by_layer.items()}


def _linear_baseline(data: _Data, linear: NGramModel | str) -> Baseline:
    """Return the scores of a linear model of n-grams, or why there is none."""
    if isinstance(linear, str):
        return Baseline(skipped=linear)
    model = linear.model
    baseline = _run(lambda data: _predicted(data, model.predictions, model.probabilities, _rows), data)
    scores = baseline.scores | {"seconds": linear.seconds + baseline.scores["seconds"]}
    return replace(baseline, scores=scores, choice=linear.choice)


def _frozen_baseline(frozen: Features | str, data: _Data) -> Baseline:
    """Return a linear model of the vectors that `frozen` computes, or why there is none."""
    if isinstance(frozen, str):
        return Baseline(skipped=frozen)
    skipped = _cannot_read(data)
    return Baseline(skipped=skipped) if skipped else _run_frozen(frozen, data)


def targets_of(split: Split, n_labels: int) -> Predictions:
    """Return the targets of labelled rows: class ids [n], a mark for each label [n, labels], numbers [n], or an array
    of class ids for each sequence of words.
    """
    if split.target == "words":
        return [np.array(example.labels, np.int64) for example in split.of_words()]
    if split.target != "label_set":
        return _labels(split)
    marks = np.zeros((len(split), n_labels), bool)
    for row, example in enumerate(split.of_texts()):
        if isinstance(example.label, tuple):
            marks[row, list(example.label)] = True
    return marks


def _run(method: Method, data: _Data, note: str = "") -> Baseline:
    started = time.perf_counter()
    predicted, chances = method(data)
    seconds = time.perf_counter() - started
    return Baseline(_scores(data, predicted, chances) | {"seconds": seconds}, predicted, note=note)


def _scores(data: _Data, predicted: Predictions, chances: np.ndarray | None) -> dict[str, float]:
    from sklearn.metrics import average_precision_score

    known = np.flatnonzero(data.scored.known())
    mine = predicted[known] if isinstance(predicted, np.ndarray) else [predicted[row] for row in known]
    truth = targets_of(data.scored.take(known), data.n_labels)
    values = scores_of_predictions(truth, mine, data.labels, "", data.positive).values
    if data.train.target != "label":
        return values
    scores = {name: values[name] for name in ("accuracy", "f1_macro", "matthews")}
    is_positive = np.asarray(truth) == data.positive
    if chances is not None and is_positive.any():
        scores["f1"] = values["f1"]
        scores["average_precision"] = float(average_precision_score(is_positive, chances[known]))
    return scores


def cannot_fit(train: Split, n_labels: int) -> str:
    """Return why a linear model of n-grams cannot or should not be fitted to labelled rows; "" if it can be."""
    rows = len(train)
    if train.target == "label":
        n_labels = len(np.unique(_labels(train)))
        if n_labels < 2:
            return "a linear model needs two labels, but training has one"
    cells = rows * n_labels
    most = MOST_CELLS.get(train.target, math.inf)
    if cells > most:
        return f"a linear model is fitted on at most {most:,} rows times labels, but training has {cells:,}"
    if rows > MOST_ROWS:
        return f"a linear model is fitted on at most {MOST_ROWS:,} rows, but training has {rows:,}"
    has_words = any(map(str.strip, _texts(train)))
    return "" if has_words else "a linear model needs words, but every training text is empty"


def _cannot_read(data: _Data) -> str:
    """Return why the frozen encoder is not fitted to the rows or does not read the scored ones; "" if it does both."""
    if data.train.target == "label" and len(np.unique(_labels(data.train))) < 2:
        return "a linear model needs two labels, but training has one"
    characters = sum(_characters(data.scored))
    most = 10 * MOST_FROZEN_CHARACTERS
    return f"the frozen encoder reads at most {most:,} characters, not {characters:,}" if characters > most else ""


def _run_frozen(vectors: Features, data: _Data) -> Baseline:
    """Fit a linear model to the vectors of as many training rows, evenly spaced, as an encoder reads in little time."""
    rows = len(data.train)
    characters = sum(_characters(data.train))
    most = min(
        MOST_FROZEN_ROWS,
        MOST_FROZEN_CELLS // max(data.n_labels, 1),
        rows * MOST_FROZEN_CHARACTERS // max(characters, 1),
    )
    note = ""
    if rows > most:
        data = replace(data, train=data.train.take(evenly_spaced(rows, most)))
        note = f"was fitted on {len(data.train):,} of the {rows:,} training rows, evenly spaced, which takes less time"
    return _run(lambda data: _linear_on_vectors(data, vectors), data, note)


def _characters(split: Split) -> Iterator[int]:
    return (min(len(text), _CHARACTERS_READ) for text in _texts(split))


def _texts(split: Split) -> Iterator[str]:
    return map(" ".join, _rows(split))  # of a pair, both


def _rows(split: Split) -> list[tuple[str, ...]]:
    return [texts_of(example) for example in split]


def labelled(split: Split) -> Split:
    """Return the rows of a split that have a label."""
    return split.take(np.flatnonzero(split.known()))


def _labels(split: Split) -> np.ndarray:
    return np.array([example.label for example in split.of_texts()])


def fit_on_ngrams(train: Split, n_labels: int) -> NGramModel | str:
    """Return a linear model on TF-IDF of the words or characters of labelled rows, or why there is none."""
    if reason := cannot_fit(train, n_labels):
        return reason
    started = time.perf_counter()
    kind = cast("Kind", train.target)
    rows = _rows(train)
    targets = np.asarray(targets_of(train, n_labels))
    n_outputs = 1 if kind == "number" else n_labels
    try:
        choice = choose(kind, rows, targets, n_outputs)
        model = fit(kind, rows, targets, n_outputs, choice.setting)
    except ValueError:
        return "a linear model needs n-grams, but no training text holds one"
    return NGramModel(model, choice, time.perf_counter() - started)


def _linear_on_vectors(data: _Data, vectors: Features) -> tuple[Predictions, np.ndarray | None]:
    """Predict with a linear model on the vectors of a frozen encoder, its strength chosen by cross-validation."""
    y = np.asarray(targets_of(data.train, data.n_labels))
    model = tuned_on_vectors(cast("Kind", data.train.target), vectors(data.train), y, data.n_labels)

    def probabilities(features: np.ndarray) -> np.ndarray:  # of a single label scikit-learn returns both sides
        return model.predict_proba(features)[:, -data.n_labels :]

    return _predicted(data, model.predict, probabilities, vectors)


def _predicted(
    data: _Data,
    predictions: Callable[[Any], np.ndarray],
    probabilities: Callable[[Any], np.ndarray],
    features: Callable[[Split], Any],
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return what a fitted model predicts for each scored row: its number or class, or a mark for each label; and of
    two classes, the probability of the positive one.

    The model makes `predictions` and `probabilities` of the `features` of a split. It predicts from the threshold on;
    thresholds of sets of labels are fitted on validation.
    """
    scored = features(data.scored)
    if data.train.target == "label_set":
        thresholds = np.full(data.n_labels, DEFAULT)
        if data.validation is not None:
            marks = np.asarray(targets_of(data.validation, data.n_labels))
            thresholds = fit_thresholds(probabilities(features(data.validation)), marks)
        return probabilities(scored) >= thresholds, None
    if data.train.target == "number" or data.n_labels != 2:
        return np.asarray(predictions(scored)), None
    chances = probabilities(scored)[:, data.positive]
    if data.threshold is None:
        threshold = DEFAULT
    elif data.threshold.known is not None:
        threshold = data.threshold.known
    elif data.validation is not None:
        on_validation = probabilities(features(data.validation))[:, data.positive]
        threshold = data.threshold.on(on_validation, _labels(data.validation) == data.positive)
    else:
        threshold = DEFAULT
    return np.where(chances >= threshold, data.positive, 1 - data.positive), chances


def _majority(data: _Data) -> tuple[np.ndarray, np.ndarray | None]:
    n = len(data.scored)
    most_frequent = np.bincount(_labels(data.train)).argmax()
    chances = np.zeros(n) if data.n_labels == 2 else None
    return np.full(n, most_frequent), chances


def _majority_set(data: _Data) -> tuple[np.ndarray, None]:
    most_frequent = np.sum(targets_of(data.train, data.n_labels), axis=0).argmax()
    return np.tile(np.arange(data.n_labels) == most_frequent, (len(data.scored), 1)), None


def _majority_of_words(data: _Data) -> tuple[list[np.ndarray], None]:
    overall = Counter(label for example in data.train.of_words() for label in example.labels or ())
    most_frequent = overall.most_common(1)[0][0]
    return [np.full(len(example.words), most_frequent) for example in data.scored.of_words()], None


def _majority_of_each_word(data: _Data) -> tuple[list[np.ndarray], None]:
    overall = Counter[int]()
    by_word = defaultdict[str, Counter[int]](Counter)
    for example in data.train.of_words():
        overall.update(example.labels or ())
        for word, label in zip(example.words, example.labels or (), strict=False):
            by_word[word][label] += 1
    best = {word: counts.most_common(1)[0][0] for word, counts in by_word.items()}
    for_new_words = overall.most_common(1)[0][0]
    predicted = []
    for example in data.scored.of_words():
        predicted.append(np.array([best.get(word, for_new_words) for word in example.words], np.int64))
    return predicted, None


def _mean(data: _Data) -> tuple[np.ndarray, None]:
    return np.full(len(data.scored), _labels(data.train).mean()), None


_SIMPLE: dict[str, dict[str, Method]] = {
    "label": {"majority": _majority},
    "label_set": {"majority": _majority_set},
    "words": {"majority": _majority_of_words, "word_majority": _majority_of_each_word},
    "number": {"mean": _mean},
}
