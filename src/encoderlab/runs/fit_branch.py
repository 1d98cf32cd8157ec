"""Fits the linear branch of a trained network (`branch`), and says what each of the two predicts and what both gain.

The linear model reads the labelled training rows. Its weight is chosen on rows that neither has been fitted to: those
of validation, or without any, training rows by cross-validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from scipy.special import logit

from encoderlab.baselines.supervised import NGramModel, cannot_fit, fit_on_ngrams, labelled
from encoderlab.data.corpus import Corpus
from encoderlab.data.examples import Split, texts_of
from encoderlab.errors import SettingError
from encoderlab.linear.model import Kind, LinearModel, fit
from encoderlab.metrics.calibration import LEAST_ROWS
from encoderlab.metrics.comparison import paired_difference
from encoderlab.metrics.pooling import fitted_scale, fitted_weight, losses_of, pooled
from encoderlab.metrics.scores import PredictionScores, is_lower_better
from encoderlab.metrics.texts import ClassificationScores, LabelSetScores
from encoderlab.models.branch import LinearBranch, in_units, outputs_of, small
from encoderlab.models.model import Model
from encoderlab.tasks.regression import Regression
from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.task import Task, TaskConfig
from encoderlab.training.loss import LabelWeights

# Standard errors of the gain in loss that it must exceed. Chosen on halves of validation, the mean gain on the other
# halves was 0.124 with none and with 1, and 0.115 with 2 (six sets; benchmarks/results/linear_branch.md). The networks
# of folds learn from fewer rows than the run's, so a linear model seems to add more than it does.
EVIDENCE = {"validation": 1.0, "cross-validation": 2.0}
DIGITS = 2  # of a weight: the next would be chance
LEAST = 1e-12  # a probability that is rounded to 0 or 1 has no logit
SCALES = (0.05, 20.0)


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """What copies of a network, each trained without a fold of the training rows, predict of it: `logits` of all rows,
    [rows, classes], whose classes are `targets`, [rows]. Of each fold there are the rows fitted to, and those left out.
    """

    folds: Sequence[tuple[np.ndarray, np.ndarray]]
    logits: np.ndarray
    targets: np.ndarray


@dataclass(frozen=True, slots=True)
class FittedLinear:
    """A linear model of the training rows, in the units of a task, as small as a branch must be.

    `facts` are what report.json says of it. `on_ngrams` is the same model before it was cut to this size, for the
    baseline; processes other than the main one have None. Without validation, `held_out` may have what was predicted by
    cross-validation.
    """

    model: LinearModel
    facts: dict[str, Any]
    on_ngrams: NGramModel | None = None
    held_out: HeldOut | None = None


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What both models predict of rows that neither was fitted to: logits or scaled numbers, [rows, outputs], and the
    `targets` as the network learns them. `source` says where the rows are from.
    """

    network: np.ndarray
    linear: np.ndarray
    targets: np.ndarray
    source: str


def check_linear_weight(task: TaskConfig, data: Corpus) -> None:
    """Raise SettingError if a weight is set for a linear model that these rows do not allow."""
    if not task.branch_weight:
        return
    if reason := cannot_fit(labelled(data.split("train")), len(data.labels)):
        problem = f"task.linear_weight={task.branch_weight:g} asks for a linear model: {reason}"
        raise SettingError(problem, remedy="Set task.linear_weight=0")


def fit_linear(
    model: Model, data: Corpus, out_of_fold: OutOfFold | None, label_weights: LabelWeights | None
) -> FittedLinear | None:
    """Return a linear model of the labelled training rows of a run; None if the run has no branch.

    It has none if its weight is set to 0, and if the rows are words. Unless the weight is set, it has none either if
    they are too many, if classes do not weigh the same, and if the run is a trial of a few steps. Every process has the
    same. With the network's predictions `out_of_fold`, those of the linear model are made by the same folds.
    """
    # Runs that have none.
    task = model.config.task
    if task.branch_weight == 0:
        return None
    if task.branch_weight is None and (model.config.training.is_trial or label_weights is not None):
        return None

    # The main process fits it; the others get it as small as a branch must be.
    train = labelled(data.split("train"))
    on_ngrams = None
    with model.processes.main_process_first():  # the others wait for as long as it takes
        if model.processes.is_main:
            fitted = fit_on_ngrams(train, len(data.labels))
            on_ngrams = fitted if isinstance(fitted, NGramModel) else None

    def branch() -> FittedLinear | None:
        return None if on_ngrams is None else _as_branch(model.task, on_ngrams)

    linear = model.processes.broadcast_from_main(branch)
    if linear is None:
        return None

    # Without validation rows, it is judged by the folds that the network was.
    held_out = None
    if on_ngrams is not None and out_of_fold is not None:
        held_out = _predicted_by_folds(train, on_ngrams, out_of_fold)
    return replace(linear, on_ngrams=on_ngrams, held_out=held_out)


