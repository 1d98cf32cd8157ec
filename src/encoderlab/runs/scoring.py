"""The scores of a trained model on every split, and what is fitted after training: thresholds and a temperature on
validation, and a measure of how unlike the training texts a text is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from encoderlab.baselines.supervised import NGramModel
from encoderlab.batch import Batch, Prediction
from encoderlab.metrics.calibration import LEAST_ROWS, fit_temperature
from encoderlab.metrics.novelty import Novelty, fit_novelty
from encoderlab.metrics.scores import PredictionScores, SplitScores
from encoderlab.metrics.texts import ClassificationScores
from encoderlab.models.branch import THRESHOLDS
from encoderlab.models.model import Model
from encoderlab.runs.fit_branch import FittedLinear, choose_branch, held_out_of, parts
from encoderlab.tasks.classification import Classification
from encoderlab.tasks.rows import ExampleRows, PartOfRows, example_rows
from encoderlab.training.batches import Rows

NOVELTY_ROWS = 2_000  # of training, drawn at random: more found no more of CLINC150's texts out of scope
LEAST_OF_CLASS = 5  # of these, if a class has so many
MOST_HELD_OUT = 1_000
LEAST_HELD_OUT = 50


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of each split, and the `model` with what was fitted on validation. `linear_branch` is what report.json
    says of a linear model beside the network (None: the run has fitted none), and `on_ngrams` that model before it was
    cut, for the baseline.
    """

    model: Model
    scores: Mapping[str, SplitScores]
    linear_branch: dict[str, Any] | None = None
    on_ngrams: NGramModel | None = None

    @property
    def predictions(self) -> dict[str, PredictionScores]:
        """Return the scores of a task on labelled rows, with a prediction for each row."""
        by_split = {}
        for name, scores in self.scores.items():
            assert isinstance(scores, PredictionScores)
            by_split[name] = scores
        return by_split


def score(model: Model, rows: Mapping[str, Rows], linear: FittedLinear | None = None) -> Scored:
    """Return the scores of every split but `train`, and the model with what was fitted on validation: for a classifier,
    the temperature, by which the head's weights are divided; whether the `linear` model becomes a branch; thresholds.

    They apply to the other splits and to the saved model. Without validation thresholds are 0.5; a task without
    thresholds stays as it is.
    """
    if model.task.config.of_documents:
        return Scored(model, {name: model.evaluate(rows[name]) for name in rows if name != "train"})

    scores: dict[str, SplitScores] = {}
    # Validation comes first: it decides how predictions are made everywhere else.
    temperature = None
    held_out = None
    if "validation" in rows:
        held_out = model.evaluate(rows["validation"])
        temperature = calibrate(model, held_out)
        if temperature is not None:
            held_out = model.evaluate(rows["validation"])
        scores["validation"] = held_out
    alone = model.with_task(model.task.fitted_on(held_out))
    for name, split_rows in rows.items():
        if name not in ("train", "validation"):
            scores[name] = alone.evaluate(split_rows)
    scored = Scored(alone, scores if temperature is None else _with_temperature(scores, temperature))
    if linear is None:
        return scored
    return replace(_with_branch(model, linear, scored, rows), on_ngrams=linear.on_ngrams)


def _with_branch(model: Model, linear: FittedLinear, alone: Scored, rows: Mapping[str, Rows]) -> Scored:
    """Return the scores of the `model` with the linear one beside its network, or those of the network `alone` if there
    is to be no branch. The model has no thresholds yet: they are fitted to what it predicts with the branch.
    """
    # What both models predict of rows that neither has seen decides whether they are added.
    examples = {name: example_rows(split_rows) for name, split_rows in rows.items()}
    before = alone.predictions
    held_out = held_out_of(model.task, before, linear, examples)
    branch, facts = choose_branch(model.task, linear, held_out)
    if branch is None:
        return replace(alone, linear_branch=facts)

    # Validation comes first again: thresholds are fitted to the sum.
    both = replace(model, branch=branch)
    scores: dict[str, Any] = {}
    if "validation" in rows:
        scores["validation"] = both.evaluate(rows["validation"])
    both = both.with_task(both.task.fitted_on(scores.get("validation")))
    for name in before:
        if name != "validation":
            scores[name] = both.evaluate(rows[name])

    # What each part has, and what the network's own thresholds are, for those who read it without the branch.
    facts |= parts(both, before, scores, examples)
    settings = alone.model.task.config
    facts["network_thresholds"] = {name: getattr(settings, name) for name in THRESHOLDS if hasattr(settings, name)}
    both = replace(both, branch=replace(branch, facts=facts))
    is_divided = isinstance(model.task, Classification)
    return Scored(both, _with_temperature(scores, branch.temperature) if is_divided else scores, facts)


