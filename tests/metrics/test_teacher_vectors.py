"""Cosines between the vectors of student and teacher: over the whole split, however it was batched."""

import numpy as np
import pytest
import torch

from encoderlab.batch import Batch, Prediction, TeacherOutputs
from encoderlab.metrics.pretraining import TeacherVectorsMetrics

LENGTH, WIDTH = 3, 4
DRAW = torch.Generator().manual_seed(0)
STUDENT, TEACHER = (torch.randn(5, LENGTH, WIDTH, generator=DRAW) for _ in range(2))


def added(metrics, rows, student=STUDENT):
    ids = torch.zeros(len(rows), LENGTH, dtype=torch.long)
    of_tokens = torch.arange(len(rows) * LENGTH)
    teacher = TeacherOutputs(sequence_vectors=TEACHER[rows].mean(1), token_vectors=TEACHER[rows].flatten(0, 1))
    batch = Batch(ids, ids, None, torch.tensor(rows), of_tokens, None, None, ids.numel(), teacher=teacher)
    metrics.keep(
        metrics.columns(
            Prediction(sequence_vectors=student[rows].mean(1), token_vectors=student[rows].flatten(0, 1)), batch
        )
    )
    return metrics


def test_the_figures_are_the_mean_cosines_of_texts_and_of_tokens():
    found = added(TeacherVectorsMetrics(), [0, 1, 2, 3, 4]).scores()
    token = torch.cosine_similarity(STUDENT, TEACHER, dim=-1).mean().item()
    sequence = torch.cosine_similarity(STUDENT.mean(1), TEACHER.mean(1), dim=-1).mean().item()
    assert found.values == pytest.approx(
        {"loss": 2 - token - sequence, "sequence_cosine": sequence, "token_cosine": token}, abs=1e-5
    )
    low, high = found.with_intervals(0).as_dict()["sequence_cosine_ci95"]
    assert low < found.values["sequence_cosine"] < high


def test_batches_in_another_order_give_the_same_rows():
    whole, parts = (
        added(TeacherVectorsMetrics(), [0, 1, 2, 3, 4]),
        added(added(TeacherVectorsMetrics(), [3, 4]), [2, 0, 1]),
    )
    assert parts.scores().rows.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(whole.scores().cosines, parts.scores().cosines, rtol=1e-5)
    other = TeacherVectorsMetrics()
    other.replace(parts.collected())
    assert other.scores().values == parts.scores().values
