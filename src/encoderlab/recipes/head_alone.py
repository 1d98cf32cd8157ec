"""The head alone on the encoder as pretrained, and which is better: this, the finetuned model, or, where both are
level, their average.

The weights of the head alone are those of a logistic regression, so that it is a model like
any other. Validation says which is better, after training; without validation rows a cross-validation of the two does
before, where that takes seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from encoderlab.baselines.supervised import MOST_FROZEN_CELLS, MOST_FROZEN_ROWS
from encoderlab.data.corpus import Corpus
from encoderlab.errors import SettingError
from encoderlab.metrics.calibration import calibrated_loss
from encoderlab.metrics.comparison import Difference, paired_difference
from encoderlab.metrics.intervals import WILSON_Z
from encoderlab.metrics.scores import PredictionScores
from encoderlab.metrics.texts import ClassificationScores, classification_scores
from encoderlab.models.frozen import set_linear_head
from encoderlab.models.model import Model
from encoderlab.reports.wording import words_of
from encoderlab.runs.fit import Result, TrainState
from encoderlab.runs.fit_branch import OutOfFold, logits_of
from encoderlab.runs.journal import in_words
from encoderlab.runs.training import Training
from encoderlab.system.messages import print_lines
from encoderlab.system.processes import SINGLE_PROCESS, stop_if_interrupted
from encoderlab.system.tensor_files import set_aside
from encoderlab.tasks.rows import ExampleRows, PartOfRows, example_rows
from encoderlab.training.batches import Rows
from encoderlab.training.checkpoint import frozen_names, load_trained, weights_of
from encoderlab.training.config import ALL_LAYERS, Keep, total_steps
from encoderlab.training.distribution import is_sharded
from encoderlab.training.occurring_rows import copied

# Which model is kept, as recorded.
FINETUNED = "finetuned"
HEAD_ALONE = "head_alone"
AVERAGE = "average"
# Of the way from the weights of the head alone to the finetuned ones (Wortsman et al. 2022). Half and three quarters of
# it had a higher calibrated loss on validation: benchmarks/results/head_or_finetuned.md.
SHARE_OF_FINETUNED = 0.25
FOLDS = 3
# Test accuracy above that of the head alone, with all rows of four sets: benchmarks/results/few_rows.md.
ADDED = "usually adds to that (0.3 to 7.5 points on four public sets), and is kept only where it does"
MOST_WORK = 60_000 * 3_200_000  # tokens times parameters of layers that a run reads: 5 s of mini-en on two quiet cores


@dataclass(frozen=True, slots=True)
class HeadAlone:
    """A classifier whose encoder is as pretrained and whose head is a logistic regression on its vectors.

    `weights` are all but the frozen ones, and `seconds` the time it took. It is compared with the finetuned model by
    its `scores` on validation; or it was `chosen` before any step, and this is the checkpoint that the model is.
    """

    weights: dict[str, Tensor]
    seconds: float
    scores: PredictionScores | None = None
    chosen: dict[str, Any] | None = None


def keep_head_alone(model: Model, head_alone: HeadAlone, checkpoint: dict[str, Any]) -> Result:
    """Put the head alone, which was chosen before any step, into the model."""
    print_lines("no steps: the head is a logistic regression on the encoder's vectors")
    load_trained(model.network, head_alone.weights)
    model.network.eval()
    speed = dict.fromkeys(("tokens_per_second", "examples_per_second", "padding_fraction"))
    return Result(checkpoint, {**speed, "train_seconds": round(head_alone.seconds, 2)}, [])


def keep_better(training: Training, head_alone: HeadAlone, result: Result) -> Result:
    """Put the head alone, or the average of both, into the finetuned model if it is better on validation; return the
    `result` of the fit with which model that is, and a note.

    Within a standard error, the score says too little. There the calibrated loss decides, and the average is tried too.
    """
    model = training.model
    validation = training.validation
    alone = head_alone.scores
    assert validation is not None and alone is not None, "the head alone was to be compared on it"

    # Both are scored on the same rows. The main process compares them for all, so that no two disagree.
    name = model.task.main_score
    finetuned = model.evaluate_predictions(validation)
    seed = model.config.seed
    comparison = model.processes.broadcast_from_main(lambda: HeadOrFinetuned.of(alone, finetuned, name, seed))

    # Where the scores are level, the losses decide, and a model between the two may have the least.
    decided_by_loss = comparison.is_tie and not model.network.separates_pairs
    trained = {name: weight for name, weight in weights_of(model.network).items() if name in head_alone.weights}
    weights = {FINETUNED: trained, HEAD_ALONE: head_alone.weights}
    if decided_by_loss:
        # The network is to have other weights for a moment, so those it has are copied.
        weights[FINETUNED] = {name: weight.clone() for name, weight in trained.items()}
        weights[AVERAGE] = average(head_alone.weights, weights[FINETUNED])
        load_trained(model.network, weights[AVERAGE])
        scores = {FINETUNED: finetuned, HEAD_ALONE: alone, AVERAGE: model.evaluate_predictions(validation)}
        comparison = replace(comparison, losses={which: _loss(of_which) for which, of_which in scores.items()})

    # The weights that are better go into the model, and the result says which they are.
    kept = model.processes.broadcast_from_main(
        lambda: comparison.kept(pairs_are_separate=model.network.separates_pairs)
    )
    load_trained(model.network, weights[kept])
    checkpoint = result.checkpoint
    if kept == HEAD_ALONE:
        checkpoint = {"step": 0, "chosen_by": name, "chosen_on": "validation"}
    note = comparison.note(f"on {len(validation):,} validation rows", kept)
    return replace(
        result,
        checkpoint=checkpoint | {"head_alone": comparison.recorded(kept)},
        throughput={**result.throughput, "head_alone_seconds": round(head_alone.seconds, 2)},
        notes=[note, *result.notes],
    )


def average(alone: Mapping[str, Tensor], finetuned: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a model between the head alone and the finetuned model, each by its name."""
    weights = {}
    for name, weight in alone.items():
        is_number = weight.is_floating_point()  # and no id of a row of the token table, which both have
        weights[name] = torch.lerp(weight, finetuned[name], SHARE_OF_FINETUNED) if is_number else weight
    return weights


