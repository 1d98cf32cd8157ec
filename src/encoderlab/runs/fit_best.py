"""Fits the better of two models: the one that is finetuned, or the head alone on the encoder as pretrained.

`fit` does the training, and `head_alone` says what it is compared with, if it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from encoderlab.metrics.scores import PredictionScores
from encoderlab.runs.fit import Result, fit
from encoderlab.runs.head_alone import Comparison, HeadAlone
from encoderlab.runs.model import Model
from encoderlab.runs.run import Run
from encoderlab.training.batches import MicroBatchCount, Rows


def fit_best(
    model: Model,
    rows: Mapping[str, Rows],
    run: Run,
    micro_batches: MicroBatchCount,
    head_alone: HeadAlone | None,
) -> Result:
    """Train the model as `fit` does, and leave the weights of the `head_alone` in it if these are better on validation,
    or were asked for. Raises as `fit` does.
    """
    if head_alone is None:
        return fit(model, rows, run, micro_batches)
    if head_alone.chosen is not None:
        return _keep_head_alone(model, head_alone, head_alone.chosen)
    result = fit(model, rows, run, micro_batches)
    checkpoint, note = _keep_better(model, head_alone, rows["validation"], result.checkpoint)
    return Result(checkpoint, result.throughput, [note, *result.notes])


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
    finetuned = cast("PredictionScores", model.evaluate(validation))
    seed = model.config.seed
    comparison = model.processes.broadcast_from_main(lambda: Comparison.of(alone, finetuned, name, seed))
    kept = comparison.favours_head_alone(of_pairs=model.network.separates_pairs)
    if kept:
        model.network.load_state_dict(head_alone.weights)
        checkpoint = {"step": 0, "chosen_by": name, "chosen_on": "validation"}
    note = comparison.note(f"on {len(validation):,} validation rows", kept=kept)
    return checkpoint | {"head_alone": comparison.recorded(kept=kept)}, note
