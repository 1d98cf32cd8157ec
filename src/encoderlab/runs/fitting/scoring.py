"""Scores of a fitted model, and what its task still has to fit on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from encoderlab.metrics import AnswerScores, Scores
from encoderlab.metrics.thresholds import DEFAULT
from encoderlab.runs.models.assembly import Assembly
from encoderlab.runs.models.task import build_task, with_thresholds
from encoderlab.tasks.config import ClassificationConfig, TaskConfig
from encoderlab.tasks.texts import threshold_rule
from encoderlab.training.batches import Rows


def scores_of(assembly: Assembly, rows: Rows) -> AnswerScores:
    """Return the scores of a model that predicts labels or numbers, on all of `rows`."""
    scores = assembly.evaluate(rows)
    assert isinstance(scores, AnswerScores)
    return scores


def threshold_notes(task: TaskConfig, scores: Mapping[str, AnswerScores]) -> list[str]:
    """Return notes on a threshold that the settings of `task` request: how it was fitted, and which precision it
    missed.
    """
    if not isinstance(task, ClassificationConfig) or not isinstance(task.threshold, str):
        return []
    held_out = scores.get("validation")
    if not isinstance(held_out, Scores) or held_out.threshold is None:
        return [f"There is no validation split to fit task.threshold={task.threshold} on, so it is {DEFAULT}"]
    label, rule = held_out.positive_label, threshold_rule(task)
    requested = rule and rule.precision
    reached = held_out.per_class[str(label)]["precision"]
    notes = [
        f"The threshold of {label!r}, {held_out.threshold:.3f}, was fitted on validation (task.threshold={task.threshold})"
    ]
    if requested is not None and reached < requested:
        notes.append(
            f"No threshold gives {label!r} a precision of {requested:g} on validation: the best has {reached:.3f}"
        )
    return notes


def score_splits(assembly: Assembly, rows: Mapping[str, Rows]) -> tuple[Assembly, dict[str, AnswerScores]]:
    """Return the scores of every split but `train`, and the assembly with the thresholds that were fitted on
    validation.

    They apply to the other splits and to the saved model. Without validation they are 0.5; a task without thresholds
    stays as it is.
    """
    held_out = scores_of(assembly, rows["validation"]) if "validation" in rows else None
    settings = with_thresholds(assembly.config.task, assembly.task.labels, held_out)
    task = build_task(settings, assembly.tokenizer, assembly.task.labels, assembly.task.max_length)
    assembly = replace(assembly, task=task, config=replace(assembly.config, task=settings))
    others = {name: scores_of(assembly, part) for name, part in rows.items() if name not in ("train", "validation")}
    return assembly, ({} if held_out is None else {"validation": held_out}) | others