def _loss(scores: PredictionScores) -> float:
    """Return the calibrated loss of a classifier."""
    assert isinstance(scores, ClassificationScores) and scores.probabilities is not None
    return calibrated_loss(scores.probabilities, scores.labels)


def prepare_head_alone(
    training: Training, data: Corpus, train: Rows, *, starts_linear: bool, continues: bool
) -> tuple[HeadAlone | None, OutOfFold | None, list[str]]:
    """Return the head alone if it was asked for, or may turn out to be better than the finetuned model; what the better
    of both predicts of training rows out of fold, if that was needed to compare them; and notes.

    The rows of `train` are those of the split; the model is trained on these and perhaps further ones. Its head has not
    been fitted yet, and stays as it is. Of a few rows without validation, copies of the model are trained on folds to
    compare the two. Every process fits the same head. Raises SettingError if it was asked for, and the model is to be
    sharded.
    """
    model = training.model
    settings = model.config.training
    if not can_be_fitted(model):
        return None, None, []
    # If no layer may change, there is nothing else to train.
    if settings.freeze_layers == ALL_LAYERS:
        asked_for = {"step": 0, "chosen_by": f"training.freeze_layers={ALL_LAYERS}", "chosen_on": None}
        return fit_head_alone(training, asked_for | {"head_alone": {"kept": True}}), None, []
    if settings.keep is not Keep.best:
        return None, None, []

    # Without validation rows, the two are compared on folds of training, before any step of the run.
    if training.validation is None:
        return _chosen_by_folds(training, example_rows(train), starts_linear=starts_linear, continues=continues)

    # With validation, both are compared on it after training. A run of a few steps is a trial, and of very many rows an
    # encoder learns more than its head does.
    n_rows = len(data.split("train"))
    few_enough = n_rows <= MOST_FROZEN_ROWS and n_rows * len(model.labels) <= MOST_FROZEN_CELLS
    if settings.is_trial or not few_enough:
        return None, None, []
    head_alone = fit_head_alone(training)
    print(_first_answer(training, head_alone), file=sys.stderr)
    return head_alone, None, []


def _first_answer(training: Training, head_alone: HeadAlone) -> str:
    """Return in words how good the head alone is, and what is known of the finetuned model that follows."""
    assert head_alone.scores is not None and training.validation is not None
    model = training.model
    name = model.task.main_score
    score = f"{words_of(name)} {head_alone.scores.values[name]:.3f} on {len(training.validation):,} validation rows"

    # The first answer is there in seconds, so it also says how long the next one takes.
    settings = model.config.training
    length = f"at most {settings.budget}"
    if settings.budget is None:
        steps = total_steps(settings, len(training.rows))
        length = f"{steps:,} steps"
        if model.compute.step_seconds is not None:
            length += f", about {in_words(steps * model.compute.step_seconds)}"
    return f"The head alone, a logistic regression on the encoder's vectors: {score}. Finetuning ({length}) {ADDED}"


def can_be_fitted(model: Model) -> bool:
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