def _with_temperature(scores: Mapping[str, SplitScores], temperature: float) -> dict[str, SplitScores]:
    """Return the scores of classes with a record of the temperature by which their logits were divided."""
    divided = {}
    for name, split_scores in scores.items():
        assert isinstance(split_scores, ClassificationScores)
        divided[name] = replace(split_scores, temperature=temperature)
    return divided


def calibrate(model: Model, held_out: SplitScores) -> float | None:
    """Divide the weights of a head for classes by the temperature that fits the `held_out` scores, and return it.

    The logits are divided by it too, so that probabilities are calibrated wherever the model is read, and no prediction
    without a threshold changes. None, and the weights stay, if there are no such scores, too few rows, or no
    temperature fits.
    """
    if not isinstance(held_out, ClassificationScores) or held_out.probabilities is None or held_out.n < LEAST_ROWS:
        return None
    head = model.network.sequence_head
    temperature = fit_temperature(held_out.probabilities, held_out.labels)
    if temperature is None or head is None:
        return None
    with torch.no_grad():
        for parameter in head.parameters():
            parameter /= temperature
    return temperature


def novelty_of(model: Model, rows: Mapping[str, Rows], *, head_alone: bool) -> Novelty | None:
    """Return how unlike the training rows a text is, with the novelty of validation rows to compare it with.

    Without enough of these, it is that of training rows by cross-validation if the `head_alone` was fitted. A trained
    encoder has drawn its training rows together: 44% of test rows would seem unlike them, not the stated 5% (CLINC150,
    8 rows a class). None in that case, and if a text has not one of several classes or is a pair.
    """
    if not model.config.task.one_class_per_text:
        return None
    train = example_rows(rows["train"])
    if "second" in train.store:
        return None
    n_held_out = len(rows["validation"]) if "validation" in rows else 0
    if n_held_out < LEAST_HELD_OUT and not head_alone:
        return None
    assert train.targets is not None and train.targets.of_rows is not None
    random = np.random.default_rng(model.config.seed)
    drawn = _of_every_class(random.permutation(np.flatnonzero(train.targets.known)), train.targets.of_rows)
    model = replace(model, branch=None)
    vectors = _vectors(model, PartOfRows(train, drawn))
    classes = train.targets.of_rows[drawn]
    if n_held_out < LEAST_HELD_OUT:
        return fit_novelty(vectors, classes)
    some = np.sort(random.permutation(n_held_out)[:MOST_HELD_OUT])
    held_out = PartOfRows(example_rows(rows["validation"]), some)
    return fit_novelty(vectors, classes, _vectors(model, held_out))


def _of_every_class(order: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the first LEAST_OF_CLASS rows of each class in this order, then others up to NOVELTY_ROWS; ascending."""
    import pandas as pd

    ordered: Any = pd.Series(classes[order])
    is_early = ordered.groupby(ordered).cumcount().to_numpy() < LEAST_OF_CLASS
    drawn = np.concatenate([order[is_early], order[~is_early]])
    return np.sort(drawn[: max(NOVELTY_ROWS, int(is_early.sum()))])


def _vectors(model: Model, rows: ExampleRows) -> np.ndarray:
    """Return what the head reads of each row: [rows, width]."""

    def read(prediction: Prediction, batch: Batch) -> Iterable[np.ndarray]:  # noqa: ARG001
        assert prediction.sequence_vectors is not None
        return prediction.sequence_vectors.float().cpu().numpy()

    return np.stack(model.outputs(rows, read))
