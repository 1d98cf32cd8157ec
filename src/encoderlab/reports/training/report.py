"""A run's figures as report.json holds them, and what they say beside the baselines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.metrics.calibration import at_temperature, calibration, fit_temperature, of_confidences
from encoderlab.metrics.intervals import difference

if TYPE_CHECKING:
    from encoderlab.baselines.supervised import Baseline
    from encoderlab.metrics import Scores, SplitScores

BASELINE_NAMES = {
    "majority": "always the most frequent label",
    "tfidf_logreg": "TF-IDF + logistic regression",
    "word_majority": "each word's most frequent label",
}


def build_report(
    *,
    command: str,
    task: str,
    seed: int,
    parameters: Mapping[str, int],
    splits: Mapping[str, Scores],
    baselines: Mapping[str, Baseline],
    throughput: Mapping[str, float],
    checkpoint: Mapping[str, Any],
    notes: Sequence[str],
) -> dict[str, Any]:
    """What report.json holds: JSON-safe, with null for any figure that is not a finite number.

    `parameters` counts the model's, by part and as `total`. `splits` are the labelled ones, of which `scored_split` names the one
    the verdict is about: test, else validation. `baselines` were scored on that split. `checkpoint` holds step, chosen_by and
    chosen_on. The seed also draws the bootstrap.
    """
    scored = next(name for name in ("test", "validation", *splits) if name in splits)
    with_intervals = {name: scores.with_intervals(seed) for name, scores in splits.items()}
    compared = {name: _baseline(baseline, splits[scored], seed) for name, baseline in baselines.items()}
    report = {
        "command": command,
        "task": task,
        "seed": seed,
        "model": {
            "parameters": parameters["total"],
            "parameters_by_part": {part: n for part, n in parameters.items() if part != "total"},
        },
        "scored_split": scored,
        "main_figure": splits[scored].main,
        "splits": {
            name: {**part.as_dict(), "calibration": _calibration(name, scored, splits)} for name, part in with_intervals.items()
        },
        "baselines": compared,
        "verdict": _verdict(compared, splits[scored]),
        "throughput": throughput,
        "checkpoint": checkpoint,
        "notes": [*notes, *caveats(splits[scored], scored, checkpoint), *_skipped(baselines)],
    }
    return json_safe(report)


def _calibration(name: str, scored: str, splits: Mapping[str, Scores]) -> dict[str, Any]:
    """How far confidence and right answers agree on a split; of the scored one, also after temperature scaling.

    The temperature is fitted on validation, never on the rows scored: where these are one split, there is none; nor where
    validation determines none.
    """
    scores, held_out = splits[name], splits.get("validation")
    if scores.probabilities is None:
        assert scores.confidences is not None
        right = np.concatenate([a == b for a, b in zip(scores.labels, scores.predicted, strict=True)])
        return of_confidences(np.concatenate(scores.confidences), right)
    labels = np.asarray(scores.labels)
    found = calibration(scores.probabilities, labels)
    if name != scored or scored == "validation" or held_out is None:
        return found
    assert held_out.probabilities is not None
    temperature = fit_temperature(held_out.probabilities, np.asarray(held_out.labels))
    if temperature is None:
        return found
    after = calibration(at_temperature(scores.probabilities, temperature), labels)
    return {**found, "after_temperature": {"temperature": temperature, "fitted_on": "validation", **after}}


def _baseline(baseline: Baseline, scores: Scores, seed: int) -> dict[str, Any]:
    """The baseline's figures, and how far the model's main figure is above its own, on the same rows, answer by answer."""
    if baseline.skipped:
        return {"accuracy": None, "skipped": baseline.skipped}
    assert baseline.predicted is not None
    if isinstance(scores.labels, np.ndarray):
        other = np.asarray(baseline.predicted)[scores.rows]
    else:  # words beyond the model's reach were not asked of it, and so are not compared
        other = [baseline.predicted[row][: len(asked)] for row, asked in zip(scores.rows, scores.labels, strict=True)]
    lead, bounds = difference(scores.labels, scores.predicted, other, seed)
    return {**baseline.figures, "model_leads_by": lead, "model_leads_by_ci95": bounds}


def _verdict(baselines: Mapping[str, Mapping[str, Any]], scores: Scores) -> dict[str, str] | None:
    """Where the model stands beside its best baseline: above, not distinguishable, or below; None where there is none.

    Above or below only where the 95% interval of the paired difference leaves out zero.
    """
    found = {name: baseline for name, baseline in baselines.items() if "skipped" not in baseline}
    if not found:
        return None
    name = max(found, key=lambda name: found[name][scores.main])
    lead, (low, high) = found[name]["model_leads_by"], found[name]["model_leads_by_ci95"]
    outcome = "above" if low > 0 else "below" if high < 0 else "not distinguishable"
    stands = {
        "above": "is above",
        "below": "is below",
        "not distinguishable": "is not distinguishable from",
    }[outcome]
    figure = scores.main.replace("_", " ")
    sentence = (
        f"The model's {figure} {stands} that of its best baseline, {BASELINE_NAMES.get(name, name)}: "
        f"{lead:+.3f}, 95% interval {low:+.3f} to {high:+.3f}, on the same rows."
    )
    return {"against": name, "outcome": outcome, "sentence": sentence}


def caveats(scores: SplitScores, scored: str, checkpoint: Mapping[str, Any]) -> list[str]:
    """What a reader of the scores should know before believing them."""
    found = []
    if scored == "train":
        found.append("These are the rows the model was trained on: the scores say what it remembers, not what it can do.")
    if checkpoint.get("chosen_on") == scored:
        found.append(f"The checkpoint was chosen on {scored}, the split it is scored on, so its scores are a little too good.")
    if scores.figures[scores.main] == 1:
        found.append(
            f"Every answer is right, so the interval has no width; with {scores.n:,} rows, "
            f"an error rate of up to {min(3 / scores.n, 1):.2g} may still hide behind that (the rule of three)."
        )
    return found


def _skipped(baselines: Mapping[str, Baseline]) -> list[str]:
    return [f"Baseline {name} was skipped: {baseline.skipped}." for name, baseline in baselines.items() if baseline.skipped]


def json_safe(value: Any) -> Any:
    """`value` in types that JSON has; numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): json_safe(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(inner) for inner in value]
    if isinstance(value, np.ndarray | np.generic):
        return json_safe(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value