def fit_head_alone(training: Training, chosen: dict[str, Any] | None = None) -> HeadAlone:
    """Return the model as it is before its first step with a head that is fitted to the rows it is trained on; unless
    it was `chosen` already, with its scores on validation.
    """
    started = time.perf_counter()

    # A copy gets this head, because the steps are to start from the model as it is.
    alone = _copy(training.model)
    set_linear_head(alone, example_rows(training.rows), training.label_weights, tuned=True)
    scores = None
    if chosen is None:
        assert training.validation is not None, "it is compared on validation"
        scores = alone.evaluate_predictions(training.validation)
    # Nothing reads the weights before the last step; frozen ones are those of the model.
    frozen = frozen_names(alone.network)
    trained = {name: weight for name, weight in weights_of(alone.network).items() if name not in frozen}
    weights = set_aside(trained, training.model.config.cache)
    return HeadAlone(weights, time.perf_counter() - started, scores, chosen)


def _copy(model: Model) -> Model:
    """Return a copy of a model that can be trained by this process without changing the model."""
    return replace(model, network=copied(model.network), processes=SINGLE_PROCESS)


# Which of the two is better


@dataclass(frozen=True, slots=True)
class HeadOrFinetuned:
    """The scores of the head alone and of the finetuned model on the same rows; and, if they are level, the calibrated
    `losses` of both and of their average.
    """

    name: str  # of the score
    alone: float
    finetuned: float
    difference: Difference
    losses: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, alone: PredictionScores, finetuned: PredictionScores, name: str, seed: int) -> HeadOrFinetuned:
        difference = paired_difference([alone], [finetuned], name, seed)
        return cls(name, alone.values[name], finetuned.values[name], difference)

    @property
    def standard_error(self) -> float:
        """Return the standard error of the difference; 0 if nothing is known of it."""
        interval = self.difference.interval
        return 0.0 if interval is None else (interval[1] - interval[0]) / (2 * WILSON_Z)

    @property
    def is_tie(self) -> bool:
        """Return whether neither is better by more than the standard error of the difference."""
        return abs(self.difference.value) <= self.standard_error

    def kept(self, *, pairs_are_separate: bool) -> str:
        """Return which model is better: by more than the standard error, or of two that are level by its loss.

        Without losses, a level model is finetuned, which with few rows is mostly ahead
        (`configs/training/finetuning.yaml`). Of pairs that are read separately it is the head alone: with 8 rows for
        each label, finetuning starts at such a head and ended below it (accuracy on validation rows of QQP's sample
        0.612 and 0.655, of MNLI's 0.371 and 0.384).
        """
        if not self.is_tie:
            return HEAD_ALONE if self.difference.value > 0 else FINETUNED
        if self.losses:
            return min(self.losses, key=lambda which: self.losses[which])
        return HEAD_ALONE if pairs_are_separate else FINETUNED

    def recorded(self, kept: str) -> dict[str, Any]:
        """Return what report.json has of it."""
        return {
            "kept": kept == HEAD_ALONE,
            "kept_model": kept,
            "calibrated_loss": dict(self.losses) or None,
            self.name: self.alone,
            f"finetuned_{self.name}": self.finetuned,
            "leads_by": self.difference.value,
            "leads_by_ci95": self.difference.interval,
        }

    def note(self, where: str, kept: str) -> str:
        """Return a sentence on which model is kept, and why."""
        which = {
            FINETUNED: "The finetuned model is kept",
            HEAD_ALONE: "The head alone is kept, a logistic regression on the vectors of the encoder as pretrained",
            AVERAGE: f"The average of the head alone and the finetuned model ({SHARE_OF_FINETUNED:.0%}) is kept",
        }
        both = f"{words_of(self.name)} of the head alone {self.alone:.3f}, finetuned {self.finetuned:.3f}"
        note = f"{which[kept]}: {where} {both} ({self.difference.value:+.3f}, standard error {self.standard_error:.3f})"
        if not self.losses:
            return note
        losses = [f"{model.replace('_', ' ')} {loss:.3f}" for model, loss in self.losses.items()]
        return f"{note}; of models so near, the calibrated loss decides: {', '.join(losses)}"


