"""The scores of a trained model on every split, with what is fitted on validation: thresholds and a temperature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import torch

from encoderlab.metrics.calibration import LEAST_ROWS, fit_temperature
from encoderlab.metrics.scores import PredictionScores, SplitScores
from encoderlab.metrics.texts import ClassificationScores
from encoderlab.runs.model import Model
from encoderlab.training.batches import Rows


def score(model: Model, rows: Mapping[str, Rows]) -> tuple[Model, dict[str, SplitScores]]:
    """Return the scores of every split but `train`, and the model with what was fitted on validation: thresholds, and,
    for a classifier, the temperature, by which the head's weights are divided.

    They apply to the other splits and to the saved model. Without validation thresholds are 0.5; a task without
    thresholds stays as it is.
    """
    if model.task.config.of_documents:
        return model, {name: model.evaluate(rows[name]) for name in rows if name != "train"}

    scores: dict[str, SplitScores] = {}
    # Validation comes first: it decides how predictions are made everywhere else.
    temperature = None
    held_out = None
    if "validation" in rows:
        held_out = cast("PredictionScores", model.evaluate(rows["validation"]))
        temperature = calibrate(model, held_out)
        if temperature is not None:
            held_out = cast("PredictionScores", model.evaluate(rows["validation"]))
        scores["validation"] = held_out
    task = model.task.fitted_on(held_out)
    model = replace(model, task=task, config=replace(model.config, task=task.config))

    for name, of_split in rows.items():
        if name not in ("train", "validation"):
            scores[name] = model.evaluate(of_split)
    return model, scores if temperature is None else _with_temperature(scores, temperature)


def _with_temperature(scores: Mapping[str, SplitScores], temperature: float) -> dict[str, SplitScores]:
    """Return the scores of classes with a record of the temperature by which their logits were divided."""
    divided = {}
    for name, of_split in scores.items():
        assert isinstance(of_split, ClassificationScores)
        divided[name] = replace(of_split, temperature=temperature)
    return divided


def calibrate(model: Model, held_out: PredictionScores) -> float | None:
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
