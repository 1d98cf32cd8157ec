"""Scores of numbers: SciPy's correlations, errors in the user's units, intervals, and 0 for undefined values."""

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics.texts import NumberScores, RegressionMetrics, rounded

MEAN, DEVIATION = 20_230_000.0, 120.0


def scores_of(labels, predicted, main_score="pearson"):
    """Score numbers in the user's units, passed in scaled and out of order as a model gives them."""
    metrics = RegressionMetrics(MEAN, DEVIATION, main_score)
    for rows in np.array_split(np.random.default_rng(3).permutation(len(labels)), 3):
        scaled = [torch.tensor((side[rows] - MEAN) / DEVIATION, dtype=torch.float32) for side in (labels, predicted)]
        ids = torch.ones(len(rows), 2, dtype=torch.long)
        batch = Batch(
            ids, ids, None, torch.tensor(rows), torch.empty(0, dtype=torch.long), scaled[0], None, 2 * len(rows)
        )
        metrics.keep(metrics.columns(Prediction(sequence_logits=scaled[1][:, None]), batch))
    return metrics.scores()


@pytest.fixture(scope="module")
def drawn():
    random = np.random.default_rng(0)
    labels = np.round(MEAN + DEVIATION * random.normal(size=200))
    return labels, labels + 60 * random.normal(size=200)


def test_the_figures_equal_scipys_in_the_users_units(drawn):
    labels, predicted = drawn
    figures = scores_of(labels, predicted).values
    assert figures["pearson"] == pytest.approx(pearsonr(labels, predicted)[0], abs=1e-6)
    assert figures["spearman"] == pytest.approx(spearmanr(labels, predicted)[0], abs=1e-4)
    assert figures["mae"] == pytest.approx(np.abs(labels - predicted).mean(), abs=1e-3)
    assert figures["rmse"] == pytest.approx(((labels - predicted) ** 2).mean() ** 0.5, abs=1e-3)
    assert figures["loss"] == pytest.approx((figures["rmse"] / DEVIATION) ** 2, rel=1e-4)


def test_labels_come_back_as_they_were_written(drawn):
    assert scores_of(*drawn).labels.tolist() == drawn[0].tolist()
    assert rounded(np.array([3.5999999046]), 1.0).tolist() == [3.6]


@pytest.mark.parametrize("main_score", ["pearson", "spearman", "mae", "rmse"])
def test_a_lead_is_positive_if_the_model_is_better_even_for_errors(drawn, main_score):
    labels, predicted = drawn
    worse = labels + 3 * (predicted - labels)
    lead, (low, high) = scores_of(labels, predicted, main_score).lead_over(worse, seed=0)
    assert 0 < low < lead < high
    assert lead == pytest.approx(
        abs(
            NumberScores.of(labels, predicted, main_score=main_score).values[main_score]
            - NumberScores.of(labels, worse, main_score=main_score).values[main_score]
        ),
        rel=1e-3,
    )


def test_a_correlation_with_a_constant_is_0():
    numbers = np.array([1.0, 2.0, 4.0])
    assert NumberScores.of(numbers, np.full(3, 7 / 3), main_score="mae").values["pearson"] == 0
    assert NumberScores.of(np.full(3, 0.1), numbers, main_score="mae").values["spearman"] == 0
