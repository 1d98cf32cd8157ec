"""Losses are sums over the answers, by question."""

import pytest
import torch

from encoderlab.batch import Batch, Prediction
from encoderlab.training.loss import answers, losses


def batch(labels=None, token_labels=None):
    asked = torch.arange(0 if token_labels is None else len(token_labels))
    ids = torch.ones(4, 5, dtype=torch.long)
    return Batch(
        input_ids=ids,
        token_type_ids=torch.zeros_like(ids),
        attention_mask=None,
        rows=torch.arange(4),
        asked=asked,
        labels=labels,
        token_labels=token_labels,
        n_tokens=20,
    )


def test_both_questions_are_summed_and_counted_each_by_itself():
    torch.manual_seed(0)
    labels, token_labels = torch.tensor([0, 1, 1, 0]), torch.tensor([2, 0, 1, 2, 2, 1])
    prediction = Prediction(torch.randn(4, 2), torch.randn(6, 3))
    asked = batch(labels, token_labels)
    found = losses(prediction, asked)
    assert found["sequence"].item() == pytest.approx(-prediction.sequence_logits.log_softmax(-1)[range(4), labels].sum().item())
    assert found["token"].item() == pytest.approx(-prediction.token_logits.log_softmax(-1)[range(6), token_labels].sum().item())
    assert answers(asked) == {"sequence": 4, "token": 6}


def test_a_question_nobody_answers_has_no_loss():
    assert losses(Prediction(torch.randn(4, 2)), batch()) == {}
    assert answers(batch()) == {}


def test_low_precision_logits_lose_nothing_in_the_sum():
    labels = torch.tensor([0, 1, 1, 0])
    logits = torch.randn(4, 2).bfloat16()
    assert losses(Prediction(logits), batch(labels))["sequence"].dtype is torch.float32
