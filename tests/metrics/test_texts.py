"""Scores of whole texts with a label, a set of labels or a number: over the whole split, in its order, however it was batched;
the figures equal those of scikit-learn and SciPy.
"""

import json
import warnings

import numpy as np
import pytest
import sklearn.metrics
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import TrainingError
from encoderlab.metrics.texts import ClassificationMetrics, LabelSetMetrics, NumberScores, RegressionMetrics, rounded


def batch_of(rows, labels, dtype=torch.int32):
    empty = torch.empty(0, dtype=torch.long)
    ids = torch.zeros(len(rows), 3, dtype=torch.long)
    labels = torch.from_numpy(np.asarray(labels)).to(dtype)
    return Batch(ids, ids, None, torch.tensor(rows), empty, labels, None, ids.numel())


def scores_of(labels, logits, names, *, order=None, size=7):
    order = np.arange(len(labels)) if order is None else order
    metrics, kept = ClassificationMetrics(names), []
    for start in range(0, len(labels), size):
        rows = order[start : start + size]
        logits_of_rows = torch.tensor(np.asarray(logits)[rows], dtype=torch.float32)
        kept.append(
            metrics.columns(Prediction(sequence_logits=logits_of_rows), batch_of(rows, np.asarray(labels)[rows]))
        )
    return metrics.scores(kept)


@pytest.mark.parametrize(("positive", "f1"), [(0, 0.0), (1, 0.994)])
def test_f1_and_roc_auc_refer_to_the_positive_class(positive, f1):
    # One fraud among 84 rows, not found: F1 of the other class looks perfect.
    labels = np.array([0] + [1] * 83)
    metrics = ClassificationMetrics(["fraud", "ham"], positive=positive)
    logits = torch.zeros(84, 2)
    logits[:, 1] = 3.0
    logits[0, 1] = 2.0  # the likeliest to be fraud, all the same
    scores = metrics.scores([metrics.columns(Prediction(sequence_logits=logits), batch_of(range(84), labels))])
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


@pytest.mark.parametrize(("label", "undefined"), [(1, {"matthews", "roc_auc", "average_precision"}), (0, {"f1"})])
def test_scores_that_one_class_leaves_undefined_are_null_with_the_reason(label, undefined):
    figures = scores_of([label, label], certain([1, 0], 2), ["no", "yes"]).with_intervals(seed=1).as_dict()
    assert undefined <= figures["undefined"].keys()
    for name, reason in figures["undefined"].items():
        assert figures[name] is None and repr(("no", "yes")[label]) in reason
    assert figures["accuracy"] == 0.5 and figures.get("matthews_ci95") is None


def test_scores_are_json_with_the_keys_of_the_contract():
    scores = scores_of([0, 1, 1], certain([0, 1, 0], 2), ["no", "yes"]).with_intervals(seed=1).as_dict()
    assert json.loads(json.dumps(scores)) == scores
    contract = "n loss accuracy f1_macro f1_weighted per_class confusion accuracy_ci95 f1_macro_ci95 f1 roc_auc positive_label average_precision"
    assert set(contract.split()) | {
        "f1_ci95",
        "f1_weighted_ci95",
        "matthews",
        "matthews_ci95",
        *("cohen_kappa", "cohen_kappa_ci95"),
    } == set(scores)
    assert scores["per_class"]["yes"]["support"] == 2
    assert scores["confusion"] == [[1, 0], [1, 1]]


def test_stored_logits_do_not_change_when_the_model_reuses_its_buffer():
    metrics, buffer = ClassificationMetrics(["no", "yes"]), torch.tensor([[0.0, 1.0]])
    first = metrics.columns(Prediction(sequence_logits=buffer), batch_of([0], [1]))
    buffer.copy_(torch.tensor([[1.0, 0.0]]))
    second = metrics.columns(Prediction(sequence_logits=buffer), batch_of([1], [0]))
    assert metrics.scores([first, second]).values["accuracy"] == 1.0


def test_nan_logits_are_refused_with_a_remedy():
    logits = [[0.0, 1.0], [float("nan"), 1.0], [float("inf"), 1.0]]
    with pytest.raises(
        TrainingError, match=r"not finite numbers in 2 of 3 scored positions.*lower training\.learning_rate"
    ):
        scores_of([0, 1, 1], logits, ["no", "yes"])


NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def drawn_sets():
    random = np.random.default_rng(0)
    labels = random.random((300, 3)) < [0.5, 0.2, 0.1]
    return labels, labels * 2.0 + random.normal(size=(300, 3)) - 1


def scores_of_sets(labels, logits, thresholds=None, main_score="f1_micro"):
    names = NAMES if labels.shape[1] == len(NAMES) else [f"label {place}" for place in range(labels.shape[1])]
    metrics = LabelSetMetrics(names, dict.fromkeys(names, 0.5) if thresholds is None else thresholds, main_score)
    order, kept = np.random.default_rng(1).permutation(len(labels)), []
    for some in np.array_split(order, 4):
        batch = batch_of(some, labels[some], torch.float32)
        kept.append(metrics.columns(Prediction(sequence_logits=torch.tensor(logits[some], dtype=torch.float32)), batch))
    return metrics.scores(kept)


