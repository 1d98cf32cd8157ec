"""Baselines: simple methods fitted on the same rows, to show whether training an encoder was worth it.

Texts: `majority` (always the most frequent label), `tfidf_logreg`, and `frozen_encoder_logreg` on the vectors of an
encoder that is not trained. Sets of labels: the same for each label. Words: `majority` and `word_majority` (each
word's most frequent label, the most frequent overall if a word is new). Numbers: `mean`, `tfidf_ridge` and
`frozen_encoder_ridge`.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.data.examples import Split, Splits, TextExample
from encoderlab.metrics import scores_of_predictions
from encoderlab.metrics.calibration import DEFAULT, ThresholdRule, fit_thresholds
from encoderlab.metrics.texts import predict_from

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

# Beyond these a linear model would take longer than many a training run.
MOST_ROWS = 200_000
MOST_CELLS = 5_000_000  # rows times labels of one regression of all labels
MOST_CELLS_OF_SETS = 20_000_000  # of one regression for each label
# A frozen encoder reads about as much as a short run does, and the rest of the training rows is left out.
MOST_FROZEN_ROWS = 20_000
MOST_FROZEN_CELLS = 2_000_000  # rows times labels
MOST_FROZEN_CHARACTERS = 10_000_000  # of training; the scored split may have ten times as many
_CHARACTERS_READ = 2_500  # of a text: about what fits into 512 tokens
_TUNING_CELLS = 200_000  # rows times labels that the regularization is chosen on
_FOLDS = 5
_STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # of C, for vectors of length 1
N_TOP = 100  # words kept for each class
_FEATURES = 100_000  # the most frequent ones; scores as well as all of them, and bounds the memory
_WEIGHTS = 20_000_000  # features times labels of one regression; its solver takes 240 bytes for each

Predictions = np.ndarray | list[np.ndarray]
Vectors = Callable[["Split"], np.ndarray]  # the vectors of a frozen encoder, [rows, features], of about length 1
TopFeatures = dict[int, list[str]]


@dataclass(frozen=True, slots=True)
class Baseline:
    """One simple method's scores, or why it has none.

    `scores` holds `seconds` and each score by its name. `predicted` has a prediction for every row of the scored split,
    labelled or not, as `targets_of` has targets. `top_features` has the words and bigrams that count most for each
    class of a linear model, the strongest first.
    """

    scores: dict[str, float] = field(default_factory=dict)
    predicted: Predictions | None = None
    skipped: str = ""
    top_features: dict[int, list[str]] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Data:
    """The labelled rows to fit on, the rows to score, those of validation to fit thresholds on (None: there are none),
    how a class of two is decided, and the vectors of a frozen encoder.
    """

    train: Split
    scored: Split
    validation: Split | None
    labels: list[str]
    threshold: ThresholdRule | None
    positive: int
    vectors: Vectors

    @property
    def n_labels(self) -> int:
        return len(self.labels)


Method = Callable[[_Data], tuple[Predictions, TopFeatures]]


def baselines(
    splits: Splits, name: str, threshold: ThresholdRule | None = None, positive: int = 1, *, frozen: Vectors | str
) -> dict[str, Baseline]:
    """Fit on the labelled rows of `train`, score on those of the split called `name`; both must hold some.

    Of two classes, the linear models predict the `positive` one from a `threshold` on; thresholds are fitted on
    validation as a model's are. `frozen` computes an encoder's vectors, or says why it is not used.
    """
    train, scored = _labelled(splits.by_name["train"]), splits.by_name[name]
    assert len(train) and scored.labelled, "baselines are fitted and scored on labelled rows"
    kind = "words" if train.holds_words else train.target
    validation = _labelled(splits.by_name["validation"]) if "validation" in splits.by_name else None
    vectors = _no_vectors if isinstance(frozen, str) else frozen
    data = _Data(train, scored, validation or None, splits.labels, threshold, positive, vectors)
    linear = _cannot_fit(kind, train, len(splits.labels))
    by_name = {}
    for method_name, method in _METHODS[kind].items():
        if method_name.startswith("frozen"):
            skipped = frozen if isinstance(frozen, str) else _cannot_read(data)
            by_name[method_name] = _run_frozen(method, data, skipped)
        else:
            by_name[method_name] = _run(method, data, linear if method_name.startswith("tfidf") else "")
    return by_name


def targets_of(split: Split, n_labels: int) -> Predictions:
    """Return the targets of labelled rows: class ids [n], a mark for each label [n, labels], numbers [n], or an array
    of class ids for each sequence of words.
    """
    if split.holds_words:
        return [np.array(example.labels, np.int64) for example in split.of_words()]
    return marks_of(split, n_labels) if split.target == "label_set" else _labels(split)


def marks_of(split: Split, n_labels: int) -> np.ndarray:
    """Return which labels each row has: bool [rows, labels]."""
    marks = np.zeros((len(split), n_labels), bool)
    for row, example in enumerate(split.of_texts()):
        marks[row, list(example.label) if isinstance(example.label, tuple) else []] = True
    return marks


def whole_text(example: TextExample) -> str:
    """Return the text, or both texts of a pair with a blank between them."""
    return example.text if example.text_pair is None else f"{example.text} {example.text_pair}"


def tfidf(n_labels: int = 1) -> TfidfVectorizer:
    """Return TF-IDF of words, punctuation marks and bigrams, fewer of them for one regression of over 200 labels.

    Brackets and punctuation are separate tokens, so that texts made of nothing else can be distinguished.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    most = min(_FEATURES, _WEIGHTS // n_labels)
    return TfidfVectorizer(token_pattern=r"\w+|[^\w\s]", ngram_range=(1, 2), max_features=most)


def _run(method: Method, data: _Data, skipped: str = "") -> Baseline:
    if skipped:
        return Baseline(skipped=skipped)
    started = time.perf_counter()
    predicted, top_features = method(data)
    seconds = time.perf_counter() - started
    return Baseline(_scores(data, predicted) | {"seconds": seconds}, predicted, top_features=top_features)


def _scores(data: _Data, predicted: Predictions) -> dict[str, float]:
    known = np.flatnonzero(data.scored.known())
    mine = predicted[known] if isinstance(predicted, np.ndarray) else [predicted[row] for row in known]
    truth = targets_of(data.scored.take(known), data.n_labels)
    values = scores_of_predictions(truth, mine, data.labels, "", data.positive).values
    is_class = not data.scored.holds_words and data.scored.target == "label"
    return {name: values[name] for name in (("accuracy", "f1_macro", "matthews") if is_class else values)}


def _run_frozen(method: Method, data: _Data, skipped: str) -> Baseline:
    """Run a method on the encoder's vectors, with as many training rows, evenly spaced, as are read in little time."""
    if skipped:
        return Baseline(skipped=skipped)
    characters, rows = sum(_characters(data.train)), len(data.train)
    most = min(MOST_FROZEN_ROWS, MOST_FROZEN_CELLS // max(data.n_labels, 1))
    most = min(most, rows * MOST_FROZEN_CHARACTERS // max(characters, 1))
    if rows <= most:
        return _run(method, data)
    fewer = data.train.take(np.unique(np.linspace(0, rows - 1, most).astype(np.int64)))
    note = f"was fitted on {len(fewer):,} of the {rows:,} training rows, evenly spaced, which takes less time"
    return replace(_run(method, replace(data, train=fewer)), note=note)


def _no_vectors(split: Split) -> np.ndarray:
    raise AssertionError("the frozen encoder is skipped")


def _cannot_fit(kind: str, train: Split, n_labels: int) -> str:
    """Return why a linear model of words cannot or should not be fitted to the rows; "" if it can be."""
    if kind == "words":
        return ""
    if kind == "label" and (n_labels := len(np.unique(_labels(train)))) < 2:
        return "the linear baseline needs two labels, but training has one"
    most = {"label": MOST_CELLS, "label_set": MOST_CELLS_OF_SETS}.get(kind)
    if most is not None and len(train) * n_labels > most:
        more = f"training has {len(train) * n_labels:,}"
        return f"the linear baseline is fitted on at most {most:,} rows times labels, but {more}"
    if len(train) > MOST_ROWS:
        return f"the linear baseline is fitted on at most {MOST_ROWS:,} rows, but training has {len(train):,}"
    if not any(map(str.strip, _texts(train))):
        return "the linear baseline needs words, but every training text is empty"
    return ""


def _cannot_read(data: _Data) -> str:
    """Return why the frozen encoder is not fitted to the rows or does not read the scored ones; "" if it does both."""
    if data.train.target == "label" and len(np.unique(_labels(data.train))) < 2:
        return "a linear model needs two labels, but training has one"
    if (characters := sum(_characters(data.scored))) > 10 * MOST_FROZEN_CHARACTERS:
        return f"the frozen encoder reads at most {10 * MOST_FROZEN_CHARACTERS:,} characters, not {characters:,}"
    return ""


def _characters(split: Split) -> Iterator[int]:
    return (min(len(whole_text(example)), _CHARACTERS_READ) for example in split.of_texts())


def _texts(split: Split) -> list[str]:
    return [whole_text(example) for example in split.of_texts()]


def _labelled(split: Split) -> Split:
    return split.take(np.flatnonzero(split.known()))


def _labels(split: Split) -> np.ndarray:
    return np.array([example.label for example in split.of_texts()])


def _single_thread() -> AbstractContextManager[Any]:
    """Solvers' vectors are too short for more threads: two busy cores took 22 s where one takes 3."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def _with_tuned(model: Any, setting: str, data: _Data, x: np.ndarray, y: np.ndarray, scoring: str) -> Any:
    """Return the model fitted to all rows, with `setting` chosen from _STRENGTHS by cross-validation.

    It is chosen on a part of many rows. With a label of a single row, the model keeps its own.
    """
    from sklearn.model_selection import GridSearchCV

    some = np.unique(np.linspace(0, len(y) - 1, min(len(y), _TUNING_CELLS // max(data.n_labels, 1))).astype(np.int64))
    rarest = np.unique(y[some], return_counts=True)[1].min() if y.ndim == 1 else len(some)
    if (folds := min(_FOLDS, rarest)) >= 2:
        search = GridSearchCV(model, {setting: _STRENGTHS}, scoring=scoring, cv=folds).fit(x[some], y[some])
        model.set_params(**search.best_params_)
    return model.fit(x, y)


# One label for a text


def _majority(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    return np.full(len(data.scored), np.bincount(_labels(data.train)).argmax()), {}


def _logistic_regression(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    """Predict with logistic regression on TF-IDF.

    On the validation split of SST-2 82.2 percent right, on 2,000 test rows of Amazon polarity (13,000 to train on)
    89.6. The settings were chosen among some forty on such rows, most of which lay within a standard error.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    labels = _labels(data.train)
    words = tfidf(len(np.unique(labels)))
    regression = LogisticRegression(C=10, tol=1e-6, max_iter=1000, random_state=0)
    with _single_thread():
        model: Any = make_pipeline(words, regression).fit(_texts(data.train), labels)
        weights = np.asarray(regression.coef_)
        by_class = weights if len(weights) > 1 else [-weights[0], weights[0]]  # of two, one opposes the other
        top = _top_features(words, dict(zip(regression.classes_.tolist(), by_class, strict=True)))
        return _predicted_classes(data, model, _texts), top


def _frozen_logistic_regression(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    """Predict with logistic regression on the vectors of a frozen encoder."""
    from sklearn.linear_model import LogisticRegression

    x, y = data.vectors(data.train), _labels(data.train)
    with _single_thread():
        model = _with_tuned(LogisticRegression(C=10, max_iter=1000), "C", data, x, y, "neg_log_loss")
    return _predicted_classes(data, model, data.vectors), {}


def _predicted_classes(data: _Data, model: Any, features: Callable[[Split], Any]) -> np.ndarray:
    """Return the class that a fitted model predicts for each scored row; of two, the positive from the threshold on."""
    if data.threshold is None:
        return model.predict(features(data.scored))
    least = DEFAULT if data.threshold.known is None else data.threshold.known
    if data.threshold.known is None and data.validation is not None:
        probabilities = model.predict_proba(features(data.validation))[:, data.positive]
        least = data.threshold.on(probabilities, _labels(data.validation) == data.positive)
    return predict_from(model.predict_proba(features(data.scored))[:, data.positive], least, data.positive)


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
    with _single_thread(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Label")  # constant labels
        model.fit(words.fit_transform(_texts(data.train)), marks_of(data.train, data.n_labels).astype(int))
        predicted = _predicted_sets(data, model, lambda split: words.transform(_texts(split)))
    fitted: Any = model.estimators_
    weights = {id_: one.coef_[0] for id_, one in enumerate(fitted) if hasattr(one, "coef_")}
    return predicted, _top_features(words, weights)


def _frozen_regression_for_each_label(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    """Predict each label with a logistic regression of its own on the vectors of a frozen encoder."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    x, y = data.vectors(data.train), marks_of(data.train, data.n_labels).astype(int)
    with _single_thread(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Label")
        regressions = OneVsRestClassifier(LogisticRegression(C=10, max_iter=1000))
        model = _with_tuned(regressions, "estimator__C", data, x, y, "f1_micro")
    return _predicted_sets(data, model, data.vectors), {}


def _predicted_sets(data: _Data, model: Any, features: Callable[[Split], Any]) -> np.ndarray:
    """Return a mark for each label of each scored row, from thresholds fitted on validation: bool [rows, labels]."""

    def probabilities(split: Split) -> np.ndarray:  # of a single label scikit-learn returns both sides
        return model.predict_proba(features(split))[:, -data.n_labels :]

    thresholds = np.full(data.n_labels, DEFAULT)
    if data.validation is not None:
        marks = marks_of(data.validation, data.n_labels)
        thresholds = fit_thresholds(probabilities(data.validation), marks)
    return probabilities(data.scored) >= thresholds


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


# A number for a text


def _mean(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    return np.full(len(data.scored), _labels(data.train).mean()), {}


def _ridge_regression(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    with _single_thread():
        model: Any = make_pipeline(tfidf(), Ridge(random_state=0)).fit(_texts(data.train), _labels(data.train))
        return np.asarray(model.predict(_texts(data.scored))), {}


def _frozen_ridge_regression(data: _Data) -> tuple[np.ndarray, TopFeatures]:
    """Predict with ridge regression on the vectors of a frozen encoder."""
    from sklearn.linear_model import RidgeCV

    x = data.vectors(data.train)
    with _single_thread():
        model = RidgeCV(alphas=[1 / strength for strength in (0.1, *_STRENGTHS)]).fit(x, _labels(data.train))
    return np.asarray(model.predict(data.vectors(data.scored))), {}


_METHODS: dict[str, dict[str, Method]] = {
    "label": {
        "majority": _majority,
        "tfidf_logreg": _logistic_regression,
        "frozen_encoder_logreg": _frozen_logistic_regression,
    },
    "label_set": {
        "majority": _majority_set,
        "tfidf_logreg": _regression_for_each_label,
        "frozen_encoder_logreg": _frozen_regression_for_each_label,
    },
    "words": {"majority": _majority_of_words, "word_majority": _majority_of_each_word},
    "number": {"mean": _mean, "tfidf_ridge": _ridge_regression, "frozen_encoder_ridge": _frozen_ridge_regression},
}
