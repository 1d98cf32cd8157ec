"""A finished run's predictions for new examples."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from encoderlab.batch import Batch
from encoderlab.data.examples import Example
from encoderlab.runs.assembly import Assembly
from encoderlab.runs.inference.inputs import encoded_rows
from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.task import Answer
from encoderlab.training.evaluation import predict_batches


def answers_of(assembly: Assembly, examples: Sequence[Example]) -> list[Answer]:
    """Return the model's predictions, one for each of the examples, in order. Raises DataError for an example it cannot
    read.
    """
    return answers_of_rows(assembly, encoded_rows(assembly, examples))


def answers_of_rows(assembly: Assembly, rows: ExampleRows) -> list[Answer]:
    """Return the same for encoded examples."""

    def answer(batch: Batch) -> list[Answer]:
        with torch.inference_mode():
            with assembly.compute.autocast():
                prediction = assembly.model(batch)
            return assembly.task.answers(prediction, batch)

    answers: dict[int, Answer] = {}
    for batch, found in predict_batches(assembly.scoring_batches(rows), answer, assembly.compute):
        answers.update(zip(batch.rows.tolist(), found, strict=True))
    return [answers[row] for row in range(len(rows))]
