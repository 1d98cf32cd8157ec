"""The linear baseline against the lines that a person would write, on the suite: `python -m benchmarks linear`.

The lines are scikit-learn's vectorizer and regression with fixed settings. All are fitted to the training rows and
scored on the same rows, without thresholds fitted on validation.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.processes import grid, provenance
from encoderlab.linear.choice import choose
from encoderlab.linear.model import Kind, Row, fit, quietly

LINEAR_SETS: Mapping[str, Kind] = {
    **dict.fromkeys(("subjectivity", "sms_spam", "clinc150", "tweet_offensive", "bbc_news"), "label"),
    **dict.fromkeys(("financial_phrasebank", "qqp_sample", "mnli_sample", "germeval2018", "gnad_sample"), "label"),
    **{"reuters21578": "label_set", "goemotions": "label_set", "sick_relatedness": "number"},
}
LINES: Mapping[str, Mapping[str, Any]] = {
    "words and marks 1-2, raw": {"token_pattern": r"\w+|[^\w\s]", "ngram_range": (1, 2), "max_features": 100_000},
    "TfidfVectorizer()": {},
    "words 1-2, sublinear": {"ngram_range": (1, 2), "sublinear_tf": True},
    "char_wb 2-5, sublinear": {"analyzer": "char_wb", "ngram_range": (2, 5), "sublinear_tf": True},
}
SCORES: Mapping[Kind, str] = {"label": "accuracy", "label_set": "micro F1", "number": "Pearson"}
RESAMPLES = 200  # of the scored rows, for standard errors


@dataclass(frozen=True, slots=True)
class Rows:
    """Texts, or pairs, and their targets, as `encoderlab.linear.model.fit` has them."""

    rows: Sequence[Row]
    targets: np.ndarray


def linear(suite: Path, sets: Sequence[str], split: str) -> None:
    """Fit the lines and the baseline to each set, and print a table of their scores."""
    table = []
    for name in sets:
        table.append(_compared(suite / name, LINEAR_SETS[name], split))
        print(f"  {' '.join(table[-1])}", file=sys.stderr)
    columns = [f"score on {split}", *LINES, "the baseline", "seconds", "chosen", "ahead of the best line", "±"]
    print("\n".join([*grid(["set", *columns], table), "", f"{provenance()}."]))


def _compared(folder: Path, kind: Kind, split: str) -> list[str]:
    """Return a row of the table: the seconds are processor time, of the choice and the fit."""
    train, scored = _read(folder, kind, split)
    n_outputs = {"label": int(train.targets.max()) + 1, "label_set": train.targets.shape[-1], "number": 1}[kind]
    started = time.process_time()
    setting = choose(kind, train.rows, train.targets, n_outputs).setting
    model = fit(kind, train.rows, train.targets, n_outputs, setting)
    seconds = time.process_time() - started
    own = model.predictions(scored.rows)
    lines = [_predicted(kind, options, train, scored.rows) for options in LINES.values()]
    scores = [_score(kind, scored.targets, line) for line in lines]
    best = int(np.argmax(scores))
    score = _score(kind, scored.targets, own)
    # The standard error of the difference on the same rows.
    differences = []
    for some in _resampled(len(own)):
        target = scored.targets[some]
        differences.append(_score(kind, target, own[some]) - _score(kind, target, lines[best][some]))
    others = [f"{one:.3f}" for one in scores]
    ahead = [f"{score - scores[best]:+.3f}", f"{np.std(differences):.3f}"]
    return [folder.name, SCORES[kind], *others, f"{score:.3f}", f"{seconds:.1f}", str(setting), *ahead]


def _read(folder: Path, kind: Kind, split: str) -> tuple[Rows, Rows]:
    """Return the training rows and those of another split, whose classes and labels are numbered alike."""
    tables = []
    for name in ("train", split):
        tables.append(pd.read_csv(folder / f"{name}.csv", dtype=str, keep_default_na=False, encoding="utf-8-sig"))
    column = "labels" if kind == "label_set" else "label"
    known = tables[0][column].str.split("|").explode() if kind == "label_set" else tables[0][column]
    number_of = {name: number for number, name in enumerate(sorted(set(known)))}
    return tuple(Rows(_texts(table), _targets(table[column], kind, number_of)) for table in tables)


def _texts(table: pd.DataFrame) -> list[Row]:
    columns = ["text_a", "text_b"] if "text_a" in table else ["text"]
    return [tuple(row) for row in table[columns].to_numpy()]


def _targets(labels: pd.Series, kind: Kind, number_of: Mapping[str, int]) -> np.ndarray:
    if kind == "number":
        return labels.to_numpy(float)
    if kind == "label":
        return np.array([number_of.get(label, -1) for label in labels])
    marks = np.zeros((len(labels), len(number_of)), bool)
    for row, names in enumerate(labels):
        marks[row, [number_of[name] for name in names.split("|") if name in number_of]] = True
    return marks


def _predicted(kind: Kind, options: Mapping[str, Any], train: Rows, rows: Sequence[Row]) -> np.ndarray:
    """Return what a person's line predicts; pairs are read as one text."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier

    vectorizer = TfidfVectorizer(**options)
    model = {
        "label": LogisticRegression(C=10, max_iter=1000),
        "label_set": OneVsRestClassifier(LogisticRegression(C=10, solver="liblinear")),
        "number": Ridge(),
    }[kind]
    with quietly():
        model.fit(vectorizer.fit_transform(map(" ".join, train.rows)), train.targets)
        predicted = model.predict(vectorizer.transform(map(" ".join, rows)))
    return np.asarray(predicted, bool) if kind == "label_set" else np.asarray(predicted)


def _score(kind: Kind, targets: np.ndarray, predicted: np.ndarray) -> float:
    if kind == "label":
        return float((targets == predicted).mean())
    if kind == "label_set":
        return float(2 * (targets & predicted).sum() / max(targets.sum() + predicted.sum(), 1))
    return float(np.corrcoef(targets, predicted)[0, 1])


def _resampled(n: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    for _ in range(RESAMPLES):
        yield rng.integers(n, size=n)
