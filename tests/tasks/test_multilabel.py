"""Multi-label: a 0 or 1 for each label, and a prediction of every label at or above its threshold."""

from pathlib import Path

import numpy as np
import pytest
import torch

from encoderlab.batch import Prediction
from encoderlab.data.examples import TextExample
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.errors import SettingError
from encoderlab.tasks.config import FittedThresholds, MultilabelConfig
from encoderlab.tasks.rows import hold_encoded
from encoderlab.tasks.texts import Multilabel
from encoderlab.training.loss import losses

TOKENIZER = SymbolsConfig().build(lambda: [], Path())
LABELS = ["anger", "fear", "joy"]


def task_of(**settings):
    return Multilabel(MultilabelConfig(name="test", **settings), TOKENIZER, LABELS, 16)


def rows_of(task, *examples):
    return hold_encoded(task.encode(list(examples)), TOKENIZER.vocabulary_size, task.heads)


def test_a_batch_has_a_0_or_1_for_each_label_of_each_row():
    task = task_of()
    rows = rows_of(task, TextExample("12", None, (0, 2)), TextExample("3", "4", ()), TextExample("5", None, (1,)))
    batch = rows.gather(np.array([2, 0, 1]), TOKENIZER.pad_id)
    assert batch.labels.tolist() == [[0, 1, 0], [1, 0, 1], [0, 0, 0]] and batch.labels.dtype == torch.float32
    assert [half.labels.tolist() for half in batch.halves()] == [[[0, 1, 0]], [[1, 0, 1], [0, 0, 0]]]


def test_rows_with_unknown_labels_differ_from_rows_without_labels():
    rows = rows_of(task_of(), TextExample("1", None, None), TextExample("2", None, ()))
    assert rows.gather(np.array([0, 1]), TOKENIZER.pad_id).labels is None
    assert rows.gather(np.array([1]), TOKENIZER.pad_id).labels is not None


def test_the_loss_is_the_binary_cross_entropy_averaged_over_the_labels_and_summed_over_the_rows():
    batch = rows_of(task_of(), TextExample("1", None, (0,)), TextExample("2", None, ())).gather(
        np.arange(2), TOKENIZER.pad_id
    )
    logits = torch.zeros(2, 3)
    found = losses(Prediction(sequence_logits=logits), batch)["sequence"]
    assert float(found) == pytest.approx(2 * np.log(2))


def test_every_label_is_predicted_from_its_threshold_on_by_default_a_half():
    task = task_of(thresholds={"anger": 0.9, "fear": 0.2})
    (answer,) = task.answers_of(torch.logit(torch.tensor([[0.8, 0.3, 0.6]])))
    assert answer.labels == ("fear", "joy") and answer.number is None
    assert answer.probabilities == pytest.approx((0.8, 0.3, 0.6), abs=1e-6)
    assert answer.in_words() == "fear, joy"


def test_a_threshold_can_be_chosen_for_a_precision():
    task = task_of(thresholds={"joy": "precision:0.75", "fear": 0.4})
    assert task.answers_of(torch.logit(torch.tensor([[0.2, 0.3, 0.6]])))[0].labels == (
        "joy",
    )  # until it is chosen, a half
    metrics = task.metrics()
    marks = [(2,), (2,), (), (2,), (), ()]
    batch = rows_of(task, *(TextExample(str(row), None, ids) for row, ids in enumerate(marks))).gather(
        np.arange(6), TOKENIZER.pad_id
    )
    chances = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.2])
    metrics.add(Prediction(sequence_logits=torch.logit(chances)[:, None].expand(6, 3)), batch)
    scores = metrics.scores()
    assert scores.thresholds.tolist()[1:] == [0.4, pytest.approx(0.55)]
    with pytest.raises(SettingError, match="names 'jy', which is not a label"):
        task_of(thresholds={"jy": "precision:0.75"})
    with pytest.raises(SettingError, match="gives joy precision:9. Allowed: a probability, or precision:0.9"):
        task_of(thresholds={"joy": "precision:9"})


def test_scoring_fits_open_thresholds_and_keeps_the_others():
    metrics = task_of(thresholds={"joy": 0.7}, fit_thresholds=FittedThresholds.shared).metrics()
    assert metrics.thresholds == {"joy": 0.7} and metrics.shared


def test_a_threshold_of_an_unknown_label_or_out_of_range_is_refused():
    with pytest.raises(SettingError, match="names 'joi', which is not a label of the data.*Did you mean joy"):
        task_of(thresholds={"joi": 0.5})
    with pytest.raises(SettingError, match="gives joy 1.5.*Allowed: a probability"):
        task_of(thresholds={"joy": 1.5})
