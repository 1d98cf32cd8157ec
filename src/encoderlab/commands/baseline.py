"""encoderlab baseline: the scores of simple models, without an encoder, that reports show next to an encoder's."""

import json
import sys
from typing import Any, cast

from encoderlab.baselines.supervised import baselines, targets_of
from encoderlab.config.commands import BaselineConfig, TableFormat
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics import scores_of_predictions
from encoderlab.reports.baselines import show_baselines
from encoderlab.reports.blocks import json_safe
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.frozen import frozen_vectors
from encoderlab.runs.task import resolve_task
from encoderlab.system.device import choose_compute
from encoderlab.tasks.config import ClassificationConfig, DocumentTaskConfig, TaggingConfig
from encoderlab.tasks.texts import positive_class, threshold_rule

SEED = 0  # of the bootstrap


def baseline(config: BaselineConfig) -> dict[str, Any]:
    """Fit simple models on the training split, score them on another, and print and return their scores.

    Raises DataError if the rows have no labels or do not suit the task, SettingError.
    """
    task = config.task
    if isinstance(task, DocumentTaskConfig):
        raise SettingError(f"task={task.name} has no labels to learn", remedy="Use task=intents or another with labels")
    corpus = Corpus.load(config.dataset, config.cache, task.target)
    corpus.check_training_labels()
    holds_words = corpus.split("train").holds_words
    if holds_words != isinstance(task, TaggingConfig):
        held, other = ("labelled words", "tagging") if holds_words else ("labelled texts", "classification")
        wrong = f"This dataset holds {held}, which do not suit task={task.name}"
        raise DataError(wrong, remedy=f"Use task={other}")
    split = config.split or corpus.scored_splits()[-1]
    rows = corpus.split(split)
    if not len(rows) or not corpus.is_labelled(split):
        raise DataError(f"split={split} has no labels to score on", allowed=", ".join(corpus.scored_splits()))
    settled, threshold, positive = resolve_task(task, corpus), None, 1
    if isinstance(settled, ClassificationConfig):
        threshold, positive = threshold_rule(settled), positive_class(settled, corpus.labels)
    main_score = task.main_score(corpus.labels) if isinstance(task, TaggingConfig) else cast("Any", settled).score.value
    frozen = frozen_vectors(corpus.split("train"), config.tokenizer, choose_compute())
    targets, names = targets_of(rows, len(corpus.labels)), corpus.labels
    by_name: dict[str, Any] = {}
    for name, one in baselines(corpus.splits, split, threshold, positive, frozen=frozen).items():
        by_name[name] = {"skipped": one.skipped}
        if one.predicted is not None:
            scores = scores_of_predictions(targets, one.predicted, names, main_score, positive)
            by_name[name] = {**one.scores, **scores.with_intervals(SEED).as_dict()}
    report = {"command": "baseline", "task": task.name, "seed": SEED, "scored_split": split, "n": len(targets)}
    report = json_safe({**report, "main_figure": main_score, "labels": names, "baselines": by_name})
    report |= {"origin": corpus.splits.origin}
    if config.format is TableFormat.json:
        print(json.dumps(report, indent=2, ensure_ascii=False, default=str))
    else:
        show_baselines(report, sys.stdout)
    return report
