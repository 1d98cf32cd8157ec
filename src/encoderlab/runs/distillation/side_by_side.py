"""Compares teacher and student: how large each is, and how many texts per second it processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch

from encoderlab.batch import Batch, Prediction, Targets
from encoderlab.runs.distillation.teacher import VectorTeacher
from encoderlab.runs.models.assembly import Assembly
from encoderlab.system.device import Compute
from encoderlab.training.batches import Rows, scoring_batches
from encoderlab.training.evaluation import answered

TIMED_TEXTS = 1_000  # per split, roughly: enough to measure the speed, few enough for a slow teacher
Answered = TypeVar("Answered")


def timed(n: int, work: Callable[[], Answered]) -> tuple[Answered, float]:
    """Return the result of `work`, and how many of `n` texts it processed per second."""
    started = time.perf_counter()
    return work(), n / max(time.perf_counter() - started, 1e-9)


def size_and_speed(parameters: int, texts_per_second: float | None) -> dict[str, Any]:
    """Return the facts of a model: `parameters`, `megabytes` of weights in fp32, `texts_per_second` (None: not
    measured).
    """
    speed = texts_per_second and round(texts_per_second, 1)
    return {"parameters": parameters, "megabytes": round(parameters * 4 / 1e6, 1), "texts_per_second": speed}


def encoders_side_by_side(
    assembly: Assembly, teacher: VectorTeacher, name: str, rows: Rows
) -> dict[str, dict[str, Any]]:
    """Return the facts of a student of vectors and of its `teacher`, called `name`, both timed on the same batches of
    `rows`.

    Tokenising is not timed, because both read the same tokens. The student is left in evaluation mode.
    """
    every = max(len(rows) // TIMED_TEXTS, 1)
    batches = scoring_batches(
        rows, assembly.tokenizer.pad_id, assembly.compute.device, assembly.config.model.d_model, every=every
    )
    unanswered = [replace(batch, targets=None) for batch in batches]
    student = assembly.model.eval()
    speeds = [_texts_per_second(model, unanswered, assembly.compute) for model in (student, teacher)]
    return {
        "student": size_and_speed(student.n_parameters, speeds[0]),
        "teacher": {"name": name, **size_and_speed(teacher.model.n_parameters, speeds[1])},
    }


def _texts_per_second(
    model: Callable[[Batch], Prediction | Targets], batches: Sequence[Batch], compute: Compute
) -> float:
    """Return how many texts per second a model embeds, after one batch to warm up."""

    def answer(batch: Batch) -> None:
        with torch.inference_mode(), compute.autocast():
            vectors = model(batch).sequence_vectors
        assert vectors is not None
        vectors.sum().item()  # waits for the device

    answer(batches[0])
    return timed(sum(map(len, batches)), lambda: list(answered(batches, answer, compute)))[1]
