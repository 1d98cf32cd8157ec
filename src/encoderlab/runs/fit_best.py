"""Fits the better of two models: the one that is finetuned, or the head alone on the encoder as pretrained.

`fit` does the training. The weights of the head alone are those of a logistic regression, so that it is a model like
any other. Validation says which of the two is better, after training; without validation rows a cross-validation does
before, where that takes seconds.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from encoderlab.baselines.supervised import MOST_FROZEN_CELLS, MOST_FROZEN_ROWS
from encoderlab.data.data import Data
from encoderlab.errors import SettingError
from encoderlab.metrics.comparison import Difference, paired_difference
from encoderlab.metrics.intervals import WILSON_Z
from encoderlab.metrics.scores import PredictionScores
from encoderlab.metrics.texts import classification_scores
from encoderlab.reports.wording import words_of
from encoderlab.runs.fit import Result, TrainState, fit
from encoderlab.runs.frozen import SHORTEST_RUN, set_linear_head, wants_linear_head
from encoderlab.runs.model import Model
from encoderlab.runs.resume import continues_from_checkpoint
from encoderlab.runs.run import Run
from encoderlab.system.processes import SINGLE_PROCESS, stop_if_interrupted
from encoderlab.tasks.rows import ExampleRows, PartOfRows
from encoderlab.training.batches import Rows
from encoderlab.training.checkpoint import weights_of
from encoderlab.training.config import ALL_LAYERS, Keep
from encoderlab.training.distribution import is_sharded

FOLDS = 3
MOST_WORK = 60_000 * 3_200_000  # tokens times parameters of layers that a run reads: 5 s of mini-en on two quiet cores


@dataclass(frozen=True, slots=True)
class HeadAlone:
    """A classifier whose encoder is as pretrained and whose head is a logistic regression on its vectors.

    `weights` are those of the whole model, and `seconds` the time it took. It is compared with the finetuned model by
    its `scores` on validation; or it was `chosen` before any step, and this is the checkpoint that the model is.
    """

    weights: dict[str, Tensor]
    seconds: float
    scores: PredictionScores | None = None
    chosen: dict[str, Any] | None = None


def fit_best(model: Model, trained_on: Rows, validation: Rows | None, run: Run, head_alone: HeadAlone | None) -> Result:
    """Train the model as `fit` does, and leave the weights of the `head_alone` in it if these are better on validation,
    or were asked for. Raises as `fit` does.
    """
    if head_alone is None:
        return fit(model, trained_on, validation, run)
    if head_alone.chosen is not None:
        return _keep_head_alone(model, head_alone, head_alone.chosen)
    result = fit(model, trained_on, validation, run)
    assert validation is not None, "the head alone was to be compared on it"
    checkpoint, note = _keep_better(model, head_alone, validation, result.checkpoint)
    return replace(result, checkpoint=checkpoint, notes=[note, *result.notes])


def _keep_head_alone(model: Model, head_alone: HeadAlone, checkpoint: dict[str, Any]) -> Result:
    """Put the head alone, which was chosen before any step, into the model."""
    model.network.load_state_dict(head_alone.weights)
    model.network.eval()
    speed = dict.fromkeys(("tokens_per_second", "examples_per_second", "padding_fraction"))
    return Result(checkpoint, {**speed, "train_seconds": round(head_alone.seconds, 2)}, [])


def _keep_better(
    model: Model, head_alone: HeadAlone, validation: Rows, checkpoint: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """Put the head alone into the finetuned `model` if it is better on validation; return which checkpoint the model
    is, and a note.
    """
    alone = head_alone.scores
    assert alone is not None
    name = model.task.main_score
    finetuned = model.evaluate_predictions(validation)
    seed = model.config.seed
    comparison = model.processes.broadcast_from_main(lambda: Comparison.of(alone, finetuned, name, seed))
    kept = comparison.favours_head_alone(pairs_are_separate=model.network.separates_pairs)
    if kept:
        model.network.load_state_dict(head_alone.weights)
        checkpoint = {"step": 0, "chosen_by": name, "chosen_on": "validation"}
    note = comparison.note(f"on {len(validation):,} validation rows", kept=kept)
    return checkpoint | {"head_alone": comparison.recorded(kept=kept)}, note


def prepare_head_alone(
    model: Model, data: Data, rows: Mapping[str, Rows], trained_on: Rows
) -> tuple[HeadAlone | None, list[str]]:
    """Return the head alone if it was asked for, or may turn out to be better than the finetuned model, and notes.

    `rows` are those of the splits; the model is `trained_on` those of `train` and perhaps further ones. Its head has
    not been fitted yet, and stays as it is. Of a few rows without validation, copies of the model are trained on folds
    to compare the two. Every process fits the same head. Raises SettingError if it was asked for, and the model is to
    be sharded.
    """
    training = model.config.training
    if not _can_be_fitted(model):
        return None, []
    if training.freeze_layers == ALL_LAYERS:
        asked_for = {"step": 0, "chosen_by": f"training.freeze_layers={ALL_LAYERS}", "chosen_on": None}
        return fit_head_alone(model, trained_on, None, asked_for | {"head_alone": {"kept": True}}), []
    if model.config.command != "finetune" or training.keep is not Keep.best:
        return None, []
    if not data.has_validation:
        return _chosen_by_folds(model, data, cast("ExampleRows", rows["train"]), trained_on)

    # A run of a few steps is a trial, and of very many rows an encoder learns more than its head does.
    n_rows = len(data.split("train"))
    is_trial = training.steps is not None and training.steps < SHORTEST_RUN
    few_enough = n_rows <= MOST_FROZEN_ROWS and n_rows * len(model.labels) <= MOST_FROZEN_CELLS
    if is_trial or not few_enough:
        return None, []
    return fit_head_alone(model, trained_on, rows["validation"]), []


def _can_be_fitted(model: Model) -> bool:
    """Return whether a logistic regression can be the head of a model that starts from an encoder.

    Raises SettingError if it was asked for and cannot, as the model is to be sharded.
    """
    config = model.config
    reads_max = model.network.window_pooling == "max"  # of windows, which is not linear in what the head reads
    if not config.task.one_class_per_text or reads_max or config.starts_from is None:
        return False
    if not is_sharded(config.training, model.processes):
        return True
    # Until training ends, only the main process has the weights, so the others cannot compute the vectors.
    if config.training.freeze_layers == ALL_LAYERS:
        problem = (
            f"training.freeze_layers={ALL_LAYERS} fits the head to vectors that each process computes with all "
            "weights, and training.sharding=full gives it only a shard of them"
        )
        raise SettingError(problem, remedy="Set training.sharding=none, or start one process")
    return False


def fit_head_alone(
    model: Model, trained_on: Rows, validation: Rows | None, chosen: dict[str, Any] | None = None
) -> HeadAlone:
    """Return `model` as it is before its first step with a head that is fitted to the rows `trained_on`; unless it was
    `chosen` already, with its scores on validation.
    """
    started = time.perf_counter()
    alone = _copy(model)
    set_linear_head(alone, cast("ExampleRows", trained_on), tuned=True)
    scores = None
    if chosen is None:
        assert validation is not None, "it is compared on validation"
        scores = alone.evaluate_predictions(validation)
    return HeadAlone(weights_of(alone.network), time.perf_counter() - started, scores, chosen)


def _copy(model: Model) -> Model:
    """Return a copy of a model that can be trained by this process without changing the model."""
    return replace(model, network=copy.deepcopy(model.network), processes=SINGLE_PROCESS)


# Which of the two is better


@dataclass(frozen=True, slots=True)
class Comparison:
    """The scores of the head alone and of the finetuned model on the same rows."""

    name: str  # of the score
    alone: float
    finetuned: float
    difference: Difference

    @classmethod
    def of(cls, alone: PredictionScores, finetuned: PredictionScores, name: str, seed: int) -> Comparison:
        difference = paired_difference([alone], [finetuned], name, seed)
        return cls(name, alone.values[name], finetuned.values[name], difference)

    @property
    def standard_error(self) -> float:
        """Return the standard error of the difference; 0 if nothing is known of it."""
        interval = self.difference.interval
        return 0.0 if interval is None else (interval[1] - interval[0]) / (2 * WILSON_Z)

    def favours_head_alone(self, *, pairs_are_separate: bool) -> bool:
        """Return whether the head alone is better by more than the standard error of the difference.

        Within that error the model is finetuned, which with few rows is mostly ahead
        (`configs/training/finetuning.yaml`). Of pairs that are read separately it is the head alone: with 8 rows for
        each label, finetuning starts at such a head and ended below it (accuracy on validation rows of QQP's sample
        0.612 and 0.655, of MNLI's 0.371 and 0.384).
        """
        margin = -self.standard_error if pairs_are_separate else self.standard_error
        return self.difference.value > margin

    def recorded(self, *, kept: bool) -> dict[str, Any]:
        """Return what report.json has of it."""
        return {
            "kept": kept,
            self.name: self.alone,
            f"finetuned_{self.name}": self.finetuned,
            "leads_by": self.difference.value,
            "leads_by_ci95": self.difference.interval,
        }

    def note(self, where: str, *, kept: bool) -> str:
        """Return a sentence on which of the two is kept, and why."""
        which = "The finetuned model is kept"
        if kept:
            which = "The head alone is kept, a logistic regression on the vectors of the encoder as pretrained"
        both = f"{words_of(self.name)} of the head alone {self.alone:.3f}, finetuned {self.finetuned:.3f}"
        return f"{which}: {where} {both} ({self.difference.value:+.3f}, standard error {self.standard_error:.3f})"


def _chosen_by_folds(
    model: Model, data: Data, train: ExampleRows, trained_on: Rows
) -> tuple[HeadAlone | None, list[str]]:
    """Return the head alone if a cross-validation of both on the rows of `train` favours it, and a note; where that
    takes longer than some seconds, nothing.

    Further rows are in no fold: their labels were learned from all rows of `train`. A run that continues from a
    checkpoint has compared both already.
    """
    from sklearn.model_selection import StratifiedKFold

    config = model.config
    assert train.targets is not None and train.targets.of_rows is not None
    classes = train.targets.of_rows
    folds = min(FOLDS, int(np.unique(classes, return_counts=True)[1].min()))
    can_compare = folds >= 2 and not config.task.fits_thresholds and _takes_seconds(model, train)
    if not can_compare or continues_from_checkpoint(config):
        return None, []
    started = time.perf_counter()
    alone = np.empty(len(classes), np.int64)
    finetuned = np.empty(len(classes), np.int64)
    starts_linear = wants_linear_head(model, data)
    with torch.random.fork_rng():  # the run draws what it would draw without the folds
        for own, others in StratifiedKFold(folds, shuffle=True, random_state=config.seed).split(classes, classes):
            alone[others], finetuned[others] = _fold(model, train, own, others, starts_linear=starts_linear)
    _, positive = config.task.two_class_rule(model.labels)
    name = model.task.main_score
    scores = [classification_scores(classes, side, model.labels, name, positive) for side in (alone, finetuned)]
    comparison = Comparison.of(scores[0], scores[1], name, config.seed)
    kept = comparison.favours_head_alone(pairs_are_separate=model.network.separates_pairs)
    note = comparison.note(f"in {folds} folds of {len(classes):,} training rows", kept=kept)
    print(f"{note}; {time.perf_counter() - started:.1f} s", file=sys.stderr)
    if not kept:
        return None, [note]
    chosen = {"step": 0, "chosen_by": name, "chosen_on": "cross-validation"}
    return fit_head_alone(model, trained_on, None, chosen | {"head_alone": comparison.recorded(kept=True)}), [note]


def _takes_seconds(model: Model, train: ExampleRows) -> bool:
    """Return whether a run on these rows is so short that the folds take seconds, and is not set by hand."""
    training = model.config.training
    if training.epochs is None or training.budget is not None or model.processes.size > 1:
        return False
    tokens = int(np.minimum(train.lengths, model.task.max_length).sum()) * training.epochs
    return tokens * model.network.parameters_by_part()["layers"] <= MOST_WORK


def _fold(
    model: Model, train: ExampleRows, own: np.ndarray, others: np.ndarray, *, starts_linear: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes that the head alone and a finetuned model predict for the `others`, fitted to its `own` rows
    alone: [others] each.
    """
    fitted = PartOfRows(train, own)
    held_out = PartOfRows(train, others)
    head_alone = _copy(model)
    set_linear_head(head_alone, fitted, tuned=True)
    by_head = head_alone.evaluate_predictions(held_out).predicted
    finetuned = _copy(model)
    if starts_linear:
        set_linear_head(finetuned, fitted)
    state = TrainState(finetuned, fitted)
    for _ in state.remaining_steps():
        stop_if_interrupted(model.processes)
    state.distributed.finish()
    return by_head, finetuned.evaluate_predictions(held_out).predicted
