"""What needs no encoder: answers of simple methods fitted on the same rows, to say whether training one was worth it."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from encoderlab.data.examples import Split, TextExample, WordsExample
from encoderlab.metrics.scores import WITHOUT_WARNING

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

MOST_ROWS = 200_000  # beyond this the linear model would take longer than many a training
_FEATURES = 100_000  # the most frequent ones; scores as well as all of them, and bounds the memory
_TELLING = 100  # words of each class

Answers = np.ndarray | list[np.ndarray]


@dataclass(frozen=True, slots=True)
class Baseline:
    """One simple method's scores, or why it has none.

    `figures` holds `accuracy`, `f1_macro`, `seconds`, and for tagging `token_accuracy`. `predicted` holds class ids for every row
    of the scored split, labelled or not: [n] for texts, one array per sequence for words. `top_features` holds what speaks for each
    class of a linear model, words and pairs of neighbours, the strongest first.
    """

    figures: dict[str, float] = field(default_factory=dict)
    predicted: Answers | None = None
    skipped: str = ""
    top_features: dict[int, list[str]] = field(default_factory=dict)


def baselines(train: Split, scored: Split) -> dict[str, Baseline]:
    """Fit on the labelled rows of `train`, score on those of `scored`.

    Texts: `majority` (always the most frequent label) and `tfidf_logreg`. Words: `majority` and `word_majority` (each word's most
    frequent label, the most frequent overall where a word is new). Both splits must hold labelled rows.
    """
    assert train.labelled and scored.labelled, "baselines are fitted and scored on labelled rows"
    return _for_words(train, scored) if isinstance(scored[0], WordsExample) else _for_texts(train, scored)


def planned(train: Split) -> dict[str, str]:
    """The baselines that `baselines` would fit, each with why it would be skipped, "" where it would not."""
    if isinstance(train[0], WordsExample):
        return {"majority": "", "word_majority": ""}
    return {"majority": "", "tfidf_logreg": _cannot_fit(train, _answers(train))}


def _answers(train: Split) -> np.ndarray:
    """The known labels: [labelled rows]."""
    return np.array([example.label for example in train.of_texts() if example.label is not None])


def _for_texts(train: Split, scored: Split) -> dict[str, Baseline]:
    from threadpoolctl import threadpool_limits

    labels = np.array([-1 if example.label is None else example.label for example in scored.of_texts()])
    answers = _answers(train)

    def majority() -> np.ndarray:
        return np.full(len(scored), np.bincount(answers).argmax())

    model = _linear_model()

    def linear() -> np.ndarray:
        texts = [_joined(example) for example in train.of_texts() if example.label is not None]
        with threadpool_limits(1):  # the solver's vectors are too short for more: two busy cores took 22 s where one takes 3
            return model.fit(texts, answers).predict([_joined(example) for example in scored.of_texts()])

    reason = _cannot_fit(train, answers)
    return {
        "majority": _timed(majority, labels),
        "tfidf_logreg": Baseline(skipped=reason) if reason else replace(_timed(linear, labels), top_features=_top_features(model)),
    }


def _top_features(fitted: Pipeline) -> dict[int, list[str]]:
    """The features with the largest weights for each class of training; of two, what speaks for one speaks against the other."""
    features, linear = cast("TfidfVectorizer", fitted["tfidf"]), cast("LogisticRegression", fitted["logreg"])
    names, weights = np.asarray(features.get_feature_names_out()), np.asarray(linear.coef_)
    by_class = weights if len(weights) > 1 else np.stack([-weights[0], weights[0]])
    best = [np.argsort(-row, kind="stable")[:_TELLING] for row in by_class]
    return {
        int(class_): [str(names[place]) for place in places if row[place] > 0]
        for class_, row, places in zip(linear.classes_, by_class, best, strict=True)
    }


def _linear_model() -> Pipeline:
    """Logistic regression on TF-IDF of words, single marks and pairs of neighbours.

    On the validation split of SST-2 82.2 percent right, on 2,000 test rows of Amazon polarity (13,000 to train on) 89.6. The
    settings were chosen among some forty on such rows, most of which lay within a standard error. Brackets and punctuation are
    tokens of their own, so that texts made of nothing else can be told apart.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

    features = TfidfVectorizer(token_pattern=r"\w+|[^\w\s]", ngram_range=(1, 2), max_features=_FEATURES)
    return Pipeline([("tfidf", features), ("logreg", LogisticRegression(C=10, tol=1e-6, max_iter=1000, random_state=0))])


def _cannot_fit(train: Split, answers: np.ndarray) -> str:
    """Why the linear model cannot or should not be fitted; "" where it can."""
    if len(answers) > MOST_ROWS:
        return f"the linear baseline is fitted on at most {MOST_ROWS:,} rows, and training has {len(answers):,}"
    if len(np.unique(answers)) < 2:
        return "the linear baseline needs two labels to tell apart, and training has one"
    if not any(_joined(example).strip() for example in train.of_texts() if example.label is not None):
        return "the linear baseline needs words, and every training text is empty"
    return ""


def _joined(example: TextExample) -> str:
    return example.text if example.text_pair is None else f"{example.text} {example.text_pair}"


def _for_words(train: Split, scored: Split) -> dict[str, Baseline]:
    labels = [None if example.labels is None else np.array(example.labels, dtype=np.int64) for example in scored.of_words()]
    overall, by_word = _label_counts(train)
    most_frequent = overall.most_common(1)[0][0]
    best = {word: counts.most_common(1)[0][0] for word, counts in by_word.items()}

    def majority() -> list[np.ndarray]:
        return [np.full(len(example.words), most_frequent) for example in scored.of_words()]

    def word_majority() -> list[np.ndarray]:
        return [
            np.array([best.get(word, most_frequent) for word in example.words], dtype=np.int64) for example in scored.of_words()
        ]

    return {"majority": _timed(majority, labels), "word_majority": _timed(word_majority, labels)}


def _label_counts(train: Split) -> tuple[Counter[int], dict[str, Counter[int]]]:
    """How often each label occurs, and how often on each word."""
    overall: Counter[int] = Counter()
    by_word: dict[str, Counter[int]] = defaultdict(Counter)
    for example in train.of_words():
        if example.labels is not None:
            overall.update(example.labels)
            for word, label in zip(example.words, example.labels, strict=True):
                by_word[word][label] += 1
    return overall, by_word


def _timed(answer: Callable[[], Answers], labels: np.ndarray | list[np.ndarray | None]) -> Baseline:
    """Call `answer`, score what it says of the labelled rows, and say how long it took."""
    started = time.perf_counter()
    predicted = answer()
    seconds = time.perf_counter() - started
    return Baseline(_figures(labels, predicted) | {"seconds": seconds}, predicted)


def _figures(labels: np.ndarray | list[np.ndarray | None], predicted: Answers) -> dict[str, float]:
    if isinstance(labels, np.ndarray):
        assert isinstance(predicted, np.ndarray)
        asked = labels >= 0
        return {"accuracy": float((labels[asked] == predicted[asked]).mean()), **_f1(labels[asked], predicted[asked])}
    pairs = [(a, b) for a, b in zip(labels, predicted, strict=True) if a is not None and len(a)]
    flat_labels, flat_predicted = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return {
        "token_accuracy": float((flat_labels == flat_predicted).mean()),
        "accuracy": float(np.mean([(a == b).all() for a, b in pairs])),
        **_f1(flat_labels, flat_predicted),
    }


def _f1(labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    from sklearn.metrics import f1_score

    return {"f1_macro": float(f1_score(labels, predicted, average="macro", zero_division=WITHOUT_WARNING))}
