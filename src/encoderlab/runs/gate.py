"""Whether a model may replace an older one: both are scored on the same rows, and the difference has an interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from encoderlab.config.commands import EvalConfig
from encoderlab.data.examples import Split, WordsExample
from encoderlab.errors import SettingError, UserError
from encoderlab.metrics.scores import PredictionScores, is_lower_better
from encoderlab.models.folder import open_model
from encoderlab.models.model import Model
from encoderlab.reports import wording
from encoderlab.settings import without_folders
from encoderlab.training.config import Precision


def open_older(config: EvalConfig, model: Model) -> Model | None:
    """Return the model that `against` names; None if it names none.

    Raises SettingError if it predicts something else than `model`: another kind of target, or labels that `model` does
    not have. It may lack labels that are new.
    """
    if config.against is None:
        if config.allowed_drop is not None:
            problem = f"allowed_drop={config.allowed_drop:g} needs a model to compare with"
            raise SettingError(problem, remedy="Set against=RUN to the older one")
        return None

    # Both must have predictions to be compared.
    if model.config.task.of_documents:
        problem = f"against={config.against} needs a model with predictions, and {config.run} is a pretrained encoder"
        raise SettingError(problem, remedy="Finetune both, or compare their reports with encoderlab compare")
    # On the device that suits it: a graph computes on the processor alone.
    older = open_model(replace(config, run=config.against, device="auto", precision=Precision.auto), or_graph=True)
    if older.config.task.of_encoder_alone:
        problem = f"against={config.against} is an encoder without a head, which predicts nothing"
        raise SettingError(problem, remedy="Name a model that was trained on the task")

    # They must be predictions of the same thing: the same kind of target, columns, and labels that both know.
    if (_kind(older), older.origin.paired) != (_kind(model), model.origin.paired):
        problem = f"against={config.against} predicts something else than {config.run}"
        raise SettingError(problem, allowed="a model of the same kind of task, for the same columns")
    unknown = [label for label in older.labels if label not in model.labels]
    if unknown:
        problem = f"against={config.against} predicts {', '.join(map(repr, unknown))}, which {config.run} does not"
        raise SettingError(problem, allowed="a model with labels that both have")
    return older


def _kind(model: Model) -> tuple[Any, bool]:
    return model.task.heads.sequence_target, model.config.task.of_words


def compared(config: EvalConfig, older: Model, split: Split, scores: PredictionScores, seed: int) -> dict[str, Any]:
    """Return what report.json says of an `older` model on the rows of a split, given the `scores` of the newer one.

    `leads_by` is positive where the newer model is better, also by scores of which the least is the best. Its interval
    is that of the paired bootstrap. `passed` is None if no drop was named.
    """
    name = scores.main_score

    # The older model's score follows from the lead, which is positive where the newer one is better.
    lead, bounds = scores.lead_over(_predicted(older, split, scores), seed)
    sign = -1.0 if is_lower_better(name) else 1.0
    allowed = config.allowed_drop
    return {
        "run": without_folders(config.against),
        "score": name,
        name: scores.values[name] - sign * lead,
        "leads_by": lead,
        "leads_by_ci95": bounds,
        "allowed_drop": allowed,
        "passed": None if allowed is None else bool(lead >= -allowed),
    }


def _predicted(older: Model, split: Split, scores: PredictionScores) -> Any:
    """Return the predictions of the `older` model for all rows of a split, in the label ids of the newer model's."""
    predictions = older.predictions(list(split))

    # Labels are compared by name, because each model numbers them in its own order.
    names = getattr(scores, "label_names", [])
    ids = {name: place for place, name in enumerate(names)}
    if older.config.task.of_words:
        sentences = []
        for row, prediction in enumerate(predictions):
            # Words beyond its length get no label from it: none of the label ids.
            example = split[row]
            assert isinstance(example, WordsExample)
            n_words = len(example.words)
            known = [ids[label] for label in prediction.labels]
            sentences.append(np.array([*known, *[-1] * (n_words - len(known))], np.int64))
        return sentences
    if older.task.heads.sequence_target == "number":
        return np.array([prediction.number for prediction in predictions], np.float64)
    if older.task.heads.sequence_target == "label_set":
        marks = np.zeros((len(predictions), len(names)), bool)
        for row, prediction in enumerate(predictions):
            marks[row, [ids[label] for label in prediction.labels]] = True
        return marks
    return np.array([ids[prediction.labels[0]] for prediction in predictions], np.int64)


def refuse_worse(config: EvalConfig, facts: Mapping[str, Any]) -> None:
    """Raise UserError, with exit code 1, if the `facts` say that the newer model is worse by more than allowed."""
    if facts["passed"] is not False:
        return
    drop = -facts["leads_by"]
    named = wording.words_of(facts["score"])
    problem = f"{config.run} is worse than {config.against}, by {drop:.3f} {named}"
    raise UserError(problem, allowed=f"allowed_drop={facts['allowed_drop']:g}", remedy="Keep the older model")
