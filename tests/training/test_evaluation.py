"""Evaluation: predictions without dropout, in the requested precision, over the whole split, however it is batched."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics.texts import ClassificationMetrics
from encoderlab.system.device import Compute
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.training.evaluation import evaluate

CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")
BF16 = Compute(torch.device("cpu"), torch.bfloat16, 1, "test")
IDS = torch.randint(20, (30, 4), generator=torch.Generator().manual_seed(0))
LABELS = torch.randint(2, (30,), generator=torch.Generator().manual_seed(1))


class Dropping(nn.Module):
    """A model with dropout of one half that records how it was called."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.dropout, self.head = nn.Embedding(20, 8), nn.Dropout(0.5), nn.Linear(8, 2)
        self.calls = []

    def forward(self, batch):
        logits = self.head(self.dropout(self.embedding(batch.input_ids).mean(1)))
        self.calls.append((self.training, logits.requires_grad, logits.dtype))
        return Prediction(logits)


def batches(groups):
    """Return the given groups of rows as batches."""
    empty = torch.empty(0, dtype=torch.long)
    for group in groups:
        rows = torch.tensor(group)
        ids = IDS[rows]
        yield Batch(ids, torch.zeros_like(ids), None, rows, empty, LABELS[rows], None, ids.numel())


def scored(model, groups, compute=CPU, processes=SINGLE_PROCESS):
    return evaluate(model, batches(groups), ClassificationMetrics(["no", "yes"]), compute, processes)


ALL = [list(range(30))]


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(30)), cuts=st.sets(st.integers(1, 29), max_size=8))
def test_scores_do_not_depend_on_the_batches(order, cuts):
    model = Dropping()
    whole, parts = scored(model, ALL), scored(model, [list(group) for group in np.split(order, sorted(cuts))])
    assert parts.values == pytest.approx(whole.values, abs=1e-6)
    assert parts.predicted.tolist() == whole.predicted.tolist()
    assert parts.rows.tolist() == list(range(30))


def test_evaluation_uses_no_dropout_and_keeps_no_gradient():
    model = Dropping().train()
    first, second = scored(model, ALL), scored(model.train(), ALL)
    assert first.values == second.values
    assert model.calls == [(False, False, torch.float32)] * 2


@pytest.mark.parametrize("training", [True, False])
def test_the_model_keeps_its_train_or_eval_mode_even_after_an_error(training):
    model = Dropping().train(training)
    scored(model, ALL)
    assert (model.training, model.dropout.training) == (training, training)
    assert not any(in_training for in_training, *_ in model.calls)
    with pytest.raises(IndexError):
        scored(model, [[30]])
    assert model.dropout.training is training
