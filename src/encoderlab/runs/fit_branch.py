"""Fits the linear branch of a trained network (`branch`), and says what each of the two predicts and what both gain.

The linear model reads the labelled training rows. Its weight is chosen on validation, which neither has been fitted
to.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from scipy.special import logit

from encoderlab.baselines.supervised import MOST_CELLS, MOST_ROWS, targets_of
from encoderlab.data.data import Data
from encoderlab.data.documents import Documents
from encoderlab.data.examples import Split, texts_of
from encoderlab.linear.choice import choose
from encoderlab.linear.model import Kind, LinearModel, fit
from encoderlab.metrics.calibration import LEAST_ROWS
from encoderlab.metrics.comparison import paired_difference
from encoderlab.metrics.pooling import fitted_scale, fitted_weight, losses_of, pooled
from encoderlab.metrics.scores import PredictionScores, is_lower_better
from encoderlab.metrics.texts import ClassificationScores, LabelSetScores
from encoderlab.runs.branch import LinearBranch, in_units, outputs_of, small
from encoderlab.runs.frozen import SHORTEST_RUN
from encoderlab.runs.model import Model
from encoderlab.tasks.regression import Regression
from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.task import Task, TextTaskConfig

EVIDENCE = 2.0  # standard errors of the gain in loss that it must exceed
DIGITS = 2  # of a weight: the next would be chance
LEAST = 1e-12  # a probability that is rounded to 0 or 1 has no logit
SCALES = (0.05, 20.0)


@dataclass(frozen=True, slots=True)
class FittedLinear:
    """A linear model of the training rows, in the units of a task, as small as a branch must be."""

    model: LinearModel
    facts: dict[str, Any]  # what report.json says of it


def fit_linear(model: Model, data: Data | Documents) -> FittedLinear | None:
    """Return a linear model of the labelled training rows of a run; None if the run has no branch.

    It has none if its weight is set to 0, if the rows are words or too many, and if the run is a trial of a few steps.
    Every process has the same.
    """
    task = model.config.task
    steps = model.config.training.steps
    if not isinstance(task, TextTaskConfig) or task.linear_weight == 0 or not isinstance(data, Data):
        return None
    is_trial = steps is not None and steps < SHORTEST_RUN
    if is_trial and task.linear_weight is None:
        return None
    train = data.split("train")
    return model.processes.broadcast_from_main(lambda: _fitted(model.task, train.take(np.flatnonzero(train.known()))))


def _fitted(task: Task, train: Split) -> FittedLinear | None:
    started = time.perf_counter()
    n_outputs = task.heads.sequence_classes or 1
    kind = cast("Kind", task.heads.sequence_target)
    if len(train) > MOST_ROWS or len(train) * n_outputs > MOST_CELLS.get(kind, MOST_CELLS["label_set"]):
        return None
    targets = np.asarray(targets_of(train, n_outputs))
    if kind == "label" and len(np.unique(targets)) < 2:
        return None
    rows = [texts_of(example) for example in train]
    try:
        linear = fit(kind, rows, targets, n_outputs, choose(kind, rows, targets, n_outputs).setting)
    except ValueError:  # no text holds an n-gram
        return None
    if isinstance(task, Regression):
        linear = in_units(linear, task.mean, task.unit)
    kept = small(linear)
    n_ngrams = len(kept.tfidf.vocabulary)
    facts = {
        "setting": str(linear.setting),
        "ngrams": n_ngrams,
        "ngrams_left_out": len(linear.tfidf.vocabulary) - n_ngrams,
        "seconds": time.perf_counter() - started,
    }
    return FittedLinear(kept, facts)


def choose_branch(
    model: Model, linear: FittedLinear, held_out: PredictionScores | None, rows: Mapping[str, ExampleRows]
) -> tuple[LinearBranch | None, dict[str, Any]]:
    """Return the linear model as a branch if both together are better on validation by evidence, or if its weight is
    set; otherwise None; and what report.json has of the choice.

    `held_out` are the network's scores there, None without validation. Fewer rows than a temperature needs decide
    nothing.
    """
    task = model.task
    kind = cast("Kind", task.heads.sequence_target)
    set_weight = cast("TextTaskConfig", task.config).linear_weight
    facts = linear.facts | {"weight": set_weight or 0.0, "chosen_on": None}
    if held_out is None or held_out.n < LEAST_ROWS:
        branch = None if set_weight is None else LinearBranch(linear.model, set_weight, 1.0, facts)
        return branch, facts
    logits = logits_of(task, held_out)
    outputs = outputs_of(linear.model, rows["validation"].examples or ())[held_out.rows]
    targets = scaled_targets(task, held_out)

    # The loss of both together is compared with that of the network, each at its best temperature.
    weight = set_weight
    if weight is None:
        weight = round(fitted_weight(kind, logits, outputs, targets), DIGITS)
    together = pooled(logits, outputs, weight)
    scale = float(np.clip(fitted_scale(kind, together, targets), *SCALES))
    alone = float(np.clip(fitted_scale(kind, logits, targets), *SCALES))
    gains = losses_of(kind, logits * alone, targets) - losses_of(kind, together * scale, targets)
    error = float(gains.std(ddof=1)) / len(gains) ** 0.5
    facts |= {"chosen_on": "validation", "loss_gain": float(gains.mean()), "loss_gain_standard_error": error}
    is_better = gains.mean() > EVIDENCE * error
    if set_weight is None and not is_better:
        return None, facts | {"best_weight": weight}
    facts["weight"] = weight
    return LinearBranch(linear.model, weight, 1 / scale, facts), facts


def parts(
    model: Model, network: Mapping[str, PredictionScores], both: Mapping[str, PredictionScores], rows: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the main score of the `network`, of the linear model and of `both` on each split, and what both gain over
    the network, with its 95% interval.

    The linear model's thresholds are its own, fitted on validation.
    """
    assert model.branch is not None
    name = model.task.main_score
    sign = -1 if is_lower_better(name) else 1
    task = model.task
    by_split = {}
    for split in both:
        outputs = outputs_of(model.branch.model, rows[split].examples or ())
        linear = _scores_of(task, outputs, network[split])
        if split == "validation":
            task = task.fitted_on(linear)
        difference = paired_difference([both[split]], [network[split]], name, model.config.seed)
        interval = difference.interval
        by_split[split] = {
            "network": network[split].values[name],
            "linear": linear.values[name],
            "both": both[split].values[name],
            "gain": sign * difference.value,
            "gain_ci95": None if interval is None else sorted(sign * bound for bound in interval),
        }
    return {"score": name, "splits": by_split}