def test_the_figures_of_sets_equal_scikit_learns(drawn_sets):
    labels, logits = drawn_sets
    scores = scores_of_sets(labels, logits)
    predicted = logits >= 0
    assert scores.values["f1_micro"] == pytest.approx(sklearn.metrics.f1_score(labels, predicted, average="micro"))
    assert scores.values["f1_macro"] == pytest.approx(sklearn.metrics.f1_score(labels, predicted, average="macro"))
    assert scores.values["subset_accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(labels, predicted))
    precision = sklearn.metrics.average_precision_score(labels, logits, average="macro")
    assert scores.values["average_precision_macro"] == pytest.approx(precision)
    by_label = sklearn.metrics.f1_score(labels, predicted, average=None)
    assert [one["f1"] for one in scores.per_class.values()] == pytest.approx(by_label.tolist())


def test_a_macro_average_lies_in_its_interval_if_labels_with_one_row_are_never_found():
    labels = np.eye(40, dtype=bool)[np.repeat([*range(30), 30], [1] * 30 + [70])]
    logits = np.where(labels & (np.arange(40) == 30), 2.0, -2.0)
    scores = scores_of_sets(labels, logits).with_intervals(seed=0)
    low, high = scores.intervals["f1_macro"]
    assert 0 <= low <= scores.values["f1_macro"] <= high <= 1


def test_fitted_thresholds_beat_one_half_on_their_own_rows(drawn_sets):
    labels, logits = drawn_sets
    logits = logits - 1.5  # a model that is too cautious
    plain, fitted = scores_of_sets(labels, logits), scores_of_sets(labels, logits, thresholds={})
    assert fitted.values["f1_micro"] > plain.values["f1_micro"] + 0.05
    assert len(set(fitted.thresholds.tolist())) == 3


def test_a_label_of_no_set_does_not_count():
    labels = np.array([[True, False, False], [False, False, False]])
    scores = scores_of_sets(labels, np.array([[2.0, -2, -2], [-2.0, -2, -2]]))
    assert scores.values["f1_macro"] == 1 and scores.values["average_precision_macro"] == 1
    assert scores.per_class["c"]["average_precision"] is None


MEAN, DEVIATION = 20_230_000.0, 120.0


def scores_of_numbers(labels, predicted, main_score="pearson"):
    """Score numbers in the user's units, passed in scaled and out of order as a model gives them."""
    metrics, kept = RegressionMetrics(MEAN, DEVIATION, main_score), []
    for rows in np.array_split(np.random.default_rng(3).permutation(len(labels)), 3):
        scaled, answers = ((side[rows] - MEAN) / DEVIATION for side in (labels, predicted))
        prediction = Prediction(sequence_logits=torch.from_numpy(answers).float()[:, None])
        kept.append(metrics.columns(prediction, batch_of(rows, scaled, torch.float32)))
    return metrics.scores(kept)


@pytest.fixture(scope="module")
def drawn_numbers():
    random = np.random.default_rng(0)
    labels = np.round(MEAN + DEVIATION * random.normal(size=200))
    return labels, labels + 60 * random.normal(size=200)


def test_the_figures_of_numbers_equal_scipys_in_the_users_units(drawn_numbers):
    labels, predicted = drawn_numbers
    figures = scores_of_numbers(labels, predicted).values
    assert figures["pearson"] == pytest.approx(pearsonr(labels, predicted)[0], abs=1e-6)
    assert figures["spearman"] == pytest.approx(spearmanr(labels, predicted)[0], abs=1e-4)
    assert figures["mae"] == pytest.approx(np.abs(labels - predicted).mean(), abs=1e-3)
    assert figures["rmse"] == pytest.approx(((labels - predicted) ** 2).mean() ** 0.5, abs=1e-3)
    assert figures["loss"] == pytest.approx((figures["rmse"] / DEVIATION) ** 2, rel=1e-4)


def test_numbers_come_back_as_they_were_written(drawn_numbers):
    assert scores_of_numbers(*drawn_numbers).labels.tolist() == drawn_numbers[0].tolist()
    assert rounded(np.array([3.5999999046]), 1.0).tolist() == [3.6]


@pytest.mark.parametrize("main_score", ["pearson", "spearman", "mae", "rmse"])
def test_a_lead_is_positive_if_the_model_is_better_even_for_errors(drawn_numbers, main_score):
    labels, predicted = drawn_numbers
    worse = labels + 3 * (predicted - labels)
    lead, (low, high) = scores_of_numbers(labels, predicted, main_score).lead_over(worse, seed=0)
    assert 0 < low < lead < high
    assert lead == pytest.approx(
        abs(
            NumberScores.from_predictions(labels, predicted, main_score=main_score).values[main_score]
            - NumberScores.from_predictions(labels, worse, main_score=main_score).values[main_score]
        ),
        rel=1e-3,
    )


def test_a_correlation_with_constant_predictions_is_0_and_with_constant_labels_null():
    numbers = np.array([1.0, 2.0, 4.0])
    assert NumberScores.from_predictions(numbers, np.full(3, 7 / 3), main_score="mae").as_dict()["pearson"] == 0
    scores = NumberScores.from_predictions(np.full(3, 2.5), numbers, main_score="mae").as_dict()
    assert scores["pearson"] is None and scores["spearman"] is None and "2.5" in scores["undefined"]["pearson"]