def _as_branch(task: Task, fitted: NGramModel) -> FittedLinear:
    """Return a linear model in the units of a task, as small as a branch must be."""
    linear = fitted.model

    # A branch is added to the outputs of the network, which are scaled numbers.
    if isinstance(task, Regression):
        linear = in_units(linear, task.mean, task.unit)

    # The n-grams that matter least are left out, because the branch is saved with the model.
    kept = small(linear)
    n_ngrams = len(kept.tfidf.vocabulary)
    facts = {
        "setting": str(linear.setting),
        "ngrams": n_ngrams,
        "ngrams_left_out": len(linear.tfidf.vocabulary) - n_ngrams,
        "seconds": fitted.seconds,
    }
    return FittedLinear(kept, facts)


def _predicted_by_folds(train: Split, fitted: NGramModel, out_of_fold: OutOfFold) -> HeldOut:
    """Return what linear models of the same setting predict of the folds that they were fitted without."""
    # The setting was chosen on all rows, and only the weights are fitted to each fold anew.
    model = fitted.model
    rows = [texts_of(example) for example in train]
    outputs = np.empty_like(out_of_fold.logits)
    for own, others in out_of_fold.folds:
        targets = out_of_fold.targets[own]
        part = fit(model.kind, [rows[row] for row in own], targets, len(model.intercept), model.setting)
        outputs[others] = part.outputs([rows[row] for row in others])
    return HeldOut(out_of_fold.logits, outputs, out_of_fold.targets, "cross-validation")


def held_out_of(
    task: Task, scores: Mapping[str, PredictionScores], linear: FittedLinear, rows: Mapping[str, ExampleRows]
) -> HeldOut | None:
    """Return what both models predict of validation, by the network's `scores` there; without it, of training rows by
    cross-validation, if they were compared so.
    """
    validation = scores.get("validation")
    if validation is None:
        return linear.held_out
    outputs = outputs_of(linear.model, rows["validation"].examples or ())[validation.rows]
    return HeldOut(logits_of(task, validation), outputs, scaled_targets(task, validation), "validation")


def choose_branch(
    task: Task, linear: FittedLinear, held_out: HeldOut | None
) -> tuple[LinearBranch | None, dict[str, Any]]:
    """Return the linear model as a branch if both together are better on held-out rows by evidence, or if its weight is
    set; otherwise None; and what report.json has of the choice. Fewer rows than a temperature needs decide nothing.
    """
    kind = cast("Kind", task.heads.sequence_target)
    set_weight = task.config.branch_weight
    facts = linear.facts | {"weight": set_weight or 0.0, "chosen_on": None}

    # Without enough rows that neither model has seen, there is a branch only if its weight was set.
    if held_out is None or len(held_out.targets) < LEAST_ROWS:
        branch = None if set_weight is None else LinearBranch(linear.model, set_weight, 1.0, facts)
        return branch, facts
    logits, outputs, targets = held_out.network, held_out.linear, held_out.targets
    if kind == "number":  # their mean is not at issue: of SICK the squared error fell, and the correlation too
        logits, outputs, targets = (values - values.mean(0) for values in (logits, outputs, targets))

    # The loss of both together is compared with that of the network, each at its best temperature.
    weight = set_weight
    if weight is None:
        weight = round(fitted_weight(kind, logits, outputs, targets), DIGITS)
    together = pooled(logits, outputs, weight)
    scale = float(np.clip(fitted_scale(kind, together, targets), *SCALES))
    alone = float(np.clip(fitted_scale(kind, logits, targets), *SCALES))
    gains = losses_of(kind, logits * alone, targets) - losses_of(kind, together * scale, targets)
    error = float(gains.std(ddof=1)) / len(gains) ** 0.5
    facts |= {"chosen_on": held_out.source, "loss_gain": float(gains.mean()), "loss_gain_standard_error": error}

    # A gain within its standard errors may be chance, and a branch takes time at each prediction.
    is_better = gains.mean() > EVIDENCE[held_out.source] * error
    if set_weight is None and not is_better:
        return None, facts | {"best_weight": weight}
    facts["weight"] = weight
    temperature = 1.0 if kind == "number" else 1 / scale  # numbers keep their units
    return LinearBranch(linear.model, weight, temperature, facts), facts


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

        # Validation comes before the splits whose labels its thresholds decide.
        if split == "validation":
            task = task.fitted_on(linear)

        # The gain is positive where both together are better, whichever way the score counts.
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
    assert isinstance(scores, PredictionScores)
    return scores
