"""How sure a model is and how sure it should be, as report.json has it and as a page says it in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.metrics.calibration import LEAST_ROWS, at_temperature, calibration, cross_entropy_of
from encoderlab.metrics.entities import TaggingScores
from encoderlab.metrics.intervals import wilson
from encoderlab.metrics.texts import ClassificationScores
from encoderlab.reports import wording

if TYPE_CHECKING:
    from encoderlab.metrics.scores import SplitScores


def calibration_of(scores: SplitScores) -> dict[str, Any]:
    """Return how well confidence matches accuracy and, if a temperature was fitted, how well it did before, with the
    loss before.
    """
    if isinstance(scores, TaggingScores):
        assert scores.confidences is not None
        right = np.concatenate(scores.labels) == np.concatenate(scores.predicted)
        return {"calibration": calibration(np.concatenate(scores.confidences), right)}
    if not isinstance(scores, ClassificationScores) or scores.probabilities is None:
        return {}
    right = scores.probabilities.argmax(-1) == scores.labels  # of the most probable class, whatever the threshold
    measured = calibration(scores.probabilities.max(-1), right)
    if scores.temperature is not None:
        raw = at_temperature(scores.probabilities, 1 / scores.temperature)
        before = calibration(raw.max(-1), right)
        measured |= {"temperature": scores.temperature, "ece_uncalibrated": before["ece"]}
        measured["loss_uncalibrated"] = cross_entropy_of(raw, scores.labels)
    return {"calibration": measured}


def about_calibration(report: Mapping[str, Any], scored: Mapping[str, Any]) -> str:
    """Return the calibration error in words, and that before the temperature."""
    if "calibration" not in scored:
        return ""
    measured = scored["calibration"]
    words = f"{_sureness(measured)} The expected calibration error (ECE), the mean distance in {measured['bins']} bins "
    words += f"of equal width (Guo et al. 2017), is {wording.score(measured['ece'])}."
    if "temperature" in measured:
        on = "these rows" if report["scored_split"] == "validation" else "validation"
        before = f"Before temperature {measured['temperature']:.2f}, fitted on {on}"
        words = f"{words} {before}, it was {wording.score(measured['ece_uncalibrated'])}."
        return f"{words} {_about_worse(measured, scored['loss'])}".rstrip()
    return words


def without_temperature(report: Mapping[str, Any], scored: Mapping[str, Any]) -> str:
    """Return a note on probabilities to which no temperature was fitted, and why; "" if one was, or none is ever."""
    n = report["splits"].get("validation", {}).get("n", 0)
    measured = scored.get("calibration", {"temperature": None})
    if "temperature" in measured or "token_accuracy" in scored or report["command"] == "eval" or n >= LEAST_ROWS:
        return ""
    few = f"the validation rows are fewer than {LEAST_ROWS}" if n else "there are no validation rows"
    return f"No temperature was fitted to the probabilities: {few}"


def _sureness(measured: Mapping[str, Any]) -> str:
    """Return in a sentence whether predictions are right as often as their probabilities say."""
    bins = measured["reliability"]
    n = sum(row["n"] for row in bins)
    confidence = sum(row["n"] * row["confidence"] for row in bins) / n
    accuracy = sum(row["n"] * row["accuracy"] for row in bins) / n
    low, high = wilson(accuracy, n)
    verdict = "as sure as it should be, as far as these rows can tell"
    if not low <= confidence <= high:
        verdict = "too sure of itself" if confidence > accuracy else "less sure than it could be"
    said = f"gives its predictions a probability of {confidence:.0%} on average, and {accuracy:.0%} of them are right"
    return f"The model {said}: it is {verdict}."


def _about_worse(measured: Mapping[str, Any], loss: float) -> str:
    """Return why a temperature is kept that makes the calibration error of these rows worse; "" if it does not."""
    if measured["ece"] <= measured["ece_uncalibrated"]:
        return ""
    before = measured["loss_uncalibrated"]
    losses = f"the loss, for which it is fitted, {wording.score(before)} before and {wording.score(loss)} after"
    reason = "A lower loss need not bring a lower error"
    if loss >= before:
        reason = "Other rows than those it was fitted on may want another temperature"
    return f"Here the error is larger with it; {losses}. {reason}."