def logits_of(task: Task, scores: PredictionScores) -> np.ndarray:
    """Return the logits that were scored, but for a constant of each row, or the scaled numbers: [rows, outputs]."""
    if isinstance(scores, ClassificationScores) and scores.probabilities is not None:
        return np.log(np.maximum(scores.probabilities, LEAST))
    if isinstance(scores, LabelSetScores):
        return logit(np.clip(np.asarray(scores.probabilities), LEAST, 1 - LEAST))
    assert isinstance(task, Regression)
    return ((scores.predicted - task.mean) / task.unit)[:, None]


def scaled_targets(task: Task, scores: PredictionScores) -> np.ndarray:
    """Return the targets of scored rows as the network learns them."""
    return (scores.labels - task.mean) / task.unit if isinstance(task, Regression) else scores.labels


def _scores_of(task: Task, outputs: np.ndarray, like: PredictionScores) -> PredictionScores:
    """Return the scores of a linear model's outputs for all rows of a split, on the rows of other scores."""
    targets = torch.from_numpy(np.asarray(scaled_targets(task, like)))
    if targets.dtype is not torch.int64:
        targets = targets.float()
    rows = torch.from_numpy(np.asarray(like.rows))
    scores = task.metrics().scores([(rows, targets, torch.from_numpy(outputs[like.rows]))])
    return cast("PredictionScores", scores)
