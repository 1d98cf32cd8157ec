"""Regression: the model sees scaled numbers, and users see their own units."""

from pathlib import Path

import numpy as np
import pytest
import torch

from encoderlab.batch import Prediction
from encoderlab.data.examples import TextExample
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.tasks.config import RegressionConfig, RegressionScore
from encoderlab.tasks.rows import hold_encoded
from encoderlab.tasks.texts import Regression
from encoderlab.training.loss import losses

TOKENIZER = SymbolsConfig().build(lambda: [], Path())


def task_of(mean=100.0, deviation=20.0, **settings):
    return Regression(RegressionConfig(name="test", mean=mean, deviation=deviation, **settings), TOKENIZER, [], 16)


def batch_of(task, *numbers):
    examples = [TextExample("1", "2", number) for number in numbers]
    rows = hold_encoded(task.encode(examples), TOKENIZER.vocabulary_size, task.heads)
    return rows.gather(np.arange(len(numbers)), TOKENIZER.pad_id)


def test_a_batch_holds_standardised_numbers():
    batch = batch_of(task_of(), 100.0, 140.0, -1.0)
    assert batch.labels.tolist() == pytest.approx([0.0, 2.0, -5.05]) and batch.labels.dtype == torch.float32


def test_an_unknown_number_is_nan():
    assert batch_of(task_of(), 100.0, None).labels is None


def test_the_loss_is_the_squared_error_of_the_scaled_numbers():
    found = losses(Prediction(sequence_logits=torch.tensor([[1.0], [0.5]])), batch_of(task_of(), 100.0, 140.0))[
        "sequence"
    ]
    assert float(found) == pytest.approx(1.0 + 1.5**2)


def test_a_prediction_is_in_the_units_of_the_rows():
    (answer,) = task_of().answers_of(torch.tensor([[2.0]]))
    assert answer.number == pytest.approx(140) and answer.labels == () and answer.in_words() == "140"


def test_the_store_depends_on_the_scale_and_the_score_is_the_main_figure():
    assert task_of().key != task_of(mean=99.0).key != task_of(mean=99.0, deviation=21.0).key
    task = task_of(score=RegressionScore.mae)
    assert task.score == "mae" and task.metrics().main == "mae"
