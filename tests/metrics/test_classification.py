"""Scores of whole sequences: over the whole split, in its order, however it was batched."""

import json
import warnings

import numpy as np
import pytest
import sklearn.metrics
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import TrainingError
from encoderlab.metrics.texts import ClassificationMetrics


def batch_of(rows, labels):
    empty = torch.empty(0, dtype=torch.long)
    ids = torch.zeros(len(rows), 3, dtype=torch.long)
    labels = None if labels is None else torch.tensor(labels, dtype=torch.int32)
    return Batch(ids, ids, None, torch.tensor(rows), empty, labels, None, ids.numel())


def scores_of(labels, logits, names, *, order=None, size=7):
    order = np.arange(len(labels)) if order is None else order
    metrics = ClassificationMetrics(names)
    for start in range(0, len(labels), size):
        rows = order[start : start + size]
        logits_of_rows = torch.tensor(np.asarray(logits)[rows], dtype=torch.float32)
        metrics.keep(
            metrics.columns(Prediction(sequence_logits=logits_of_rows), batch_of(rows, np.asarray(labels)[rows]))
        )
    return metrics.scores()


@pytest.mark.parametrize(("positive", "f1"), [(0, 0.0), (1, 0.994)])
def test_f1_and_roc_auc_refer_to_the_positive_class(positive, f1):
    # One fraud among 84 rows, not found: F1 of the other class looks perfect.
    labels = np.array([0] + [1] * 83)
    metrics = ClassificationMetrics(["fraud", "ham"], positive=positive)
    logits = torch.zeros(84, 2)
    logits[:, 1] = 3.0
    logits[0, 1] = 2.0  # the likeliest to be fraud, all the same
    metrics.keep(metrics.columns(Prediction(sequence_logits=logits), batch_of(range(84), labels)))
    scores = metrics.scores()
    assert scores.values["f1"] == pytest.approx(f1, abs=5e-4)
    assert scores.values["roc_auc"] == 1.0
    assert scores.as_dict()["positive_label"] == ["fraud", "ham"][positive]


def certain(answers, n_classes):
    return np.eye(n_classes)[np.asarray(answers)] * 4


@pytest.mark.filterwarnings("ignore:A single label was found")
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(2, 5), st.integers(1, 20))
def test_every_figure_equals_scikit_learns_over_the_whole_split(seed, n, n_classes, size):
    random = np.random.default_rng(seed)
    labels, logits = random.integers(0, n_classes, n), random.normal(size=(n, n_classes))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = scores_of(labels, logits, [f"c{i}" for i in range(n_classes)], order=random.permutation(n), size=size)
    answers = logits.argmax(1)
    chances = torch.tensor(logits, dtype=torch.float32).double().softmax(-1).numpy()
    assert scores.n == n
    assert scores.labels.tolist() == labels.tolist()
    assert scores.predicted.tolist() == answers.tolist()
    assert scores.rows.tolist() == list(range(n))
    np.testing.assert_allclose(scores.probabilities, chances, atol=1e-7)
    assert scores.values["accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(labels, answers))
    assert scores.values["loss"] == pytest.approx(
        sklearn.metrics.log_loss(labels, chances, labels=range(n_classes)), rel=1e-5
    )
    for average in ("macro", "weighted"):
        expected = sklearn.metrics.f1_score(labels, answers, average=average, zero_division=0)
        assert scores.values[f"f1_{average}"] == pytest.approx(expected)
    assert scores.values["matthews"] == pytest.approx(sklearn.metrics.matthews_corrcoef(labels, answers))
    assert scores.confusion == sklearn.metrics.confusion_matrix(labels, answers, labels=range(n_classes)).tolist()


def test_roc_auc_is_omitted_if_the_split_has_one_class():
    figures = scores_of([1, 1], certain([1, 0], 2), ["no", "yes"]).values
    assert "roc_auc" not in figures
    assert figures["accuracy"] == 0.5


def test_scores_are_json_with_the_keys_of_the_contract():
    scores = scores_of([0, 1, 1], certain([0, 1, 0], 2), ["no", "yes"]).with_intervals(seed=1).as_dict()
    assert json.loads(json.dumps(scores)) == scores
    contract = "n loss accuracy f1_macro f1_weighted per_class confusion accuracy_ci95 f1_macro_ci95 f1 roc_auc positive_label average_precision"
    assert set(contract.split()) | {"f1_ci95", "f1_weighted_ci95", "matthews", "matthews_ci95"} == set(scores)
    assert scores["per_class"]["yes"]["support"] == 2
    assert scores["confusion"] == [[1, 0], [1, 1]]


def test_stored_logits_do_not_change_when_the_model_reuses_its_buffer():
    metrics, buffer = ClassificationMetrics(["no", "yes"]), torch.tensor([[0.0, 1.0]])
    metrics.keep(metrics.columns(Prediction(sequence_logits=buffer), batch_of([0], [1])))
    buffer.copy_(torch.tensor([[1.0, 0.0]]))
    metrics.keep(metrics.columns(Prediction(sequence_logits=buffer), batch_of([1], [0])))
    assert metrics.scores().values["accuracy"] == 1.0


def test_nan_logits_are_refused_with_a_remedy():
    logits = [[0.0, 1.0], [float("nan"), 1.0], [float("inf"), 1.0]]
    with pytest.raises(
        TrainingError, match=r"not finite numbers in 2 of 3 scored positions.*lower training\.learning_rate"
    ):
        scores_of([0, 1, 1], logits, ["no", "yes"])