def _chosen_by_folds(
    training: Training, train: ExampleRows, *, starts_linear: bool, continues: bool
) -> tuple[HeadAlone | None, OutOfFold | None, list[str]]:
    """Return the head alone if a cross-validation of both on the rows of `train` favours it, what the better one
    predicts there, and a note; where that takes longer than some seconds, nothing.

    Further rows are in no fold: their labels were learned from all rows of `train`. A run that continues from a
    checkpoint has chosen the finetuned model already, and at most needs what this predicts.
    """
    from sklearn.model_selection import StratifiedKFold

    model = training.model
    config = model.config
    assert train.targets is not None and train.targets.of_rows is not None
    classes = train.targets.of_rows
    # Whether a comparison is possible, quick, and of use.
    folds = min(FOLDS, int(np.unique(classes, return_counts=True)[1].min()))
    is_needed = not continues or config.task.branch_weight != 0
    can_compare = folds >= 2 and not config.task.fits_thresholds and _takes_seconds(model, train)
    if not can_compare or not is_needed:
        return None, None, []

    # Both predict each fold without having seen it.
    started = time.perf_counter()
    divided = list(StratifiedKFold(folds, shuffle=True, random_state=config.seed).split(classes, classes))
    alone, finetuned = _by_folds(training, train, divided, starts_linear=starts_linear)
    comparison = HeadOrFinetuned.of(alone, finetuned, model.task.main_score, config.seed)

    # The better one is the run's model, whose predictions a linear branch is chosen by.
    kept = FINETUNED
    if not continues:
        kept = comparison.kept(pairs_are_separate=model.network.separates_pairs)
    out_of_fold = OutOfFold(divided, logits_of(model.task, alone if kept == HEAD_ALONE else finetuned), classes)
    note = comparison.note(f"in {folds} folds of {len(classes):,} training rows", kept)
    print(f"{note}; {time.perf_counter() - started:.1f} s", file=sys.stderr)
    if kept != HEAD_ALONE:
        return None, out_of_fold, [note]
    chosen = {"step": 0, "chosen_by": comparison.name, "chosen_on": "cross-validation"}
    chosen |= {"head_alone": comparison.recorded(kept)}
    return fit_head_alone(training, chosen), out_of_fold, [note]


def _takes_seconds(model: Model, train: ExampleRows) -> bool:
    """Return whether a run on these rows is so short that the folds take seconds, and is not set by hand."""
    training = model.config.training
    if training.epochs is None or training.budget is not None or model.processes.size > 1:
        return False

    # The time grows with the tokens that are read, and with the weights of the layers that read them.
    tokens = int(np.minimum(train.lengths, model.task.max_length).sum()) * training.epochs
    return tokens * model.network.parameters_by_part()["layers"] <= MOST_WORK


def _by_folds(
    training: Training, train: ExampleRows, folds: Sequence[tuple[np.ndarray, np.ndarray]], *, starts_linear: bool
) -> tuple[PredictionScores, PredictionScores]:
    """Return the scores of the head alone and of finetuned models on all rows, each predicted by a model that was
    fitted without its fold.
    """
    assert train.targets is not None and train.targets.of_rows is not None
    model = training.model
    classes = train.targets.of_rows

    # Each model predicts the rows that it has not seen, until every row has a prediction by both.
    predicted = {which: np.empty(len(classes), np.int64) for which in (HEAD_ALONE, FINETUNED)}
    chances = {which: np.empty((len(classes), len(model.labels))) for which in predicted}
    with torch.random.fork_rng():  # the run draws what it would draw without the folds
        for own, others in folds:
            for which, scores in _fold(training, train, own, others, starts_linear=starts_linear).items():
                assert isinstance(scores, ClassificationScores) and scores.probabilities is not None
                predicted[which][others], chances[which][others] = scores.predicted, scores.probabilities

    # The folds have predicted each row once, so they are scored together, as one split.
    _, positive = model.config.task.two_class_rule(model.labels)
    name = model.task.main_score
    alone, finetuned = (
        classification_scores(classes, predicted[which], model.labels, name, positive, probabilities=chances[which])
        for which in predicted
    )
    return alone, finetuned


def _fold(
    training: Training, train: ExampleRows, own: np.ndarray, others: np.ndarray, *, starts_linear: bool
) -> dict[str, PredictionScores]:
    """Return the scores of the head alone and of a finetuned model on the `others`, fitted to its `own` rows alone."""
    model = training.model
    weights = training.label_weights
    fitted = PartOfRows(train, own)
    held_out = PartOfRows(train, others)

    # The head alone.
    head_alone = _copy(model)
    set_linear_head(head_alone, fitted, weights, tuned=True)
    scores = {HEAD_ALONE: head_alone.evaluate_predictions(held_out)}

    # A finetuned model.
    finetuned = _copy(model)
    if starts_linear:
        set_linear_head(finetuned, fitted, weights)
    state = TrainState(replace(training, model=finetuned, rows=fitted, validation=None))
    for _ in state.remaining_steps():
        stop_if_interrupted(model.processes)
    state.distributed.finish()
    return scores | {FINETUNED: finetuned.evaluate_predictions(held_out)}
