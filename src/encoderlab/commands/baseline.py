"""encoderlab baseline: the scores of simple models, without an encoder, that reports show next to an encoder's."""

import json
import sys
from typing import Any

from encoderlab.baselines.supervised import baselines, probes, targets_of
from encoderlab.config.commands import BaselineConfig, TableFormat
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics import scores_of_predictions
from encoderlab.models.folder import load_model
from encoderlab.models.frozen import frozen_vectors, vectors_by_layer
from encoderlab.reports.blocks import json_safe
from encoderlab.reports.comparisons import show_baselines
from encoderlab.system.device import set_up_compute

SEED = 0  # of the bootstrap


def baseline(config: BaselineConfig) -> dict[str, Any]:
    """Fit simple models on the training split, score them on another, and print and return their scores.

    Raises DataError if the rows have no labels or do not suit the task, SettingError.
    """
    task = config.task
    if task.of_documents:
        raise SettingError(f"task={task.name} has no labels to learn", remedy="Use task=intents or another with labels")

    if config.probe is not None and task.of_words:
        raise SettingError(f"probe={config.probe} reads whole texts", remedy="Choose a task on texts, or remove probe")
    encoder = None if config.probe is None else load_model(config.probe)

    # The rows to learn from and those to score on.
    data = config.dataset.load(config.cache, task.target)
    data.check_training_labels()
    holds_words = data.split("train").holds_words
    if holds_words != task.of_words:
        held, other = ("labelled words", "tagging") if holds_words else ("labelled texts", "classification")
        problem = f"This dataset holds {held}, which do not suit task={task.name}"
        raise DataError(problem, remedy=f"Use task={other}")
    split = config.split or data.scored_splits()[-1]
    rows = data.split(split)
    if not len(rows) or not data.is_labelled(split):
        raise DataError(f"split={split} has no labels to score on", allowed=", ".join(data.scored_splits()))

    # What a run would decide from the rows: the positive label, the threshold, the main score.
    settled, _ = task.settled(data.labels, data.survey["train"], has_validation=data.has_validation)
    threshold, positive = settled.two_class_rule(data.labels)
    main_score = settled.main_score_of(data.labels)

    # Fit and score each baseline.
    frozen = frozen_vectors(data.split("train"), config.tokenizer, set_up_compute())
    targets = targets_of(rows, len(data.labels))
    names = data.labels
    by_name: dict[str, Any] = {}
    models = baselines(data, split, threshold, positive, frozen=frozen)
    labels: dict[str, str] = {}
    if encoder is not None:
        for layer, fitted in probes(data, split, threshold, positive, by_layer=vectors_by_layer(encoder)).items():
            models[f"layer_{layer}"] = fitted
            where = f"layer {layer}" if layer else "embeddings"
            labels[f"layer_{layer}"] = f"probe of {where}, {config.probe}"
    for name, fitted in models.items():
        by_name[name] = {"skipped": fitted.skipped} | ({"label": labels[name]} if name in labels else {})
        if fitted.predicted is not None:
            scores = scores_of_predictions(targets, fitted.predicted, names, main_score, positive)
            about = {"label": labels[name]} if name in labels else {}
            by_name[name] = {**about, **fitted.scores, **scores.with_intervals(SEED).as_dict(), **fitted.description()}

    report = {"command": "baseline", "task": task.name, "seed": SEED, "scored_split": split, "n": len(targets)}
    report = json_safe({**report, "main_score": main_score, "labels": names, "baselines": by_name})
    report |= {"origin": data.origin}
    if config.format is TableFormat.json:
        print(json.dumps(report, indent=2, ensure_ascii=False, default=str))
    else:
        show_baselines(report, sys.stdout)
    return report
