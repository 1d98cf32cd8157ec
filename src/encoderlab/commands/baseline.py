"""encoderlab baseline: the scores of simple models without an encoder, the same that reports show next to an encoder's."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from encoderlab.baselines.supervised import Answers, Baseline, baselines, marks_of
from encoderlab.config.commands import BaselineConfig, TableFormat
from encoderlab.data.examples import Split, WordsExample
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.thresholds import ThresholdRule
from encoderlab.reports.preparation import build_baseline_report, show_baselines
from encoderlab.runs.assembly import cache_folder
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.task import settled_task
from encoderlab.system.files import atomic_write_text
from encoderlab.tasks.config import (
    ClassificationConfig,
    DocumentTaskConfig,
    MultilabelConfig,
    RegressionConfig,
    TaggingConfig,
    TaskConfig,
)
from encoderlab.tasks.texts import positive_class, threshold_rule


@dataclass(frozen=True, slots=True)
class FittedBaselines:
    """The baselines of a dataset by name, and the rows of `split` that they were scored on with the right answers to
    them.
    """

    corpus: Corpus
    split: str
    rows: Split
    labels: Answers
    found: Mapping[str, Baseline]
    positive: int


def baseline(config: BaselineConfig) -> dict[str, Any]:
    """Fit and score the simple models; print their figures, and write them to `output` if it is set.

    Raises DataError if the rows have no labels or do not suit the task, SettingError.
    """
    if config.output is not None and (not config.output or Path(config.output).exists()):
        wrong = f"output={config.output} already exists" if config.output else "output is empty"
        raise SettingError(wrong, allowed="a new file", remedy="Choose another name")
    fitted = fit_baselines(config)
    report = report_of(config, fitted) | {"origin": fitted.corpus.splits.origin}
    _hand_over(config, report)
    return report


def fit_baselines(config: BaselineConfig) -> FittedBaselines:
    """Fit on the training split, and answer for the split to score. Raises DataError and SettingError as `baseline`
    does.
    """
    if isinstance(config.task, DocumentTaskConfig):
        raise SettingError(
            f"task={config.task.name} has no labels to learn", remedy="Use task=intents or another task with labels"
        )
    corpus = Corpus.load(config.dataset, cache_folder(config.cache_dir), config.task.target)
    corpus.check_training_labels()
    split, positive = _split(config, corpus), _positive(config.task, corpus)
    rows = corpus.split(split)
    found = baselines(corpus.splits, split, _threshold(config.task), positive)
    return FittedBaselines(corpus, split, rows, _labels(rows, len(corpus.labels)), found, positive)


def report_of(config: BaselineConfig, fitted: FittedBaselines, main: str | None = None) -> dict[str, Any]:
    """Return the report of fitted baselines; `main` is the main figure (None: the task's own)."""
    return build_baseline_report(
        task=config.task.name,
        seed=config.seed,
        split=fitted.split,
        labels=fitted.labels,
        names=fitted.corpus.labels,
        found=fitted.found,
        words=config.words,
        main=main or _main(config.task, fitted.corpus.labels),
        positive=fitted.positive,
    )


def _split(config: BaselineConfig, corpus: Corpus) -> str:
    """Return the split to score. Raises DataError if none has labels, or its rows do not suit the task."""
    split = config.split or corpus.scored_splits()[-1]
    if not len(corpus.split(split)) or not corpus.labelled(split):
        raise DataError(f"split={split} has no labels to score on", allowed=", ".join(corpus.scored_splits()))
    holds_words = isinstance(corpus.split("train")[0], WordsExample)
    if holds_words != isinstance(config.task, TaggingConfig):
        held, fitting = (
            ("sequences of labelled words", "tagging") if holds_words else ("labelled texts", "classification")
        )
        raise DataError(
            f"This dataset holds {held}, which do not suit task={config.task.name}", remedy=f"Use task={fitting}"
        )
    return split


def _main(task: TaskConfig, labels: Sequence[str]) -> str:
    """Return the name of the figure to show first."""
    if isinstance(task, TaggingConfig):
        return task.figure(labels)
    if isinstance(task, ClassificationConfig | MultilabelConfig | RegressionConfig):
        return task.score.value
    return "accuracy"


def _threshold(task: TaskConfig) -> ThresholdRule | None:
    return threshold_rule(task) if isinstance(task, ClassificationConfig) else None


def _positive(task: TaskConfig, corpus: Corpus) -> int:
    """Return the id of the positive class of a binary task."""
    settled = settled_task(task, corpus)
    return positive_class(settled, corpus.labels) if isinstance(settled, ClassificationConfig) else 1


def _labels(split: Split, n_labels: int) -> Answers:
    if split.target == "label_set":
        return marks_of(split, n_labels)
    if isinstance(split[0], WordsExample):
        return [np.array(example.labels, dtype=np.int64) for example in split.of_words()]
    return np.array([example.label for example in split.of_texts()])


def _hand_over(config: BaselineConfig, report: dict[str, Any]) -> None:
    plain = json.dumps(report, indent=2, ensure_ascii=False, default=str)
    if config.output is not None:
        try:
            atomic_write_text(Path(config.output), f"{plain}\n")
        except OSError as error:
            raise DataError(
                f"output={config.output} cannot be written: {error.strerror}", remedy="Choose another file"
            ) from None
    if config.format is TableFormat.json:
        print(plain)
    else:
        show_baselines(report, sys.stdout)
