"""The head alone, on the encoder as pretrained: a run keeps it if it is better than the finetuned model, or asked for.

Its weights are those of a logistic regression, so that it is a model like any other.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from torch import Tensor

from encoderlab.baselines.supervised import MOST_FROZEN_CELLS, MOST_FROZEN_ROWS
from encoderlab.data.data import Data
from encoderlab.metrics.comparison import paired_difference
from encoderlab.metrics.intervals import WILSON_Z
from encoderlab.metrics.scores import PredictionScores
from encoderlab.reports.wording import words_of
from encoderlab.runs.fit import Result, fit
from encoderlab.runs.frozen import SHORTEST_RUN, set_linear_head
from encoderlab.runs.model import Model
from encoderlab.runs.run import Run
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.tasks.rows import ExampleRows
from encoderlab.training.batches import MicroBatches, Rows
from encoderlab.training.checkpoint import weights_of
from encoderlab.training.config import ALL_LAYERS, Keep


def fit_best(
    model: Model,
    rows: Mapping[str, Rows],
    run: Run,
    micro_batches: MicroBatches,
    head_alone: HeadAlone | None,
) -> Result:
    """Train the model as `fit` does, and leave the weights of the `head_alone` in it if these are better on validation,
    or were asked for. Raises as `fit` does.
    """
    if head_alone is None:
        return fit(model, rows, run, micro_batches)
    if head_alone.asked_for:
        return _keep_head_alone(model, head_alone)
    result = fit(model, rows, run, micro_batches)
    checkpoint, note = keep_better(model, head_alone, rows["validation"], result.checkpoint)
    return Result(checkpoint, result.throughput, [note, *result.notes])


def _keep_head_alone(model: Model, head_alone: HeadAlone) -> Result:
    """Put the head alone, which was asked for, into the model."""
    model.network.load_state_dict(head_alone.weights)
    model.network.eval()
    asked = f"training.freeze_layers={ALL_LAYERS}"
    checkpoint = {"step": 0, "chosen_by": asked, "chosen_on": None, "head_alone": {"kept": True}}
    speed = dict.fromkeys(("tokens_per_second", "examples_per_second", "padding_fraction"))
    return Result(checkpoint, {**speed, "train_seconds": round(head_alone.seconds, 2)}, [])


@dataclass(frozen=True, slots=True)
class HeadAlone:
    """A classifier whose encoder is as pretrained and whose head is a logistic regression on its vectors.

    `weights` are those of the whole model. `scores` are those on validation; None: it is not compared with anything,
    but was asked for (`training.freeze_layers=all`). `seconds` is the time it took.
    """

    weights: dict[str, Tensor]
    scores: PredictionScores | None
    seconds: float

    @property
    def asked_for(self) -> bool:
        """Return whether it is the model of the run, which then takes no step."""
        return self.scores is None


def wants_head_alone(model: Model, data: Data, command: str) -> bool:
    """Return whether the head alone is the model of this run, or may turn out to be the better one on validation.

    A run of a few steps is a trial, and of very many rows an encoder learns more than its head does.
    """
    config = model.config
    training = config.training
    reads_max = model.network.window_pooling == "max"  # of windows, which is not linear in what the head reads
    if not config.task.one_class_per_text or not model.network.has_weights or config.starts_from is None or reads_max:
        return False
    if training.freeze_layers == ALL_LAYERS:
        return True
    if command != "finetune" or training.keep is not Keep.best or not data.has_validation:
        return False
    n_rows = len(data.split("train"))
    is_trial = training.steps is not None and training.steps < SHORTEST_RUN
    few_enough = n_rows <= MOST_FROZEN_ROWS and n_rows * len(model.labels) <= MOST_FROZEN_CELLS
    return few_enough and not is_trial


def fit_head_alone(model: Model, rows: Mapping[str, Rows]) -> HeadAlone:
    """Return the model before its first step with a head that is fitted to the rows of `train`; `model` stays as it is.

    Every process fits the same one.
    """
    started = time.perf_counter()
    alone = replace(model, network=copy.deepcopy(model.network), processes=SINGLE_PROCESS)
    set_linear_head(alone, cast("ExampleRows", rows["train"]), tuned=True)
    scores = None
    if model.config.training.freeze_layers != ALL_LAYERS:
        scores = cast("PredictionScores", alone.evaluate(rows["validation"]))
    return HeadAlone(weights_of(alone.network), scores, time.perf_counter() - started)


def keep_better(
    model: Model, head_alone: HeadAlone, validation: Rows, checkpoint: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """Put the head alone into the finetuned `model` unless that has the higher score on validation; return which
    checkpoint the model is, and a note with the standard error of the difference on the same rows.

    The finetuned model's score is the best of several evaluations on these rows, and so about a standard error too
    high. A lead of the head alone within that error is therefore no accident: on 600 pairs of questions it led by
    0.033, error 0.034, and on test by 0.083.
    """
    alone = head_alone.scores
    assert alone is not None
    name = model.task.main_score
    finetuned = cast("PredictionScores", model.evaluate(validation))
    seed = model.config.seed
    lead = model.processes.broadcast_from_main(lambda: paired_difference([alone], [finetuned], name, seed))
    error = 0.0
    if lead.interval is not None:
        error = (lead.interval[1] - lead.interval[0]) / (2 * WILSON_Z)
    is_better = lead.value >= 0
    if is_better:
        model.network.load_state_dict(head_alone.weights)
        checkpoint = {"step": 0, "chosen_by": name, "chosen_on": "validation"}
    compared_scores = {
        "kept": is_better,
        name: alone.values[name],
        f"finetuned_{name}": finetuned.values[name],
        "leads_by": lead.value,
        "leads_by_ci95": lead.interval,
    }
    return checkpoint | {"head_alone": compared_scores}, _note_on(compared_scores, name, error, validation)


def _note_on(scores: Mapping[str, Any], name: str, error: float, validation: Rows) -> str:
    """Return a sentence on which of head alone and finetuned model is kept, and why."""
    kept = "The finetuned model is kept"
    if scores["kept"]:
        kept = "The head alone is kept, a logistic regression on the vectors of the encoder as pretrained"
    words = words_of(name)
    both = f"{words} of the head alone {scores[name]:.3f}, finetuned {scores[f'finetuned_{name}']:.3f}"
    difference = f"{scores['leads_by']:+.3f}, standard error {error:.3f}"
    return f"{kept}: on {len(validation):,} validation rows {both} ({difference})"
