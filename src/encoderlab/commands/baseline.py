"""encoderlab baseline: the scores of simple models without an encoder, the same that reports show next to
an encoder's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np

from encoderlab.baselines.supervised import Answers, baselines, marks_of
from encoderlab.config.commands import BaselineConfig, TableFormat
from encoderlab.data.examples import Split, WordsExample
from encoderlab.errors import DataError, SettingError
from encoderlab.reports.preparation import build_baseline_report, show_baselines
from encoderlab.runs.assembly import cache_folder
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.task import settled_task
from encoderlab.system.files import atomic_write_text
from encoderlab.tasks.config import ClassificationConfig, DocumentTaskConfig, TaggingConfig
from encoderlab.tasks.texts import positive_class, threshold_rule


def baseline(config: BaselineConfig) -> dict[str, Any]:
    """Fit and score the simple models; print their scores, and write them to `output` if it is set.

    Raises DataError if the rows have no labels or do not suit the task, SettingError.
    """
    if config.output is not None and Path(config.output).exists():
        wrong = f"output={config.output} already exists"
        raise SettingError(wrong, allowed="a new file", remedy="Choose another name")
    report = fitted_report(config)
    plain = json.dumps(report, indent=2, ensure_ascii=False, default=str)
    if config.output is not None:
        try:
            atomic_write_text(Path(config.output), f"{plain}\n")
        except OSError as error:
            wrong = f"output={config.output} cannot be written: {error.strerror}"
            raise DataError(wrong, remedy="Choose another file") from None
    if config.format is TableFormat.json:
        print(plain)
    else:
        show_baselines(report, sys.stdout)
    return report


def fitted_report(config: BaselineConfig) -> dict[str, Any]:
    """Fit on the training split, score on another, and return the report. Raises as `baseline` does."""
    task = config.task
    if isinstance(task, DocumentTaskConfig):
        raise SettingError(f"task={task.name} has no labels to learn", remedy="Use task=intents or another with labels")
    corpus = Corpus.load(config.dataset, cache_folder(config.cache_dir), task.target)
    corpus.check_training_labels()
    _check_kind(corpus, config)
    split = config.split or corpus.scored_splits()[-1]
    rows = corpus.split(split)
    if not len(rows) or not corpus.labelled(split):
        raise DataError(f"split={split} has no labels to score on", allowed=", ".join(corpus.scored_splits()))
    settled, threshold, positive = settled_task(task, corpus), None, 1
    if isinstance(settled, ClassificationConfig):
        threshold, positive = threshold_rule(settled), positive_class(settled, corpus.labels)
    report = build_baseline_report(
        task=task.name,
        seed=config.seed,
        split=split,
        labels=_labels(rows, len(corpus.labels)),
        names=corpus.labels,
        found=baselines(corpus.splits, split, threshold, positive),
        words=config.words,
        main=task.figure(corpus.labels) if isinstance(task, TaggingConfig) else cast("Any", task).score.value,
        positive=positive,
    )
    return report | {"origin": corpus.splits.origin}


def _check_kind(corpus: Corpus, config: BaselineConfig) -> None:
    """Raise DataError if the rows are words and the task is on texts, or the other way round."""
    holds_words = isinstance(corpus.split("train")[0], WordsExample)
    if holds_words != isinstance(config.task, TaggingConfig):
        held, task = ("sequences of labelled words", "tagging") if holds_words else ("labelled texts", "classification")
        wrong = f"This dataset holds {held}, which do not suit task={config.task.name}"
        raise DataError(wrong, remedy=f"Use task={task}")


def _labels(split: Split, n_labels: int) -> Answers:
    if split.target == "label_set":
        return marks_of(split, n_labels)
    if isinstance(split[0], WordsExample):
        return [np.array(example.labels, dtype=np.int64) for example in split.of_words()]
    return np.array([example.label for example in split.of_texts()])
